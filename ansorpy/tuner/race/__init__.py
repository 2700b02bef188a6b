"""The end of a task: the race against the baselines, and the kernel that it delivers."""
