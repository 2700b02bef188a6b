"""The structural choices of one stage: location, lanes, packing, parallel loops, best first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from ansorpy.expr.expr import Call, Expr, Var, walk
from ansorpy.expr.intervals import linear
from ansorpy.plan.inline import KEPT, Work
from ansorpy.plan.pack import indexed_by, packable
from ansorpy.plan.plan import StageChoice
from ansorpy.plan.thread_blocks import ThreadBlocks, thread_blocks
from ansorpy.plan.thread_lanes import thread_lanes
from ansorpy.state.axis import AxisKind, Loop
from ansorpy.state.state import (
    Attached,
    Dotted,
    Inlined,
    Location,
    Partial,
    Root,
    Stage,
    State,
)
from ansorpy.target import GpuTarget, Target
from ansorpy.te.analysis import common_outer
from ansorpy.te.dag import Compute, ConstantTensor, Placeholder
from ansorpy.te.dims import Dim

LANE_AXES = 2  # candidates for the vectorized axis of a tiled stage
PLACES = 4  # attach points of one stage that are tried
TASKS_PER_CORE = 4  # parallel iterations per core that balance uneven lengths

Lanes = tuple[tuple[str | None, tuple[str, ...]], ...]


@dataclass(frozen=True)
class SketchContext:
    """A sketch and the scalar computations of its stages.

    Args:
        lanes: the answers of `lane_and_pack` by stage: every combination of choices asks again.
    """

    state: State
    works: Mapping[str, Work]
    target: Target
    lanes: dict[str, Lanes] = field(default_factory=dict, init=False)

    @cached_property
    def blocks(self) -> ThreadBlocks:
        """The stages that belong to blocks of threads."""
        return thread_blocks(self.state)

    def consumers(self, name: str) -> tuple[str, ...]:
        """Return the stages with loops that read a stage."""
        return tuple(
            work.name
            for work in self.works.values()
            if any(read.tensor == name for read in work.reads)
        )


def is_tiled(stage: Stage) -> bool:
    """Return True if the stage has tile sizes of its own; a follower has another stage's sizes."""
    return stage.role is None and any(
        loop.length == (f"{stage.name}.{loop.name}",) for loop in stage.loops
    )


def source_of(context: SketchContext, stage: Stage) -> Stage | None:
    """Return the tiled stage whose splits this stage follows."""
    if stage.role is not None or is_tiled(stage):
        return None
    sizes = {loop.length[0] for loop in stage.loops if loop.length}
    for other in context.state.stages:
        if is_tiled(other) and any(loop.length and loop.length[0] in sizes for loop in other.loops):
            return other
    return None


def followed_axes(source: Stage, follower: Stage) -> dict[str, str]:
    """Return the axis of the follower for every axis of its tiled stage."""
    owner = {loop.length[0]: loop.axes[0] for loop in source.loops if loop.length}
    return {
        owner[loop.length[0]]: loop.axes[0]
        for loop in follower.loops
        if loop.length and loop.length[0] in owner
    }


def locations(
    context: SketchContext, stage: Stage, chosen: Mapping[str, StageChoice]
) -> list[Location]:
    """Return the possible locations of a stage, given the choices of its consumers."""
    if not isinstance(stage.location, Root) or stage.name in context.state.dag.outputs:
        return [stage.location]
    partial = isinstance(stage.role, Partial)
    if stage.prepares or (partial and isinstance(context.target, GpuTarget)):
        return [Root()]  # blocks of a GPU share their partial results in device memory
    consumers = context.consumers(stage.name)
    if is_tiled(stage) or source_of(context, stage) is not None or not consumers:
        return [Root()]
    places: list[Location] = []
    host = consumers[0] if len(consumers) == 1 else _common_root(consumers, chosen)
    if host is not None:
        places += _places(context, stage, host)
        at = chosen[host].location
        if isinstance(at, Attached):
            outer = context.state.stage(at.stage)
            upto = [loop.name for loop in outer.loops].index(at.loop) + 1
            places += [
                Attached(at.stage, loop.name)
                for loop in reversed(outer.loops[:upto])
                if loop.kind is AxisKind.SPATIAL
            ][:2]
    places.insert(min(1, len(places)), Root())
    if _cheap(stage):
        places.insert(min(2, len(places)), Inlined())
    return places


