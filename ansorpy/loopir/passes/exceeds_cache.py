"""Size of a buffer against the size of a cache."""

from math import prod

from ansorpy.expr.expr import SIZE_BYTES, Const
from ansorpy.loopir.nodes import Buffer


def fills(buffer: Buffer, cache_bytes: int) -> bool:
    """Whether a bound buffer takes most of a cache; glibc's memcpy draws the line there, too."""
    extents = [int(n.value) for n in buffer.shape if isinstance(n, Const)]
    return 4 * prod(extents) * SIZE_BYTES[buffer.dtype] >= 3 * cache_bytes
