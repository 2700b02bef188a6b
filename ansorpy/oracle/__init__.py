"""The meaning of a Dag in float64, with error bounds: what kernels are checked against."""
