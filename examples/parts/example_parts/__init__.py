"""Parts of a tuning: cost model, search strategy, space generator, measuring back
end, store."""