def _cheap(stage: Stage) -> bool:
    """Return True if computing the stage again in every consumer may pay."""
    node = stage.node
    if not isinstance(node, Compute) or node.combiner is not None or stage.role is not None:
        return False
    return not any(isinstance(part, Call) for body in node.body for part in walk(body))


def _common_root(consumers: tuple[str, ...], chosen: Mapping[str, StageChoice]) -> str | None:
    """Return the root stage that all consumers are attached to, directly or not."""

    def top(name: str) -> str:
        at = chosen[name].location
        return top(at.stage) if isinstance(at, Attached) else name

    tops = {top(name) for name in consumers}
    return tops.pop() if len(tops) == 1 else None


def _places(context: SketchContext, stage: Stage, host: str) -> list[Location]:
    """Return the loops of a consumer to attach to: those without recomputation come first."""
    loops = _leading(context.state.stage(host))
    if not loops:
        return []
    free = _without_recompute(context, stage, host, loops)
    order = sorted(range(len(loops)), key=lambda i: (i >= free, -i if i < free else i))
    return [Attached(host, loops[i].name) for i in order[:PLACES]]


def _leading(stage: Stage) -> list[Loop]:
    """Return the possible hosts: all loops up to the first spatial loop after a reduce loop."""
    answer: list[Loop] = []
    tiled = any(loop.length is not None for loop in stage.loops)
    for loop in stage.loops:
        if loop.kind is AxisKind.REDUCE and not tiled:
            break
        if answer and answer[-1].kind is AxisKind.REDUCE and loop.kind is AxisKind.SPATIAL:
            break
        if loop.annotation:
            break
        answer.append(loop)
    spatial = [loop for loop in stage.loops if loop.kind is AxisKind.SPATIAL]
    whole = stage.loops == tuple(spatial) and not tiled
    # The last loop of an element-wise stage is vectorized: no stage is attached to it.
    return answer[:-1] if whole and len(answer) == len(spatial) and len(answer) > 1 else answer


def _without_recompute(context: SketchContext, stage: Stage, host: str, loops: list[Loop]) -> int:
    """Return the number of leading host loops without recomputation of the stage."""
    if isinstance(stage.role, Partial):
        return sum(loop.kind is AxisKind.SPATIAL for loop in loops)
    dag = context.state.dag
    if stage.name not in dag.index or host not in dag.index:
        return 0
    shared = common_outer(dag, stage.name, host).count
    node = dag.node(host)
    assert isinstance(node, Compute)  # a host has loops
    axes = {axis.name for axis in node.axes[:shared]}
    count = 0
    for loop in loops:
        if not set(loop.axes) <= axes:
            break
        count += 1
    return count


def pinned(context: SketchContext, stage: Stage, place: Location) -> frozenset[str]:
    """Return the axes along which an attached stage has one element, and so no lanes."""
    dag = context.state.dag
    if not isinstance(place, Attached) or stage.role is not None:
        return frozenset()
    if stage.name not in dag.index or place.stage not in dag.index:
        return frozenset()
    host = context.state.stage(place.stage)
    outer = host.loops[: [loop.name for loop in host.loops].index(place.loop) + 1]
    whole = {loop.axes[0] for loop in outer if loop.extent is not None and len(loop.axes) == 1}
    shared = common_outer(dag, stage.name, host.name).count
    mine, theirs = dag.node(stage.name), dag.node(host.name)
    assert isinstance(mine, Compute)  # both have loops
    assert isinstance(theirs, Compute)
    pairs = zip(mine.axes[:shared], theirs.axes[:shared], strict=True)
    return frozenset(own.name for own, axis in pairs if axis.name in whole)


def lane_and_pack(context: SketchContext, stage: Stage) -> Lanes:
    """Return the (lane axis, packed operands) options of a stage, the most promising first."""
    if stage.name not in context.lanes:
        context.lanes[stage.name] = tuple(_lane_and_pack(context, stage))
    return context.lanes[stage.name]


