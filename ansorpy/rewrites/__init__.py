"""Rewrites of a Dag that steps replay.

They cover tensor instructions, Winograd, padding, transposed and grouped convolutions.
"""
