"""Parts of a tuning: a cost model, a search strategy, a measuring back end."""
