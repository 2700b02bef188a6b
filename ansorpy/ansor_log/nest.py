"""The loop nest of a replayed line, as text: every stage at its place, with iterations."""

from collections.abc import Iterator as Lines
from math import prod

from ansorpy.ansor_log.replay import Iterator, Replayed
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Attached, Inlined, Stage
from ansorpy.te.analysis import elementwise
from ansorpy.te.dag import Compute


def nest(replayed: Replayed) -> str:
    """Return one line per loop, indented by depth; `parallel i.0@j.0 in 4096` is a fused loop.

    A loop without a number runs over the elements that its host needs.
    """
    placed = replayed.state.stages
    roots = [
        stage
        for name in replayed.order
        for stage in [replayed.state.stage(name)]
        if isinstance(stage.node, Compute) and not isinstance(stage.location, Attached | Inlined)
    ]
    inlined = [stage.name for stage in placed if isinstance(stage.location, Inlined)]
    head = [f"inlined: {', '.join(inlined)}"] if inlined else []
    return "\n".join([*head, *(line for stage in roots for line in _stage(replayed, stage, 0))])


def _stage(replayed: Replayed, stage: Stage, depth: int) -> Lines[str]:
    """Yield the loops of a stage, and of the stages inside of them."""
    if stage.name in replayed.unroll:
        yield f"{'  ' * depth}# {stage.name}: unroll at most {replayed.unroll[stage.name]}"
    extents = _extents(replayed, stage)
    guests = [
        other
        for name in replayed.order
        for other in [replayed.state.stage(name)]
        if isinstance(other.location, Attached) and other.location.stage == stage.name
    ]
    for iterator in replayed.iterators[stage.name]:
        yield f"{'  ' * depth}{_loop(iterator, extents)}"
        depth += 1
        for guest in guests:
            assert isinstance(guest.location, Attached)
            if guest.location.loop in iterator.loops:
                yield from _stage(replayed, guest, depth)
    yield f"{'  ' * depth}{stage.name} ="


def _loop(iterator: Iterator, extents: dict[str, int]) -> str:
    known = [extents.get(loop) for loop in iterator.loops]
    numbers = [count for count in known if count is not None]
    count = f" in {prod(numbers)}" if len(numbers) == len(known) else ""
    return f"{iterator.mark or 'for'} {'@'.join(iterator.loops) or 'once'}{count}"


def _extents(replayed: Replayed, stage: Stage) -> dict[str, int]:
    """Return the iterations of the loops of a stage, as far as they are known without lowering."""
    whole = dict(replayed.extents[stage.name])
    if not isinstance(stage.location, Attached):
        return whole
    spatial = [loop.name for loop in stage.loops if loop.kind is AxisKind.SPATIAL]
    needed = _needed(replayed, stage, stage.location)
    if needed is None:
        return {name: count for name, count in whole.items() if name not in spatial}
    for axis, count in needed.items():
        # The inner parts keep their lengths, as far as there are elements for them.
        parts = sorted((name for name in spatial if _base(name) == axis), key=_part, reverse=True)
        for name in parts:
            whole[name] = min(whole[name], count)
            count = -(-count // whole[name])
    return whole


def _needed(replayed: Replayed, stage: Stage, place: Attached) -> dict[str, int] | None:
    """Return the elements that one iteration of the host needs along each axis of a stage.

    None if the host does not take the stage element by element.
    """
    host = replayed.state.stage(place.stage)
    dag = replayed.state.dag
    names = [name.removesuffix(".local") for name in (stage.name, host.name)]
    copied = stage.name != names[0] and host.name == names[0]
    if not copied and not (set(names) <= set(dag.index) and elementwise(dag, *names)):
        return None
    if not isinstance(stage.node, Compute) or not isinstance(host.node, Compute):
        return None
    at = [loop.name for loop in host.loops].index(place.loop)
    inner = _extents(replayed, host)
    pairs = zip(host.node.axes, stage.node.axes, strict=True)
    return {
        own.name: prod(
            inner.get(loop.name, 1)
            for loop in host.loops[at + 1 :]
            if _base(loop.name) == axis.name
        )
        for axis, own in pairs
    }


def _base(loop: str) -> str:
    return loop.rpartition(".")[0] if "." in loop else loop


def _part(loop: str) -> int:
    return int(loop.rpartition(".")[2]) if "." in loop else 0
