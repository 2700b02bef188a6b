"""Emulation that tests and benchmarks need beyond the back end: a log, a driver of a GPU."""
