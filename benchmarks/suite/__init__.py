"""The operator suite: formulas, peers, and the contests between them."""
