"""Timing of kernels: protocol, trials, re-ranking of the shortlist, the final race."""
