"""Keys of rows, removal of duplicates, and comparison with the rows seen before."""

from typing import Final

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
KeyArray = npt.NDArray[np.uint64]

# Odd 64-bit constants of the splitmix64 generator (Steele, Lea, Flood, OOPSLA 2014).
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def keys(rows: IntArray) -> KeyArray:
    """Return a 64-bit key per row, shape (n,); equal rows have equal keys.

    Two different rows share a key with probability 2**-64, in which case the second candidate is
    not tried. In return, one sort compares a whole population.
    """
    places = np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * _STEP
    mixed = _mixed(rows.astype(np.uint64) + places)  # equal numbers differ by column
    return _mixed(mixed.sum(axis=1, dtype=np.uint64))


def _mixed(numbers: KeyArray) -> KeyArray:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
    return numbers ^ (numbers >> np.uint64(31))


def unique(rows: IntArray) -> IntArray:
    """Return the rows without repeats, in order of first appearance."""
    return rows[first_of_each(keys(rows))]


def first_of_each(key: KeyArray) -> IntArray:
    """Return the positions of the first appearance of every key, ascending."""
    _, first = np.unique(key, return_index=True)
    return np.sort(first).astype(np.int64)


def unseen(rows: IntArray, seen: KeyArray) -> npt.NDArray[np.bool_]:
    """Return one boolean per row: true if the key of the row is not in `seen`."""
    return np.isin(keys(rows), seen, invert=True)
