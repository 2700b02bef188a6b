"""Jobs in the database: submission, queries per tenant, state transitions, leases, events."""
