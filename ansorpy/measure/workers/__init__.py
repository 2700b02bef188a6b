"""Worker processes: fork server, sandboxed children, the pool and its pipeline."""
