"""The lane axes of a stage for a GPU, ranked by coalescing: sectors that a warp touches."""

from collections.abc import Mapping
from math import prod
from typing import Final

from ansorpy.expr.coalescing import request_sectors
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Expr, Var
from ansorpy.plan.inline import KEPT, Work
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Stage

MOST: Final = 2  # candidates for the lane axis
WORST: Final = 4.0  # times the least sectors: no other choice makes up for more
PARTIAL_RESULTS: Final = 64  # stands for the number of partial results of a split reduction
FULL: Final = 32  # threads of a warp


def thread_lanes(
    stage: Stage, work: Work, shapes: Mapping[str, tuple[int, ...]]
) -> list[str | None]:
    """Return the best lane axes of a stage that is not tiled; [None] if it has no loop for threads.

    Args:
        shapes: of all tensors, without the axis of partial results.
    """
    found = [name for name in _candidates(stage, work) if _extent(work, name) > 1]
    costs = {name: _cost(work, name, shapes) for name in found}
    least = min((cost for cost, _ in costs.values()), default=0.0)
    near = [name for name in found if costs[name][0] <= WORST * least]
    return [*sorted(near, key=costs.__getitem__)[:MOST]] or [None]


def _candidates(stage: Stage, work: Work) -> list[str]:
    """Return the loops that vectors may run along, innermost first: at most one reduces."""
    loops = [loop for loop in stage.loops if loop.name != work.kept and not loop.annotation]
    names = [
        "@".join(loop.axes)
        for loop in reversed(loops)
        if loop.kind is AxisKind.SPATIAL and loop.length is None and not loop.name.endswith(".0")
    ]
    for last in stage.loops[-1:]:
        if last.kind is not AxisKind.REDUCE or last.annotation:
            continue
        names.insert(0, KEPT if work.combines is not None else "@".join(last.axes))
    return names


def _extent(work: Work, lane: str) -> int:
    return prod(_extents(work)[name] for name in lane.split("@")) if lane != KEPT else FULL


def _extents(work: Work) -> dict[str, int]:
    return {**dict((*work.axes, *work.reduce_axes)), KEPT: PARTIAL_RESULTS}


def _cost(work: Work, lane: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[float, int]:
    """Return the sectors of an element, and the idle threads of the last warp."""
    extents = _extents(work)
    names = [lane] if lane == KEPT else lane.split("@")
    lanes = [(name, extents[name]) for name in names]
    at = dict.fromkeys(extents, 0)
    reduces = lane == KEPT or any(name in dict(work.reduce_axes) for name in names)
    total = 0.0
    for read in dict.fromkeys(work.reads):
        shape = shapes[read.tensor]
        shape += (PARTIAL_RESULTS,) * (len(read.indices) - len(shape))
        total += _each(read.indices, shape, read.dtype, lanes, at)
    if not reduces:  # one store for all steps of a reduction
        index = tuple(Var(name) for name, _ in work.axes)
        steps = prod(n for _, n in work.reduce_axes)
        shape = tuple(n for _, n in work.axes)
        total += sum(_each(index, shape, dtype, lanes, at) for dtype in work.dtypes) / steps
    count = prod(n for _, n in lanes)
    return total, -(-count // FULL) * FULL - count


def _each(
    index: tuple[Expr, ...],
    shape: tuple[int, ...],
    dtype: str,
    lanes: list[tuple[str, int]],
    at: Mapping[str, int],
) -> float:
    found = request_sectors(index, shape, SIZE_BYTES[dtype], lanes, at)
    return found.sectors / found.threads
