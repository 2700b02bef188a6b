"""Scalar expressions: affine forms, bounds, simplification, evaluation over sizes."""
