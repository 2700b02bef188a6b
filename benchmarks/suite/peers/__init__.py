"""The contestants, one file each, which turn a form into a call.

A module has `prepare(job) -> Ready`. It is imported in the environment of its peer, which has
numpy and the peer's own packages, but not ansorpy.
"""