def _lane_and_pack(
    context: SketchContext, stage: Stage
) -> list[tuple[str | None, tuple[str, ...]]]:
    work = context.works[stage.name]
    if stage.dot is not None:
        return _dot_lanes(stage.dot, work)
    threads = [loop for loop in stage.loops if loop.annotation == "thread"]
    if any(loop.extent is not None for loop in threads):
        return [("@".join(threads[0].axes), ())]
    tiled = is_tiled(stage)
    if isinstance(context.target, GpuTarget) and not tiled and _marked(stage) is None:
        shapes = {one.name: one.node.shape for one in context.state.stages}
        return [(lane, ()) for lane in thread_lanes(stage, work, shapes)]
    if isinstance(stage.role, Partial):
        return [(lane, ()) for lane in _partial_lanes(stage, work)]
    if tiled:
        return _tiled_lanes(context, stage, work)
    return [(lane, ()) for lane in _plain_lanes(stage, work)]


def _dot_lanes(dot: Dotted, work: Work) -> list[tuple[str | None, tuple[str, ...]]]:
    """Return the lane axis of a tensorized stage, with its wide operand packed or not."""
    wide = tuple(r.tensor for r in work.reads if r.tensor in _moving(work, dot.lane))
    return [(dot.lane, wide), (dot.lane, ())]


def _moving(work: Work, axis: str) -> set[str]:
    return {read.tensor for read in work.reads if axis in indexed_by(read.indices)}


def _partial_lanes(stage: Stage, work: Work) -> list[str | None]:
    if stage.loops[-1].name == work.kept and stage.loops[-1].length is not None:
        return [KEPT]
    spatial = [axis for axis, extent in work.axes if extent > 1]
    return [spatial[-1], None] if spatial else [None]


def _plain_lanes(stage: Stage, work: Work) -> list[str | None]:
    """Return the lane axes of an untiled stage, the axis with most contiguous reads first."""
    marked = _marked(stage)
    if marked is not None:
        return [marked]
    names = ["@".join(loop.axes) for loop in stage.loops]
    if work.combines is not None:
        names = [name for name, _ in work.axes]
    spatial = ["@".join(loop.axes) for loop in stage.loops if loop.kind is AxisKind.SPATIAL]
    if len(spatial) > 1 and stage.loops[-1].annotation == "unroll":
        return [spatial[-2]]  # an unrolled loop is not vectorized
    candidates = spatial[-1:]
    if work.combiner is not None and work.combines is None and names[-1] not in spatial:
        candidates.append(names[-1])
    ranked = sorted(candidates, key=lambda name: -_contiguous(work, name.split("@")[-1]))
    return [*ranked, None] if not ranked else list(ranked)


def _marked(stage: Stage) -> str | None:
    """Return the axis whose innermost loop a rule has annotated `vectorize`."""
    return next((loop.axes[0] for loop in stage.loops if loop.annotation == "vectorize"), None)


def _contiguous(work: Work, axis: str) -> int:
    """Return a score of the contiguity along an axis: 2 per contiguous read, 1 for the store."""
    count = int(bool(work.axes) and work.axes[-1][0] == axis)
    for read in work.reads:
        count += 2 * _last_moves(read.indices, axis)
    return count


def _last_moves(indices: tuple[Expr, ...], axis: str) -> bool:
    if not indices:
        return False
    form = linear(indices[-1])
    return form is not None and form[1].get(axis) == 1


