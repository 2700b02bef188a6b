"""The tuning spine: options, tasks, rounds, scheduler, final race, checkpoint, time budget."""
