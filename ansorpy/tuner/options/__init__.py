"""Options of a tuning, each defined once: types, limits, defaults, refusals."""
