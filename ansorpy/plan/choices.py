"""Enumeration of the structural choices of a sketch: its plans."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ansorpy.errors import LoweringError
from ansorpy.plan.flatten import flattened
from ansorpy.plan.inline import is_input, works
from ansorpy.plan.lower import Choices, lower
from ansorpy.plan.plan import Plan, StageChoice
from ansorpy.plan.stage_choices import (
    Lanes,
    SketchContext,
    followed_axes,
    is_tiled,
    lane_and_pack,
    locations,
    pinned,
    source_of,
    tasks,
)
from ansorpy.state.state import Attached, Inlined, Root, Stage, State
from ansorpy.target import Target
from ansorpy.te.dag import Dag

PLANS: Final = 24  # plans per sketch at most
ALL_PLANS: Final = 96  # plans per task, about
ATTEMPTS: Final = 400  # combinations of choices that are tried per sketch
RANKS: Final = 12  # largest sum of the ranks of the choices, 0 for the most promising ones


def naive(dag: Dag, target: Target) -> Plan:
    """Return the plan of the untuned program: one serial scalar loop per axis, nothing inlined."""
    return lower(State.naive(dag), (), target)


def plans(
    sketch: State,
    target: Target,
    limit: int = PLANS,
    late: Callable[[], bool] = lambda: False,
) -> tuple[Plan, ...]:
    """Return the plans of a sketch, the most promising first, at most `limit`.

    A plan fixes the location of every stage, its parallel loops, its vectorized axis and its
    packed operands. Combinations that cannot be lowered are left out.

    Args:
        late: once it returns True, no further combination is tried.
    """
    sketch = flattened(sketch)
    answer: list[Plan] = []
    seen: set[Choices] = set()
    location = {stage.name: stage.location for stage in sketch.stages}
    meaning = {work.name: work for work in works(sketch.stages, location)}
    context = SketchContext(sketch, meaning, target)
    for attempt, chosen in enumerate(_by_rank(context)):
        if len(answer) >= limit or attempt >= ATTEMPTS or late():
            break
        choices = _settled(context, chosen)
        if choices in seen:
            continue
        seen.add(choices)
        try:
            answer.append(lower(sketch, choices, target))
        except LoweringError:
            continue
    return tuple(answer)


def all_plans(
    sketches: tuple[State, ...], target: Target, limit: int = ALL_PLANS
) -> tuple[Plan, ...]:
    """Return about `limit` plans, with an equal share for every sketch."""
    return tuple(each_plan(sketches, target, limit))


def each_plan(
    sketches: tuple[State, ...],
    target: Target,
    limit: int = ALL_PLANS,
    late: Callable[[], bool] = lambda: False,
) -> Iterator[Plan]:
    """Yield the plans of `all_plans`, sketch by sketch, once all plans of a sketch are lowered.

    Args:
        late: once it returns True, no further plan is lowered.
    """
    share = max(1, min(PLANS, limit // max(1, len(sketches))))
    for sketch in sketches[:limit]:
        yield from plans(sketch, target, share, late)


def _by_rank(context: SketchContext) -> Iterator[dict[str, StageChoice]]:
    """Yield combinations of choices in the order of the sum of their ranks."""
    order = [
        stage
        for stage in reversed(context.state.stages)
        if not is_input(stage.node) and not isinstance(stage.location, Inlined)
    ]
    for rank in range(RANKS):
        yield from _choose(context, order, {}, rank)


def _choose(
    context: SketchContext, order: list[Stage], chosen: dict[str, StageChoice], rank: int
) -> Iterator[dict[str, StageChoice]]:
    if not order:
        if rank == 0:
            yield chosen
        return
    stage, *rest = order
    for cost, choice in _stage_options(context, stage, chosen):
        if cost <= rank:
            yield from _choose(context, rest, {**chosen, stage.name: choice}, rank - cost)


def _stage_options(
    context: SketchContext, stage: Stage, chosen: dict[str, StageChoice]
) -> Iterator[tuple[int, StageChoice]]:
    """Yield (rank, choice) of one stage, given the choices of the stages after it."""
    for i, place in enumerate(locations(context, stage, chosen)):
        if isinstance(place, Inlined):
            yield i, StageChoice(place)
            continue
        parallel = tasks(context, stage) if isinstance(place, Root) else [0]
        lanes = _lanes(context, stage, chosen)
        if stage.name in context.blocks or context.blocks.host(place):
            lanes = ((None, ()),)  # its lanes are threads
        fixed = pinned(context, stage, place)
        free = [option for option in lanes if option[0] not in fixed]
        for j, (lane, pack) in enumerate(free or lanes):
            for k, count in enumerate(parallel):
                yield i + j + k, StageChoice(place, count, lane, pack)


def _lanes(context: SketchContext, stage: Stage, chosen: dict[str, StageChoice]) -> Lanes:
    """Return (lane axis, packed operands) options of a stage.

    A fused consumer and its tiled producer have the same lane axis.
    """
    source = source_of(context, stage)
    if source is not None:
        axes = followed_axes(source, stage)
        lanes = [lane and axes.get(lane) for lane, _ in lane_and_pack(context, source)]
        return tuple((lane, ()) for lane in dict.fromkeys(lanes))
    options = lane_and_pack(context, stage)
    if is_tiled(stage) and isinstance(stage.location, Attached):
        host = context.state.stage(stage.location.stage)
        if host.name in chosen and source_of(context, host) is stage:
            axes = followed_axes(stage, host)
            lane = chosen[host.name].lane
            return tuple(option for option in options if option[0] and axes.get(option[0]) == lane)
    return options


def _settled(context: SketchContext, chosen: dict[str, StageChoice]) -> Choices:
    """Return the choices in stage order; loops inside of an attach point are not parallel."""
    limits: dict[str, int] = {}
    for choice in chosen.values():
        if isinstance(choice.location, Attached):
            host = context.state.stage(choice.location.stage)
            names = [loop.name for loop in host.loops]
            at = names.index(choice.location.loop) + 1
            limits[host.name] = min(limits.get(host.name, at), at)
    answer = []
    for stage in context.state.stages:
        if stage.name in chosen:
            choice = chosen[stage.name]
            most = min(choice.parallel, limits.get(stage.name, choice.parallel))
            answer.append((stage.name, replace(choice, parallel=most)))
    return tuple(answer)
