"""Flatten a lone element-wise stage, so that its vectors run over contiguous memory."""

from ansorpy.expr.expr import Read, Var
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Inlined, Root, Stage, State
from ansorpy.state.steps import Fuse
from ansorpy.te.dag import Compute


def flattened(state: State) -> State:
    """Return the sketch with the trailing axes of a lone element-wise stage fused into one.

    Condition  the only stage with loops; no reduction; every read takes all the fused axes in
               order as its last indices, or none of them
    Rewrite    n c h w  ->  n c h@w  (as many as the reads allow)

    Vectors then run over the fused axis: a last axis of 7 or 56 elements wastes no lanes.
    """
    stages = [
        stage
        for stage in state.stages
        if isinstance(stage.node, Compute) and not isinstance(stage.location, Inlined)
    ]
    if len(stages) != 1 or not isinstance(stages[0].location, Root):
        return state
    stage = stages[0]
    if any(loop.kind is AxisKind.REDUCE or loop.extent is None for loop in stage.loops):
        return state
    names = tuple(loop.name for loop in stage.loops)
    for first in range(len(names) - 1):
        if _contiguous(state, stage, names[first:]):
            return state.do(Fuse(stage.name, names[first:]))
    return state


def _contiguous(state: State, stage: Stage, axes: tuple[str, ...]) -> bool:
    """Return True if every input is read along all `axes` in memory order, or along none."""
    seen: set[str] = set()
    todo = [stage.name]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        node = state.stage(name).node
        if not isinstance(node, Compute):
            continue
        own = tuple(axis.name for axis in node.axes)
        mine = own[len(own) - len(axes) :]
        shape = node.shape[len(own) - len(axes) :]
        if any(not _in_order(state, read, mine, shape) for read in node.reads):
            return False
        if any(not isinstance(e, Var) for read in node.reads for e in read.indices):
            return False
        todo += [read.tensor for read in node.reads]
    return True


def _in_order(state: State, read: Read, axes: tuple[str, ...], shape: tuple[int, ...]) -> bool:
    names = [index.name if isinstance(index, Var) else "" for index in read.indices]
    if not set(names) & set(axes):
        # Only inputs may be broadcast: an inlined producer would have other trailing axes.
        return not isinstance(state.stage(read.tensor).node, Compute)
    whole = state.stage(read.tensor).node.shape
    return tuple(names[-len(axes) :]) == axes and whole[-len(axes) :] == shape
