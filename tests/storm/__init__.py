"""Load of crashing and hanging candidates on a service."""
