"""Benchmarks of whole models: the ladder of twelve, their latency beside other runtimes."""
