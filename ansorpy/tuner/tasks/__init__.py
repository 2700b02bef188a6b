"""Tasks of a tuning: plans, outcomes, checkpoints, twins, and the time that is left."""
