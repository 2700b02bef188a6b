"""One search on several slots."""
