"""Reuse of records of earlier tunings: an answer without a search, or a warm start."""
