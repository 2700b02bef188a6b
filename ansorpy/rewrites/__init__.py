"""Rewrites of a Dag that steps replay: tensor instructions, Winograd, padding, transposed and
grouped convolutions."""
