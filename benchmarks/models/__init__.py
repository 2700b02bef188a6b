"""Whole models: the ladder of twelve, and their latency beside that of other runtimes."""
