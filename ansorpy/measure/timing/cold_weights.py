"""Cold weights: timed calls that find their weights where a model leaves them (ADR-0126).

The calls of a kernel go round copies of its weights. Together the copies are as large as the
weights of the model, or twice the cache that these exceed: until a copy has its turn again, the
others have displaced it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final

from ansorpy.measure.verify.guard_pages import LINE_BYTES, PAGE_BYTES, aligned_empty
from ansorpy.measure.verify.inputs import Array
from ansorpy.target import Target
from ansorpy.te.analysis import weight_bytes
from ansorpy.te.dag import Dag

SWEEPS: Final = 2  # times the cache: an inexact LRU keeps parts of the oldest copies
LEAST_BYTES: Final = 64 * 1024  # least weights of a cold task: misses of fewer take microseconds
MOST: Final = 2048  # copies, if calls read less than the task is given
MEMORY_SHARE: Final = 1 / 16  # share of this machine's memory for all copies of a process


def cold_bytes(weights_bytes: int, target: Target) -> int:
    """Return the size of all copies of the weights of a kernel; 0: to be timed with hot weights.

    Weights that fit the L2 caches of the kernel's cores are hot. Copies of others come from the
    cache or memory that the weights of the model come from (ADR-0126).

    Args:
        weights_bytes: of all weights of the model.
        target: the processor; `cores` counts the cores of the kernel.
    """
    private_bytes = target.cores * target.scratch_bytes  # L2
    if weights_bytes <= private_bytes:
        return 0
    cache_bytes = private_bytes if weights_bytes <= target.l3_bytes else target.l3_bytes
    return min(weights_bytes, SWEEPS * cache_bytes)


def has_cold_weights(dag: Dag) -> bool:
    """Return True if the weights of a task are large enough to be timed cold."""
    return sum(weight_bytes(dag).values()) >= LEAST_BYTES


def affordable(total_bytes: int, kernels: int) -> int:
    """Return the size of the copies of each of several kernels, within their share of memory."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total_bytes, int(MEMORY_SHARE * memory_bytes) // kernels)


def copies(weights: Mapping[str, Array], total_bytes: int) -> list[dict[str, Array]]:
    """Return copies of arrays that make up `total_bytes` with them.

    A copy begins at the same place in a page as the array does. There are at most MOST.
    """
    own_bytes = sum(array.nbytes for array in weights.values())
    return [
        {name: copied(array) for name, array in weights.items()}
        for _ in range(min(MOST, -(-total_bytes // max(1, own_bytes)) - 1))
    ]


def copied(array: Array) -> Array:
    """Return a copy of an array that begins at the same cache line of a page."""
    line = array.ctypes.data % PAGE_BYTES // LINE_BYTES
    made = aligned_empty(array.size, array.dtype, line).reshape(array.shape)
    made[...] = array
    return made


def in_turns(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Return a function that calls the given functions in turns, one at each call."""
    return in_common_turns([calls])[0]


def in_common_turns(rows: Sequence[Sequence[Callable[[], None]]]) -> list[Callable[[], None]]:
    """Return a function for each row of calls, one per copy: a call of any takes the next copy."""
    if len(rows[0]) == 1:
        return [row[0] for row in rows]
    turns = cycle(range(len(rows[0])))

    def of(row: Sequence[Callable[[], None]]) -> Callable[[], None]:
        return lambda: row[next(turns)]()

    return [of(row) for row in rows]
