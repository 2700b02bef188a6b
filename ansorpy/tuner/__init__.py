"""The tuning: `api` for people, `tune` the spine, and a room for each part of its work."""
