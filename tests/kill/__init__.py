"""Kills the processes of a running service, and counts what it lost."""
