"""A schedule applied to a Dag: the plan with its sizes open, and the row that has their values.

The inner lengths of a split become sizes of a row, so that schedules that differ in numbers only
share one plan, as the candidates of a sketch do. A schedule with choices keeps its inner lengths:
its steps come from a record, whose sizes are open already.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from ansorpy.errors import LoweringError, SpecError, StepError, shown
from ansorpy.expr.evaluate import evaluate
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var, walk
from ansorpy.expr.intervals import linear
from ansorpy.loopir.nodes import Program
from ansorpy.plan.bind import bind
from ansorpy.plan.lower import Choices, lower
from ansorpy.plan.pack import indexed_by
from ansorpy.plan.plan import Plan, Size, StageChoice
from ansorpy.population import legal
from ansorpy.replay import UNFIT
from ansorpy.schedule.schedule import MAX_SIZE, Schedule
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Root, Stage, State, Step
from ansorpy.state.steps import Annotate, Reformulation, Split
from ansorpy.target import CpuTarget, Target
from ansorpy.te.dag import Compute, Dag

OF_GPU: Final = ("block", "vthread", "thread")
PlanKey: TypeAlias = tuple[tuple[Step, ...], Choices]
SCRATCH: Final = 4096  # limits above are bytes of scratch memory, those below are registers


@dataclass(frozen=True)
class Scheduled:
    """The plan of a schedule, and its sizes in the order of `plan.sizes`."""

    plan: Plan
    row: tuple[int, ...]

    def program(self, target: Target) -> Program:
        """Return the loop nest with its numbers.

        Raises:
            SpecError: the sizes cannot become loops.
        """
        try:
            return bind(self.plan, self.row, target)
        except UNFIT as error:
            raise SpecError(
                f"cannot lower the schedule ({_lowering(error)}); expected steps that keep every"
                " stage before its readers"
            ) from error


def scheduled(
    schedule: Schedule, dag: Dag, target: Target, allow: frozenset[str] = frozenset()
) -> Scheduled:
    """Return the plan and the row of a schedule.

    Args:
        allow: reformulations that the request allows: "winograd2".

    Raises:
        SpecError: a step, a size or a choice does not fit; tells the reason, and values that fit.
    """
    return placed(schedule, applied(schedule, dag, allow), target)


def applied(schedule: Schedule, dag: Dag, allow: frozenset[str]) -> State:
    """Return the state that the steps make, inner lengths open.

    Raises:
        SpecError: names the first step that does not fit.
    """
    state = State.naive(dag)
    for number, step in enumerate(schedule.steps, start=1):
        state = advanced(state, number, step, allow, kept=bool(schedule.choices))
    return state


def advanced(
    state: State, number: int, step: Step, allow: frozenset[str], kept: bool = False
) -> State:
    """Return the state after one more step.

    Args:
        number: of the step, from 1.
        kept: inner lengths stay as they are, as in a record.

    Raises:
        SpecError: the step does not fit.
    """
    try:
        _check(state, step, allow)
        return state.do(step if kept else _opened(step))
    except StepError as error:
        raise _refused(number, step, str(error), state) from error
    except UNFIT as error:
        why = f"{type(error).__name__} {shown(error)}"
        raise _refused(number, step, why, state) from error


def placed(
    schedule: Schedule, state: State, target: Target, known: dict[PlanKey, Plan] | None = None
) -> Scheduled:
    """Return the plan and the row of a state that `applied` made of a schedule.

    Args:
        known: plans by steps and choices; a plan that it lacks is added.
    """
    known = {} if known is None else known
    *marked, scalar = _lanes(schedule, state)
    for lanes in marked:
        with suppress(SpecError):  # the stages stay scalar
            return _legal(schedule, _sized(schedule, state, target, known, lanes))
    return _legal(schedule, _sized(schedule, state, target, known, scalar))


def forms(
    schedule: Schedule, state: State, target: Target, known: dict[PlanKey, Plan]
) -> Iterator[Scheduled]:
    """Yield the plans of a state that `placed` chooses from, the row of each legal or not."""
    for lanes in _lanes(schedule, state):
        with suppress(SpecError):
            yield _sized(schedule, state, target, known, lanes)


def _lanes(schedule: Schedule, state: State) -> list[Mapping[str, str]]:
    """Return the axes to vectorize by stage, in the order to try them; the last are none."""
    unmarked = {
        stage.name: lane for stage in state.stages if (lane := unmarked_lane(stage)) is not None
    }
    return [unmarked, {}] if unmarked and not schedule.choices else [{}]


def unmarked_lane(stage: Stage) -> str | None:
    """Return the axis that a compiler would vectorize in loops without marks; None: no axis.

    It is the last axis of the stage, runs in the innermost loop, and reads of the stage are
    contiguous or equal along it.
    """
    node = stage.node
    if not isinstance(node, Compute) or stage.role is not None or stage.dot is not None:
        return None
    last = stage.loops[-1]
    marked = any(loop.annotation in ("vectorize", "unroll") for loop in stage.loops)
    if marked or last.kind is AxisKind.REDUCE or last.axes != (node.axes[-1].name,):
        return None
    return None if any(_strided(read, last.axes[0]) for read in node.reads) else last.axes[0]


def _strided(read: Read, axis: str) -> bool:
    """Return True if elements that follow each other along an axis lie apart in memory."""
    if axis not in indexed_by(read.indices):
        return False
    form = linear(read.indices[-1])
    return axis in indexed_by(read.indices[:-1]) or form is None or form[1].get(axis) != 1


def _legal(schedule: Schedule, scheduled: Scheduled) -> Scheduled:
    """Return a plan and its row; raise SpecError if the row is illegal."""
    why = refusal(scheduled.plan, scheduled.row)
    if why:
        raise SpecError(f"cannot take the sizes of the schedule because {_cause(schedule, why)}")
    return scheduled


def _sized(
    schedule: Schedule,
    state: State,
    target: Target,
    known: dict[PlanKey, Plan],
    unmarked: Mapping[str, str],
) -> Scheduled:
    """Return the plan and the row of a state; the row may be illegal."""
    if not isinstance(target, CpuTarget):
        raise SpecError(
            f"cannot lower a schedule for {target.names[-1]} because schedules of users are"
            " lowered for processors only; expected target cpu"
        )
    choices = _choices(schedule, state, unmarked)
    try:
        key = (state.steps, choices)
        plan = known[key] if key in known else lower(state, choices, target)
        known[key] = plan
    except UNFIT as error:
        raise SpecError(
            f"cannot lower the schedule ({_lowering(error)}); expected stages whose places and"
            " loops fit together"
        ) from error
    return Scheduled(plan, _row(schedule, plan))


def refusal(plan: Plan, row: tuple[int, ...]) -> str:
    """Return why a row of a plan is not legal, and the legal values; "" if it is."""
    values = dict(zip((size.name for size in plan.sizes), row, strict=True))
    for size in plan.sizes:
        why = _out_of_range(size, values[size.name])
        if why:
            return why
    rows = np.array([row], np.int64).reshape(1, len(row))
    if legal(plan, rows).all():
        return ""
    columns = {name: np.array([value], np.int64) for name, value in values.items()}
    for condition in plan.conditions:
        if not evaluate(condition, columns).all():
            return _broken(plan, condition, values, columns)
    group = next(s.group for s in plan.sizes if s.role == "tile" and _exceeds(plan, s, values))
    lengths = {s.name: values[s.name] for s in plan.sizes if s.group == group}
    extent = next(s.extent for s in plan.sizes if s.group == group)
    return f"{_told(lengths)} exceed {group}; expected a product of at most {extent}"


def _check(state: State, step: Step, allow: frozenset[str]) -> None:
    """Raise StepError for a step that is no transform of a user."""
    if isinstance(step, Annotate):
        if step.annotation in OF_GPU:
            raise StepError(f"{step}: loops of a processor have no {step.annotation}")
        _check_mark(state, step)
    if isinstance(step, Reformulation) and step.word not in allow:
        raise StepError(f"{step}: it changes rounding, and the request does not allow it")


def _check_mark(state: State, step: Annotate) -> None:
    """Refuse a mark that the loops of lowering could not follow."""
    stage = state.stage(step.stage)
    loops = [loop.name for loop in stage.loops]
    if step.loop not in loops:
        return  # the step itself says so
    loop = stage.loops[loops.index(step.loop)]
    if step.annotation == "parallel":
        outer = [
            one for one in stage.loops[: loops.index(step.loop)] if one.annotation != "parallel"
        ]
        if outer:
            raise StepError(f"{step}: {outer[0].name!r}, outside of it, is not parallel")
        if loop.kind is AxisKind.REDUCE:
            raise StepError(f"{step}: {step.loop!r} is reduced, and its iterations share a sum")
    if step.annotation == "vectorize":
        last = [one for one in stage.loops if one.axes == loop.axes][-1]
        if last is not loop:
            raise StepError(f"{step}: {last.name!r} is the innermost part of its axis")
        if any(one.annotation == "vectorize" for one in stage.loops):
            raise StepError(f"{step}: another loop of the stage is vectorized")


def _opened(step: Step) -> Step:
    """Return a step whose lengths are sizes of the row; one with a length 0 keeps the others."""
    return replace(step, fixed=()) if isinstance(step, Split) and all(step.fixed) else step


def _refused(number: int, step: Step, error: str, state: State) -> SpecError:
    why = error.removeprefix(f"{_opened(step)}: ").removeprefix(f"{step}: ")
    name = getattr(step, "stage", "")
    if name in state.index:
        loops = ", ".join(loop.name for loop in state.stage(name).loops)
        expected = f"a step for the loops of {name}, {loops}" if loops else "a stage with loops"
    else:
        expected = f"one of the stages {', '.join(state.index)}"
    return SpecError(
        f"cannot apply step {number} ({shown(step, 160)}) because {shown(why, 200)}; expected"
        f" {shown(expected, 300)}"
    )


def _choices(schedule: Schedule, state: State, unmarked: Mapping[str, str]) -> Choices:
    """Return the structural choices that the steps make, or the schedule names.

    Args:
        unmarked: axes of stages without marks that are vectorized.
    """
    own, pack = dict(schedule.choices), dict(schedule.pack)
    for name in (*own, *pack):
        if name not in state.index or not state.stage(name).loops:
            stages = [stage.name for stage in state.stages if stage.loops]
            raise SpecError(
                f"cannot choose for the stage {shown(name)!r} because it has no loops; expected"
                f" {', '.join(stages)}"
            )
    for name, tensors in pack.items():
        _check_pack(state, name, tensors)
    return tuple(
        (stage.name, own.get(stage.name) or _choice(stage, pack.get(stage.name, ()), unmarked))
        for stage in state.stages
        if stage.loops
    )


def _check_pack(state: State, name: str, tensors: tuple[str, ...]) -> None:
    node = state.stage(name).node
    assert isinstance(node, Compute)  # it has loops
    read = list(dict.fromkeys(one.tensor for one in node.reads))
    for tensor in tensors:
        if tensor not in read:
            raise SpecError(
                f"cannot pack {shown(tensor)!r} for {name} because {name} does not read it;"
                f" expected {' or '.join(read)}"
            )


def _choice(stage: Stage, pack: tuple[str, ...], unmarked: Mapping[str, str]) -> StageChoice:
    lanes = ["@".join(one.axes) for one in stage.loops if one.annotation == "vectorize"]
    parallel = 0
    if stage.location == Root():
        parallel = sum(1 for one in stage.loops if one.annotation == "parallel")
    return StageChoice(
        stage.location, parallel, lanes[0] if lanes else unmarked.get(stage.name), pack
    )


def _row(schedule: Schedule, plan: Plan) -> tuple[int, ...]:
    """Return the value of every size of the plan; a budget that is not given is the smallest."""
    given = dict(schedule.sizes)
    for name in given:
        if name not in plan.column:
            raise SpecError(
                f"cannot set the size {shown(name)!r} because the loops have none of that name;"
                f" expected {', '.join(plan.column) or 'no size'}"
            )
    for step in schedule.steps:
        if isinstance(step, Split) and all(step.fixed) and not schedule.choices:
            for q, value in enumerate(step.fixed, start=1):
                given.setdefault(f"{step.stage}.{step.loop}.{q}", value)
    missing = [size.name for size in plan.sizes if size.role == "tile" and size.name not in given]
    if missing:
        raise SpecError(
            f"cannot lower the schedule because {missing[0]} has no value; expected inner lengths"
            f" in the split, or the size {missing[0]}"
        )
    return tuple(given.get(size.name, min(size.values, default=1)) for size in plan.sizes)


def _lowering(error: Exception) -> str:
    """Return the reason of a failed lowering; other errors are named by their type."""
    named = "" if isinstance(error, LoweringError) else f"{type(error).__name__} "
    return shown(f"{named}{error}", 200)


def _out_of_range(size: Size, value: int) -> str:
    if size.role != "tile":
        if value in size.values:
            return ""
        return f"{size.name} = {value} is not offered; expected {_or(size.values)}"
    most = -(-size.extent // size.multiple_of) * size.multiple_of
    if not 1 <= value <= min(most, MAX_SIZE):
        return f"{size.name} = {value} is out of range; expected 1 to {most}"
    if value % size.multiple_of:
        return (
            f"{size.name} = {value} is no multiple of {size.multiple_of}, the lanes of a vector;"
            f" expected {size.multiple_of} to {most} in steps of {size.multiple_of}"
        )
    return ""


def _exceeds(plan: Plan, size: Size, values: Mapping[str, int]) -> bool:
    own = [one for one in plan.sizes if one.group == size.group]
    inner = max(own, key=lambda one: one.part)
    blocks = 1
    for one in own:
        blocks *= 1 if one is inner else values[one.name]
    return (blocks - 1) * values[inner.name] >= size.extent


def _broken(
    plan: Plan, condition: Expr, values: Mapping[str, int], columns: Mapping[str, np.ndarray]
) -> str:
    names = {part.name: values[part.name] for part in walk(condition) if isinstance(part, Var)}
    groups = {size.group for size in plan.sizes if size.name in names}
    if isinstance(condition, Binary) and isinstance(condition.b, Const):
        needed, limit = int(evaluate(condition.a, columns).max()), int(condition.b.value)
        unit = "bytes of scratch memory" if limit >= SCRATCH else "vector registers"
        return f"{_told(names)} need {needed} {unit}; expected at most {limit}"
    extents = {size.extent for size in plan.sizes if size.group in groups}
    expected = f"a product of at most {max(extents)}" if len(groups) == 1 else "smaller lengths"
    return f"{_told(names)} exceed {' and '.join(sorted(groups))}; expected {expected}"


def _cause(schedule: Schedule, why: str) -> str:
    """Return a refusal of sizes with the number of the split that gives the first one."""
    for number, step in enumerate(schedule.steps, start=1):
        sizes = f"{step.stage}.{step.loop}." if isinstance(step, Split) and step.fixed else ""
        if sizes and why.startswith(sizes):
            return f"of step {number} ({step}): {why}"
    return why


def _told(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _or(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))
