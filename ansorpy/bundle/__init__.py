"""Bundles: one zip that runs a whole model with NumPy only."""
