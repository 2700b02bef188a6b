"""Transforms of several steps that more than one rule uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from ansorpy.state.axis import AxisKind, Loop
from ansorpy.state.state import State
from ansorpy.state.steps import Annotate, FollowSplit, Fuse, Reorder, Split
from ansorpy.te.dag import Compute

Lengths: TypeAlias = tuple[int, ...]
NO_LENGTHS: Final[Mapping[str, Lengths]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tiled:
    """A state with one stage tiled, and the spatial axes that were split, in order."""

    state: State
    stage: str
    axes: tuple[str, ...]


def tile(
    state: State, stage: str, structure: str, fixed: Mapping[str, Lengths] = NO_LENGTHS
) -> Tiled:
    """Split every loop of `stage` and interleave the parts, one band per letter of `structure`.

    "SSRSRS" turns i, j, k into i.0 j.0 | i.1 j.1 | k.0 | i.2 j.2 | k.1 | i.3 j.3. A loop named in
    `attrs.no_split_inner` stays whole, in the innermost band of its kind. The inner parts of a
    loop named in `fixed` have those lengths, 0 for an open one. A band T is a spatial one whose
    loops are annotated `thread`.
    """
    threads = structure.lower().replace("r", "").find("t")
    letters = structure.lower().replace("t", "s")
    whole = _whole_axes(state, stage)
    bands: dict[AxisKind, list[list[str]]] = {
        kind: [[] for _ in range(letters.count(kind.value))] for kind in AxisKind
    }
    axes: list[str] = []
    for loop in state.stage(stage).loops:
        levels = bands[loop.kind]
        if loop.name in whole:
            continue
        if len(levels) == 1:
            levels[0].append(loop.name)
            continue
        state = state.do(Split(stage, loop.name, len(levels), fixed.get(loop.name, ())))
        for q, level in enumerate(levels):
            level.append(f"{loop.name}.{q}")
        if loop.kind is AxisKind.SPATIAL:
            axes.append(loop.name)
    for loop in reversed(state.stage(stage).loops):
        if loop.name in whole:
            bands[loop.kind][-1].insert(0, loop.name)
    queues = {kind: iter(levels) for kind, levels in bands.items()}
    order = tuple(name for letter in letters for name in next(queues[AxisKind(letter)]))
    state = _reordered(state, stage, order)
    for axis in axes if threads >= 0 else ():
        state = state.do(Annotate(stage, f"{axis}.{threads}", "thread"))
    return Tiled(state, stage, tuple(axes))


def follow(tiled: Tiled, consumer: str, levels: int) -> State:
    """Split the spatial loops of `consumer` as the tiled stage is split, `levels` deep.

    Loops correspond by position. A loop that is whole in the tiled stage stays whole in the
    innermost band; reduce loops of the consumer come last.
    """
    state = tiled.state
    node = state.stage(tiled.stage).node
    assert isinstance(node, Compute)  # only compute stages are tiled
    bands: list[list[str]] = [[] for _ in range(levels + 1)]
    tail: list[str] = []
    spatial = iter(node.axes)
    for loop in state.stage(consumer).loops:
        if loop.kind is AxisKind.REDUCE:
            tail.append(loop.name)
        elif (source := next(spatial).name) in tiled.axes:
            state = state.do(FollowSplit(consumer, loop.name, tiled.stage, source, levels))
            for q, band in enumerate(bands):
                band.append(f"{loop.name}.{q}")
        else:
            bands[-1].append(loop.name)
    order = tuple(name for band in (*bands, tail) for name in band)
    return _reordered(state, consumer, order)


def fuse_reduction(state: State, stage: str) -> tuple[State, str]:
    """Fuse all reduce loops of `stage`; return the state and the name of the fused loop."""
    reduce = tuple(loop.name for loop in _reduce_loops(state, stage))
    if len(reduce) == 1:
        return state, reduce[0]
    step = Fuse(stage, reduce)
    return state.do(step), step.fused


def _reduce_loops(state: State, stage: str) -> tuple[Loop, ...]:
    return tuple(loop for loop in state.stage(stage).loops if loop.kind is AxisKind.REDUCE)


def _reordered(state: State, stage: str, order: tuple[str, ...]) -> State:
    if order == tuple(loop.name for loop in state.stage(stage).loops):
        return state
    return state.do(Reorder(stage, order))


def _whole_axes(state: State, stage: str) -> frozenset[str]:
    node = state.stage(stage).node
    return frozenset(node.attrs.no_split_inner) if isinstance(node, Compute) else frozenset()
