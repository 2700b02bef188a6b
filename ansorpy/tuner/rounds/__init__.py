"""Set-up and rounds of a tuning: scheduler, state of the search, preflight."""
