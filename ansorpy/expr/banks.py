"""Banks of shared memory that the threads of a warp touch together.

A wave takes one word of 4 bytes from each of 32 banks. Accesses of 8 bytes go in halves of a warp,
accesses of 16 bytes in quarters.
"""

from typing import Final

import numpy as np

from ansorpy.expr.coalescing import WARP, IntArray

BANKS: Final = 32
WORD_BYTES: Final = 4  # width of a bank


def waves(places: IntArray, size_bytes: int) -> int:
    """Return the waves of one request of a warp: different words of a bank take turns.

    Args:
        places: the first byte of each thread's access.
        size_bytes: bytes of an access.
    """
    words = max(1, size_bytes // WORD_BYTES)
    taken = (places // WORD_BYTES)[:, None] + np.arange(words)
    lanes = max(1, WARP // words)
    groups = [taken[k : k + lanes] for k in range(0, len(taken), lanes)]
    return sum(int(np.bincount(np.unique(group) % BANKS).max()) for group in groups)
