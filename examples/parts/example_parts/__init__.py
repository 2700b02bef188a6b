"""Two parts of a tuning: a cost model and a search strategy."""
