"""Whole models: import, passes, partition, tuning, bundle, verification, race."""
