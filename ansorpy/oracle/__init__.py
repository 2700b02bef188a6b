"""The meaning of a Dag in float64, with error bounds: the reference of every kernel."""
