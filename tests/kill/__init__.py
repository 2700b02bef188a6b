"""Kill processes of a running service, and count lost data."""
