"""Sectors of device memory that the threads of a warp touch together.

A warp's request takes as many transfers as there are distinct sectors of 32 bytes; the least
is the count for the same bytes side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.errors import LoweringError
from ansorpy.expr.evaluate import evaluate
from ansorpy.expr.expr import Expr

SECTOR_BYTES: Final = 32  # the least part of device memory that moves
WARP: Final = 32  # threads that make a request together
ACCESS_BYTES: Final = 16  # the widest access of a thread

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RequestSectors:
    """Sectors of one request of `threads` threads, and the least for the elements it touches."""

    threads: int
    sectors: int
    least: int


def flat_places(
    index: Sequence[Expr], extents: Sequence[int], values: Mapping[str, int | IntArray]
) -> int | IntArray:
    """Return the row-major place of an element, in elements.

    Args:
        values: of every variable, int64 arrays of equal shape or numbers.

    Raises:
        LoweringError: the index reads memory, or has a variable without a value.
    """
    flat: int | IntArray = 0
    for one, extent in zip(index, extents, strict=True):
        flat = flat * extent + evaluate(one, values)
    return flat


def warp_places(
    index: Sequence[Expr],
    extents: Sequence[int],
    lanes: Sequence[tuple[str, int]],
    at: Mapping[str, int],
    dims: Sequence[tuple[str, int]] = (),
    most_points: int = 1,
) -> IntArray:
    """Return the places that the threads of the first warp touch, shape (points, threads).

    Args:
        lanes: the variables that run over the threads with their extents, row-major.
        at: values of the other variables.
        dims: variables that each thread runs over with their extents, row-major; the first
            `most_points` points are returned.

    Raises:
        LoweringError: the index reads memory.
    """
    shape, sizes = tuple(n for _, n in lanes) or (1,), tuple(n for _, n in dims)
    threads = np.arange(min(WARP, prod(shape)))
    points = np.arange(min(prod(sizes), most_points))
    values: dict[str, int | IntArray] = dict(at)
    for (name, _), digit in zip(dims, np.unravel_index(points, sizes or (1,)), strict=False):
        values[name] = np.repeat(digit.astype(np.int64), len(threads))
    for (name, _), digit in zip(lanes, np.unravel_index(threads, shape), strict=False):
        values[name] = np.tile(digit.astype(np.int64), len(points))
    flat = np.asarray(flat_places(index, extents, values), np.int64)
    whole = np.broadcast_to(flat, (len(points) * len(threads),))
    return whole.reshape(len(points), len(threads))


def sectors_of(places: IntArray, size_bytes: int) -> int:
    """Return the distinct sectors of elements at `places`, counted in elements."""
    first = places * size_bytes
    lasts = first + (size_bytes - 1)
    return len(np.union1d(first // SECTOR_BYTES, lasts // SECTOR_BYTES))


def request_sectors(
    index: Sequence[Expr],
    extents: Sequence[int],
    size_bytes: int,
    lanes: Sequence[tuple[str, int]],
    at: Mapping[str, int],
) -> RequestSectors:
    """Return the sectors of the first warp of an access.

    Args:
        lanes: the variables that run over the threads with their extents, row-major.
        at: values of the other variables; the buffer begins at a sector.

    An index that is read from memory counts as one sector per thread.
    """
    threads = min(WARP, prod(n for _, n in lanes))
    try:
        places = np.unique(warp_places(index, extents, lanes, at))
    except LoweringError:
        return RequestSectors(threads, threads, -(-threads * size_bytes // SECTOR_BYTES))
    return RequestSectors(
        threads, sectors_of(places, size_bytes), -(-len(places) * size_bytes // SECTOR_BYTES)
    )
