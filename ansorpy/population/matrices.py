"""Tile sizes with which the matrix instruction of a warp may sum a product (ADR-0150, ADR-0035).

Of random sizes of three levels per axis, one in some hundreds of rows has them all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.expr.expr import Read, Var, variables
from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan
from ansorpy.plan.thread_blocks import thread_blocks
from ansorpy.rewrites.warp_products import COLUMN_LANES, PAIR, ROWS, SUMS, find_product
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
    """Yield the sizes of a product that has its rows along one axis and its columns along another.

    Both operands are read along one reduce axis, the steps; other reduce axes span a
    window. Threads lie along the rows and the columns alone.
    """
    found = find_product(node.body[0]) if len(node.body) == 1 else None
    if node.combiner != "sum" or node.dtypes != (SUMS,) or found is None:
        return
    product, *reads = found
    used = [frozenset[str]().union(*map(variables, read.indices)) for read in reads]
    steps = [axis for axis in node.reduce_axes if all(axis.name in names for names in used)]
    steps = [axis for axis in steps if _alone(axis.name, reads)]
    apart = [[axis for axis in node.axes if axis.name in a - b] for a, b in (used, used[::-1])]
    if not steps or not all(apart):
        return
    # Lanes are row-major over the axes: the columns are along the last one.
    rows, columns = sorted((axes[-1] for axes in apart), key=node.axes.index)
    step = steps[0]
    if rows.extent < PAIR * ROWS or columns.extent < ROWS or step.extent < product.steps:
        return
    sizes = {
        f"{rows.name}.1": (PAIR, MOST_ROWS),
        f"{rows.name}.2": (ROWS, MOST_LANES),
        f"{rows.name}.3": (1, 1),
        f"{columns.name}.1": (1, MOST_COLUMNS),
        f"{columns.name}.2": (COLUMN_LANES, COLUMN_LANES),
        f"{columns.name}.3": (PAIR, PAIR),
        f"{step.name}.1": (product.steps, MOST_STEPS),
        **{
            f"{axis.name}.2": (1, 1)
            for axis in node.axes[node.axes.index(rows) + 1 :]
            if axis is not columns
        },
    }
    places = {plan.column.get(f"{stage}.{name}", -1): ends for name, ends in sizes.items()}
    if min(places) >= 0:
        yield from (MatrixSize(column, size, most) for column, (size, most) in places.items())


def _alone(name: str, reads: Sequence[Read]) -> bool:
    """Return whether an axis is an index of every read, and not part of a window."""
    return all(Var(name) in read.indices for read in reads)
