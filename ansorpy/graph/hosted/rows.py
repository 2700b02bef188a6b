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


def window_rows(
    reads: Sequence[Array], axis: int, start_axis: int, rows_axis: int = -1, rows: int = 0
) -> tuple[Array]:
    """Return a run of elements along an axis: from an extent of input 1, as many as input 2 has."""
    start = reads[1].shape[start_axis]
    count = rows if rows_axis < 0 else reads[2].shape[rows_axis]
    return (np.take(reads[0], np.arange(start, start + count), axis),)


def _refused(on: Operands) -> Sequence[Facts]:
    """Refuse the operator in a model: only the merge of graphs makes such nodes."""
    on.refuse("it is none of a model", "an operator of the list in docs/operators.md")


hosted("AppendRows", append_rows, "axis", moves=True, copied=True)(_refused)
hosted(
    "WindowRows", window_rows, "axis", "start_axis", "rows_axis", "rows", moves=True, copied=True
)(_refused)
