"""Rows whose places a call decides: joined behind others, and a run of them.

A dim changes trip counts, never values or offsets of a kernel: the driver of a bundle copies these
rows. Both tell the sizes by the shapes of their inputs.
"""

from collections.abc import Sequence

import numpy as np

from ansorpy.graph.graph import Array
from ansorpy.graph.operator import Facts, Operands, hosted


def append_rows(reads: Sequence[Array], axis: int) -> tuple[Array]:
    """Return two arrays joined along an axis."""
    return (np.concatenate(reads, axis),)


@hosted("AppendRows", append_rows, "axis", moves=True, copied=True)
def _append_rows(on: Operands) -> Sequence[Facts]:
    axis, (first, second) = on.attribute("axis"), (list(on.shape(0)), on.shape(1))
    first[axis] = int(first[axis]) + int(second[axis])
    return [(tuple(first), on.dtype(0))]


def window_rows(
    reads: Sequence[Array], axis: int, start_axis: int, rows_axis: int = -1, rows: int = 0
) -> tuple[Array]:
    """Return a run of elements along an axis: from an extent of input 1, as many as input 2 has."""
    start = reads[1].shape[start_axis]
    count = rows if rows_axis < 0 else reads[2].shape[rows_axis]
    return (np.take(reads[0], np.arange(start, start + count), axis),)


@hosted(
    "WindowRows", window_rows, "axis", "start_axis", "rows_axis", "rows", moves=True, copied=True
)
def _window_rows(on: Operands) -> Sequence[Facts]:
    rows_axis, shape = on.attribute("rows_axis", -1), list(on.shape(0))
    rows = on.attribute("rows") if rows_axis < 0 else on.shape(2)[rows_axis]
    shape[on.attribute("axis")] = rows
    return [(tuple(shape), on.dtype(0))]
