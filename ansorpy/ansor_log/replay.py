"""Replay of the steps of a log line on our state, one step after the other.

A log numbers stages and iterators; our steps name them. An *iterator* of the log is a loop of our
state, or several that the log has fused: our plans keep the parts of a split apart, so that a
fusion of parts, an annotation and a pragma stand beside the state. Lengths of splits become values
of our named sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from ansorpy.ansor_log.line import CPUS, MARKS, LogLine, LogStep
from ansorpy.ansor_log.workload import stage_order
from ansorpy.errors import RecordError, StepError, quoted
from ansorpy.state import steps
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Attached, State, Step
from ansorpy.te.dag import Compute, Dag

CPU_MARKS: Final = ("", "unroll", "vectorize", "parallel")
UNROLL: Final = "auto_unroll_max_step$"


@dataclass(frozen=True, slots=True)
class Iterator:
    """An iterator of the log: the loops of our state that it runs over, and its annotation."""

    loops: tuple[str, ...]  # outermost first; () for the one iteration of a stage of rank zero
    mark: str = ""


@dataclass(frozen=True)
class Replayed:
    """The state that a line describes.

    Its loops have open sizes, of which `lengths` has the values.
    """

    state: State
    order: tuple[str, ...]  # names of the stages in the order of the log
    iterators: Mapping[str, tuple[Iterator, ...]]  # by the name of a stage, outermost first
    lengths: Mapping[str, int]  # value of each named size
    extents: Mapping[str, Mapping[str, int]]  # iterations of each loop of a stage, computed whole
    unroll: Mapping[str, int]  # most iterations that are written out in a stage


def replay(dag: Dag, line: LogLine) -> Replayed:
    """Return the state of `dag` after all steps of a line.

    Raises:
        RecordError: the line is for a GPU, or a step does not apply; names the missing parts, or
            the step and the reason.
    """
    check_cpu(line)
    work = _Replay.of(dag)
    for number, step in enumerate(line.steps):
        try:
            APPLY[step.code](work, number, step)
        except (RecordError, StepError) as error:
            raise RecordError(
                f"cannot apply step {number} ({step}) to {dag.name} because {error}"
            ) from error
    return Replayed(
        work.state,
        tuple(work.order),
        {name: tuple(found) for name, found in work.iterators.items()},
        work.lengths,
        work.extents,
        work.unroll,
    )


def check_cpu(line: LogLine) -> None:
    """Refuse a line for a GPU.

    Raises:
        RecordError: names the parts of its schedule that our states lack.
    """
    if line.target not in CPUS:
        raise RecordError(
            f"cannot replay a line for {line.target} because our states lack"
            f" {_missing(line.steps)}; expected a target that is one of {', '.join(CPUS)}"
        )


def _missing(log: tuple[LogStep, ...]) -> str:
    """Return the parts of a schedule for a GPU that no plan of a CPU has, in order of steps."""
    found: dict[str, None] = {}
    for step in log:
        if step.code == "AN" and MARKS[step.operands[1]] not in CPU_MARKS:
            found[f"iterators bound to {MARKS[step.operands[1]]}"] = None
        elif step.code == "CHR":
            found[f"copies in {step.operands[0]} memory"] = None
        elif step.code == "FFSP":
            found["splits that follow fused iterators"] = None
        elif step.code == "SA":
            found["alignment of storage"] = None
    return ", ".join(found) or "its target"


@dataclass(slots=True)
class _Replay:
    """The working state of one replay."""

    state: State
    order: list[str]
    iterators: dict[str, list[Iterator]]
    lengths: dict[str, int] = field(default_factory=dict)
    extents: dict[str, dict[str, int]] = field(default_factory=dict)
    unroll: dict[str, int] = field(default_factory=dict)
    splits: dict[int, tuple[str, str]] = field(default_factory=dict)  # step -> stage and loop

    @staticmethod
    def of(dag: Dag) -> "_Replay":
        work = _Replay(State.naive(dag), list(stage_order(dag)), {})
        for name in work.order:
            work.made(name)
        return work

    def made(self, name: str) -> None:
        """Take up the loops of a stage that is new, or that a step has made anew."""
        stage = self.state.stage(name)
        if not isinstance(stage.node, Compute):
            return
        self.iterators[name] = [Iterator((loop.name,)) for loop in stage.loops]
        known = self.extents.get(name, {})
        self.extents[name] = {
            loop.name: known.get(loop.name, loop.extent or 0) for loop in stage.loops
        }

    def do(self, step: Step) -> None:
        self.state = self.state.do(step)

    def name(self, number: int) -> str:
        """Return the name of a stage by its number."""
        if number >= len(self.order):
            raise RecordError(f"there is no stage {number}; expected 0 to {len(self.order) - 1}")
        return self.order[number]

    def found(self, number: int) -> tuple[str, list[Iterator]]:
        """Return the name and the iterators of a stage by its number."""
        name = self.name(number)
        if name not in self.iterators:
            raise RecordError(f"stage {number} is the input {name}; expected a computed stage")
        return name, self.iterators[name]

    def at(self, number: int, position: int) -> tuple[str, Iterator]:
        """Return the name of a stage and one of its iterators."""
        name, iterators = self.found(number)
        if position >= len(iterators):
            raise RecordError(
                f"{name} has no iterator {position}; expected 0 to {len(iterators) - 1}"
            )
        return name, iterators[position]

    def whole(self, number: int, position: int) -> tuple[str, str]:
        """Return stage and loop of an iterator that is to be split; fused whole loops are fused.

        Raises:
            RecordError: the iterator has no loop, or an annotation.
            StepError: the iterator is made of parts of splits.
        """
        name, iterator = self.at(number, position)
        if not iterator.loops or iterator.mark:
            raise RecordError(f"iterator {position} of {name} is annotated, or has no loop")
        if len(iterator.loops) == 1:
            return name, iterator.loops[0]
        step = steps.Fuse(name, iterator.loops)
        self.do(step)
        own = self.extents[name]
        own[step.fused] = prod(own.pop(loop) for loop in iterator.loops)
        self.iterators[name][position] = Iterator((step.fused,))
        return name, step.fused

    def divided(self, name: str, position: int, loop: str, inner: tuple[int, ...]) -> None:
        """Put the parts of a split loop in its place."""
        own = self.extents[name]
        outer = -(-own.pop(loop) // prod(inner))
        parts = [f"{loop}.{q}" for q in range(len(inner) + 1)]
        own |= dict(zip(parts, (outer, *inner), strict=True))
        self.iterators[name][position : position + 1] = [Iterator((part,)) for part in parts]


def _split(work: _Replay, number: int, step: LogStep) -> None:
    position, extent, lengths, inwards = step.operands
    name, loop = work.whole(step.stage, position)
    own = work.extents[name][loop]
    if extent not in (0, own):
        raise RecordError(f"its extent is {extent}; expected {own}, that of {name}.{loop}")
    if 0 in lengths:
        raise RecordError("a length is 0, which is open; expected lengths of at least 1")
    inner = lengths if inwards else _inner(own, lengths)
    if max(inner) > own:
        raise RecordError(f"a length of {list(inner)} exceeds {name}.{loop}, which has {own}")
    work.do(steps.Split(name, loop, len(inner) + 1))
    work.splits[number] = name, loop
    work.lengths |= {f"{name}.{loop}.{q}": value for q, value in enumerate(inner, start=1)}
    work.divided(name, position, loop, inner)


def _inner(extent: int, outer: tuple[int, ...]) -> tuple[int, ...]:
    """Return the inner lengths of a split that is given by its outer ones."""
    for length in outer:
        extent = -(-extent // length)
    return (*outer[1:], extent)


def _follow(work: _Replay, number: int, step: LogStep) -> None:
    position, source, levels = step.operands
    if source not in work.splits:
        raise RecordError(f"step {source} is no split before it; expected the number of a split")
    stage, loop = work.splits[source]
    name, own = work.whole(step.stage, position)
    work.do(steps.FollowSplit(name, own, stage, loop, levels))
    made = {part.name: part for part in work.state.stage(name).loops}
    inner = tuple(
        prod(work.lengths[size] for size in made[f"{own}.{q}"].length or ())
        for q in range(1, levels + 1)
    )
    work.divided(name, position, own, inner)


def _follow_fused(work: _Replay, number: int, step: LogStep) -> None:
    raise RecordError("splits that follow fused iterators belong to threads of a GPU")


def _reorder(work: _Replay, number: int, step: LogStep) -> None:
    (order,) = step.operands
    name, iterators = work.found(step.stage)
    if sorted(order) != list(range(len(iterators))):
        raise RecordError(f"{quoted(list(order))} is no permutation of 0 to {len(iterators) - 1}")
    work.iterators[name] = [iterators[position] for position in order]
    loops = tuple(loop for iterator in work.iterators[name] for loop in iterator.loops)
    if loops != tuple(loop.name for loop in work.state.stage(name).loops):
        work.do(steps.Reorder(name, loops))


def _fuse(work: _Replay, number: int, step: LogStep) -> None:
    (positions,) = step.operands
    name, iterators = work.found(step.stage)
    if not positions:
        iterators.insert(0, Iterator(()))
        return
    first, last = positions[0], positions[-1]
    work.at(step.stage, last)
    if positions != tuple(range(first, last + 1)):
        raise RecordError(f"{quoted(list(positions))} are not adjacent iterators, outermost first")
    fused = iterators[first : last + 1]
    if any(iterator.mark for iterator in fused):
        raise RecordError("one of the iterators is annotated")
    inside = {loop for iterator in fused[:-1] for loop in iterator.loops}
    for other in work.state.stages:
        place = other.location
        if isinstance(place, Attached) and place.stage == name and place.loop in inside:
            raise RecordError(f"{other.name} is computed at {name}.{place.loop}, which is fused")
    kinds = {loop.name: loop.kind for loop in work.state.stage(name).loops}
    loops = tuple(loop for iterator in fused for loop in iterator.loops)
    if len({kinds[loop] for loop in loops}) > 1:
        raise RecordError(f"{', '.join(loops)} are spatial and reduce loops")
    iterators[first : last + 1] = [Iterator(loops)]


def _annotate(work: _Replay, number: int, step: LogStep) -> None:
    position, code = step.operands
    name, iterator = work.at(step.stage, position)
    mark = MARKS[code]
    if mark not in CPU_MARKS:
        raise RecordError(f"a CPU has no {mark}; expected one of {', '.join(CPU_MARKS[1:])}")
    if iterator.mark:
        raise RecordError(f"iterator {position} of {name} is already annotated {iterator.mark}")
    kinds = {loop.name: loop.kind for loop in work.state.stage(name).loops}
    reduces = any(kinds[loop] is AxisKind.REDUCE for loop in iterator.loops)
    if mark == "parallel" and reduces:
        raise RecordError(f"iterator {position} of {name} reduces: it cannot be parallel")
    work.iterators[name][position] = Iterator(iterator.loops, mark)


def _pragma(work: _Replay, number: int, step: LogStep) -> None:
    position, pragma = step.operands
    name, _ = work.at(step.stage, position)
    value = pragma.removeprefix(UNROLL)
    if value == pragma or not value.isdecimal() or len(value) > 9:
        raise RecordError(f"the pragma is {quoted(pragma)}; expected {UNROLL}N")
    work.unroll[name] = int(value)


def _compute_at(work: _Replay, number: int, step: LogStep) -> None:
    host, position = step.operands
    name, _ = work.found(step.stage)
    place, iterator = work.at(host, position)
    if not iterator.loops:
        raise RecordError(f"iterator {position} of {place} has no loop")
    work.do(steps.ComputeAt(name, place, iterator.loops[-1]))


def _inline(work: _Replay, number: int, step: LogStep) -> None:
    work.do(steps.ComputeInline(work.found(step.stage)[0]))


def _root(work: _Replay, number: int, step: LogStep) -> None:
    work.do(steps.ComputeRoot(work.found(step.stage)[0]))


def _cache_read(work: _Replay, number: int, step: LogStep) -> None:
    scope, readers = step.operands
    made = steps.CacheRead(
        work.name(step.stage), tuple(work.found(reader)[0] for reader in readers), scope
    )
    work.do(made)
    work.order.insert(step.stage + 1, made.cache)
    work.made(made.cache)


def _cache_write(work: _Replay, number: int, step: LogStep) -> None:
    (scope,) = step.operands
    name, _ = work.found(step.stage)
    made = steps.CacheWrite(name, scope)
    work.do(made)
    work.order.insert(step.stage, made.cache)
    work.made(made.cache)
    work.made(name)


def _rfactor(work: _Replay, number: int, step: LogStep) -> None:
    position, place = step.operands
    name, iterator = work.at(step.stage, position)
    if len(iterator.loops) != 1:
        raise RecordError(f"iterator {position} of {name} is fused; expected a part of a split")
    made = steps.Rfactor(name, iterator.loops[0])
    work.do(made)
    work.extents[made.partial] = dict(work.extents[name])
    work.order.insert(step.stage, made.partial)
    work.made(made.partial)
    work.made(name)
    loops = [loop.name for loop in work.state.stage(made.partial).loops if loop.name != made.loop]
    if place > len(loops):
        raise RecordError(f"there is no axis {place}; expected 0 to {len(loops)}")
    loops.insert(place, made.loop)
    if loops != [loop.name for loop in work.state.stage(made.partial).loops]:
        work.do(steps.Reorder(made.partial, tuple(loops)))
        work.made(made.partial)


def _align(work: _Replay, number: int, step: LogStep) -> None:
    work.at(step.stage, step.operands[0])  # the layout of a buffer: no loop changes


APPLY: Final[Mapping[str, Any]] = {
    "SP": _split,
    "FSP": _follow,
    "FFSP": _follow_fused,
    "RE": _reorder,
    "FU": _fuse,
    "AN": _annotate,
    "PR": _pragma,
    "CA": _compute_at,
    "CI": _inline,
    "CR": _root,
    "CHR": _cache_read,
    "CHW": _cache_write,
    "RF": _rfactor,
    "SA": _align,
}
