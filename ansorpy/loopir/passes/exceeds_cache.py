"""Comparison of the size of a buffer with that of a cache."""

from math import prod

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer


def fills(buffer: Buffer, cache_bytes: int) -> bool:
    """Return True if a bound buffer takes 3/4 of a cache: the threshold of glibc's memcpy."""
    extents = [int(n.value) for n in buffer.shape if isinstance(n, Const)]
    return 4 * prod(extents) * SIZE_BYTES[buffer.dtype] >= 3 * cache_bytes
