"""Everyone who takes part, one file each: how a form becomes a call.

A module has `prepare(job) -> Ready`. It is imported in the environment of its peer, which has
numpy and the peer's own packages, and nothing of ours.
"""
