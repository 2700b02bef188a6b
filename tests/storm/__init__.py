"""A storm of crashing and hanging candidates, and what the service makes of it."""
