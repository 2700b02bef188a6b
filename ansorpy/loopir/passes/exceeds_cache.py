"""Comparison of the size of a buffer with the size of a cache."""

from ansorpy.loopir.nodes import Buffer


def fills(buffer: Buffer, cache_bytes: int) -> bool:
    """Return True if a bound buffer takes 3/4 of a cache: the threshold of glibc's memcpy."""
    return 4 * buffer.size_bytes >= 3 * cache_bytes
