"""What a tuning knows while it runs: the state of a task, its past, its final race."""
