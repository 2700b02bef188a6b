"""The operator suite: what is computed, who else computes it, and the contests between them."""