def _tiled_lanes(
    context: SketchContext, stage: Stage, work: Work
) -> list[tuple[str | None, tuple[str, ...]]]:
    operands = tuple(dict.fromkeys(read.tensor for read in work.reads))
    whole = [name for name in operands if not _in_parts(context, name)]
    whole = [name for name in whole if not _unsized(context, name)]
    order = {name: packable(work, name, _size(context, name)) for name in whole}
    marked = _marked(stage)
    ranked = sorted(
        (name for name, extent in work.axes if extent > 1 and _split(stage, name)),
        key=lambda name: -_lane_score(context, work, name),
    )
    if marked is not None:
        ranked = [marked]
    answer: list[tuple[str | None, tuple[str, ...]]] = []
    for lane in ranked[:LANE_AXES]:
        mine = [
            name
            for name, indices in order.items()
            if indices is not None
            and lane in indexed_by(indices)
            and not _as_it_lies(context, work, name, indices, lane)
        ]
        contiguous = all(
            _last_moves(read.indices, lane)
            for read in work.reads
            if lane in {e.name for i in read.indices for e in walk(i) if isinstance(e, Var)}
        )
        others = tuple(
            name
            for name, indices in order.items()
            if indices is not None and lane not in indexed_by(indices)
        )
        if mine:
            answer.append((lane, tuple(mine)))
            if others:
                answer.append((lane, (*mine, *others)))
        if contiguous or not mine:
            answer.append((lane, ()))
    return answer or [(None, ())]


def _in_parts(context: SketchContext, name: str) -> bool:
    """Return True if a tensor is computed in parts, inside of another stage."""
    return isinstance(context.state.stage(name).location, Attached)


def _unsized(context: SketchContext, name: str) -> bool:
    """Return True if a tensor has dims: a pack would read elements beyond the sizes of a call."""
    return any(isinstance(extent, Dim) for extent in context.state.stage(name).node.shape)


def _as_it_lies(
    context: SketchContext, work: Work, name: str, indices: tuple[Expr, ...], lane: str
) -> bool:
    """Return True if packing an operand cannot pay: no reuse, and contiguous vectors already.

    Constants are packed ahead of the call, which costs the call nothing.
    """
    node = context.state.stage(name).node
    if isinstance(node, ConstantTensor) or (isinstance(node, Placeholder) and node.constant):
        return False
    reads = prod(extent for _, extent in (*work.axes, *work.reduce_axes))
    return reads <= prod(node.shape) and _last_moves(indices, lane)


def _size(context: SketchContext, tensor: str) -> int:
    return prod(context.state.stage(tensor).node.shape)


def _split(stage: Stage, axis: str) -> bool:
    return any(loop.axes == (axis,) and loop.length is not None for loop in stage.loops)


def _lane_score(context: SketchContext, work: Work, axis: str) -> float:
    """Return a score of an axis as the lane axis: contiguous or packable reads, full vectors."""
    extent = dict(work.axes)[axis]
    lanes = context.target.lanes(work.dtypes[0])
    filled = extent / (-(-extent // lanes) * lanes)
    score = 0.0
    reused = any(axis not in indexed_by(read.indices) for read in work.reads)
    for read in work.reads:
        names = {e.name for index in read.indices for e in walk(index) if isinstance(e, Var)}
        if axis not in names:
            continue
        size = _size(context, read.tensor)
        if _last_moves(read.indices, axis):
            score += 1.0
        elif packable(work, read.tensor, size) is not None:
            score += float(reused)  # if all operands have the axis, packing reuses none of them
        else:
            score -= 4.0
    if work.axes[-1][0] == axis:
        score += 0.5
    return score + 2.0 * filled


def tasks(context: SketchContext, stage: Stage) -> list[int]:
    """Return possible numbers of leading parallel loops at root, the most promising first."""
    cores = context.target.cores
    if cores == 1:
        return [0]
    leading = []
    for loop in stage.loops:
        if loop.kind is not AxisKind.SPATIAL or loop.annotation:
            break
        leading.append(loop)
    if not leading:
        return [0]
    if any(loop.length is not None for loop in stage.loops):
        outer = sum(1 for loop in leading if loop.length is None)
        if stage.name in context.blocks.following:
            return [outer]
        return list(dict.fromkeys([outer, 1, min(len(leading), outer + 1)]))
    count = 1
    while (
        count < len(leading)
        and prod(loop.extent or 1 for loop in leading[:count]) < TASKS_PER_CORE * cores
    ):
        count += 1
    on_gpu = isinstance(context.target, GpuTarget)
    if stage.prepares and on_gpu:
        return [count]  # a copy: its blocks decide little
    every = range(len(leading), 0, -1) if on_gpu else (len(leading), 1)
    return list(dict.fromkeys([count, *every]))
