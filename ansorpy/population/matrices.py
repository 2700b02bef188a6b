"""Tile sizes with which the matrix instruction of a warp may sum a product (docs/adr/0153).

Of random sizes of three levels per axis, one in some hundreds of rows has them all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.expr.expr import Binary, Cast, Read, variables
from ansorpy.loopir.passes.warp_matrices import COLUMN_LANES, PAIR, ROWS, STEPS
from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan
from ansorpy.plan.thread_blocks import thread_blocks
from ansorpy.te.dag import Compute

IntArray = npt.NDArray[np.int64]

SHARE: Final = 0.5  # share of the random rows of a product that get such sizes
# Largest sizes that are drawn: rows of a thread, row lanes, blocks of columns, steps.
MOST_ROWS, MOST_LANES, MOST_COLUMNS, MOST_STEPS = 16, 128, 64, 128


@dataclass(frozen=True, slots=True)
class MatrixSize:
    """A column whose sizes are multiples of `size` up to `most`."""

    column: int
    size: int
    most: int


def prefer_matrices(plan: Plan, columns: IntArray, rng: np.random.Generator) -> None:
    """Draw sizes anew in a share of the rows of a product that a matrix instruction may sum.

    Sizes are powers of two times the least ones; the conditions of the plan are not evaluated.

    Args:
        columns: shape (sizes, rows); rows may exceed an axis afterwards.
    """
    steps = matrix_steps(plan)
    if not steps:
        return
    some = np.flatnonzero(rng.random(columns.shape[1]) < SHARE)
    for step in steps:
        doublings = (step.most // step.size).bit_length()
        columns[step.column, some] = step.size << rng.integers(0, doublings, len(some))


@per_plan
def matrix_steps(plan: Plan) -> tuple[MatrixSize, ...]:
    """Return the sizes that the matrix instruction asks for; () if no stage is such a product."""
    tiled = thread_blocks(plan.state).tiled
    nodes = ((stage.name, stage.node) for stage in plan.state.stages if stage.name in tiled)
    return tuple(
        step
        for name, node in nodes
        if isinstance(node, Compute)
        for step in _steps(plan, name, node)
    )


def _steps(plan: Plan, stage: str, node: Compute) -> Iterator[MatrixSize]:
    """Yield the sizes of a product of bfloat16 whose last axes are rows and columns."""
    match node.body:
        case (Binary(op="mul", a=Cast(a=Read() as a), b=Cast(a=Read() as b)),):
            pass
        case _:
            return
    if node.combiner != "sum" or len(node.axes) < 2 or len(node.reduce_axes) != 1:
        return
    if {a.dtype, b.dtype} != {"bfloat16"} or node.dtypes != ("float32",):
        return
    (step,), (*_, rows, columns) = node.reduce_axes, node.axes
    used = [frozenset[str]().union(*map(variables, read.indices)) for read in (a, b)]
    apart = [[axis.name in one for one in used] for axis in (rows, columns)]
    long = rows.extent >= PAIR * ROWS and columns.extent >= ROWS and step.extent >= STEPS
    if sorted(apart) != [[False, True], [True, False]] or not long:
        return
    sizes = {
        f"{rows.name}.1": (PAIR, MOST_ROWS),
        f"{rows.name}.2": (ROWS, MOST_LANES),
        f"{rows.name}.3": (1, 1),
        f"{columns.name}.1": (1, MOST_COLUMNS),
        f"{columns.name}.2": (COLUMN_LANES, COLUMN_LANES),
        f"{columns.name}.3": (PAIR, PAIR),
        f"{step.name}.1": (STEPS, MOST_STEPS),
    }
    found = {plan.column.get(f"{stage}.{name}", -1): ends for name, ends in sizes.items()}
    if min(found) >= 0:
        yield from (MatrixSize(column, size, most) for column, (size, most) in found.items())
