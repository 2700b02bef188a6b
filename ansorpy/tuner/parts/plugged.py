"""Chosen parts at work: the built-in ones, and parts of packages behind checks of their answers.

A cost model has no memory beside its samples: after an interruption a new one learns all of them.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import inf
from typing import Any, Final, get_args

import numpy as np

from ansorpy.cost.gbm import GbmModel
from ansorpy.cost.model import Batch, CostModel, Sample, Scores
from ansorpy.cost.roofline import RooflineModel
from ansorpy.errors import PluginError, shown
from ansorpy.events import Plugged
from ansorpy.measure.outcome import Failed, FailureKind, Measured
from ansorpy.measure.protocols import Measurer, TrialRequest
from ansorpy.plan.choices import plans
from ansorpy.population import legal
from ansorpy.search import Candidate
from ansorpy.search.strategy import (
    Evolution,
    RandomSearch,
    ResumableStrategy,
    SearchStrategy,
    SearchView,
)
from ansorpy.sketch import SKETCH_LIMIT, Derivation, SpaceGenerator, Visit, derive
from ansorpy.state.rule import Rule
from ansorpy.state.state import State
from ansorpy.state.steps import reformulations
from ansorpy.state.text import replay, steps_to_json
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.plugins import (
    COST_MODELS,
    GROUPS,
    OURS,
    SEARCHES,
    SPACES,
    PartGroup,
    Plugin,
    chosen_part,
    failed,
    guarded,
)
from ansorpy.tuner.requests.request import Request

MEASURE_S: Final = 60.0  # time-out of a call of a measuring back end that sets none
MOST_MEASURE_S: Final = 86_400.0  # the longest that it may set, a day
MAX_STATE: Final = 1 << 20  # characters of the memory of a strategy as JSON


def default_model(target: Target, seed: int) -> CostModel:
    """Return boosted trees; until they are trained the analytic model predicts."""
    return GbmModel(RooflineModel(target), seed)


def analytic(target: Target, seed: int) -> CostModel:
    """Return the analytic model, which learns nothing; it has no use for a seed."""
    return RooflineModel(target)


def evolution(target: Target, seed: int) -> SearchStrategy:
    """Return the strategy of Ansor, which takes random numbers of the search."""
    return Evolution()


def random(target: Target, seed: int) -> SearchStrategy:
    """Return random search, which takes random numbers of the search."""
    return RandomSearch()


@dataclass(frozen=True, slots=True)
class PluggedModel:
    """A cost model of another package; an error names the package and the method."""

    plugin: Plugin
    model: CostModel

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return one array of finite scores per batch, shape (n,), float64.

        Raises:
            PluginError: the model raised, or returned something else.
        """
        found = guarded(self.plugin, "predict", self.model.predict, batches, task)
        read: list[Scores] = guarded(self.plugin, "predict", _arrays, found)
        if len(read) != len(batches):
            why = f"returned {len(read)} arrays for {len(batches)} batches"
            raise failed(self.plugin, "predict", why)
        for scores, batch in zip(read, batches, strict=True):
            if scores.shape != (len(batch),):
                why = f"returned scores of shape {scores.shape} for {len(batch)} candidates"
                raise failed(self.plugin, "predict", why)
            if not np.isfinite(scores).all():
                raise failed(self.plugin, "predict", "returned a score that is not finite")
        return read

    def update(self, samples: Sequence[Sample]) -> None:
        """Let the model learn; PluginError if it raises."""
        guarded(self.plugin, "update", self.model.update, samples)


@dataclass(frozen=True, slots=True)
class PluggedSearch:
    """A search strategy of another package; an error names the package and the method."""

    plugin: Plugin
    strategy: SearchStrategy

    def propose(self, view: SearchView, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Return at most `count` different legal candidates that are not seen.

        Raises:
            PluginError: the strategy raised, or returned something else.
        """
        found = guarded(self.plugin, "propose", self.strategy.propose, view, count, rng)
        read: list[Candidate] = guarded(self.plugin, "propose", list, found)
        wrong = next(_mistakes(read, view, count), "")
        if wrong:
            raise failed(self.plugin, "propose", f"returned {wrong}")
        return read

    def state(self) -> Any:
        """Return the memory of the strategy as JSON, None if it keeps none.

        Raises:
            PluginError: the strategy raised, or its memory is no JSON, or too large.
        """
        if not isinstance(self.strategy, ResumableStrategy):
            return None
        found = guarded(self.plugin, "state", self.strategy.state)
        written = guarded(self.plugin, "state", _as_json, found)
        if len(written) > MAX_STATE:
            why = f"returned {len(written)} characters of JSON, more than {MAX_STATE}"
            raise failed(self.plugin, "state", why)
        return json.loads(written)

    def restore(self, state: Any) -> None:
        """Bring the strategy to a memory of `state`; PluginError if it raises."""
        if isinstance(self.strategy, ResumableStrategy):
            guarded(self.plugin, "restore", self.strategy.restore, state)


class RuleSpace:
    """The space generator that derives sketches by the rules; it has no use for its arguments."""

    def __init__(self, target: Target, seed: int) -> None: ...

    sketches = staticmethod(derive)


@dataclass(frozen=True, slots=True)
class PluggedSpace:
    """A space generator of another package; an error names the package and the method.

    `allow`: names of the rules whose reformulations the request permits.
    """

    plugin: Plugin
    generator: SpaceGenerator
    allow: Sequence[str]

    def sketches(self, dag: Dag, target: Target, rules: tuple[Rule, ...]) -> Derivation:
        """Return sketches that replay from their steps, and that can be lowered.

        Raises:
            PluginError: the generator raised, or returned something else.
        """
        found = guarded(self.plugin, "sketches", self.generator.sketches, dag, target, rules)
        if isinstance(found, Derivation):
            known, found = found.visits, found.sketches
        else:
            known = (Visit(""),)
        read: list[Any] = guarded(self.plugin, "sketches", list, found)
        if not 1 <= len(read) <= SKETCH_LIMIT:
            why = f"returned {len(read)} sketches; expected 1 to {SKETCH_LIMIT}"
            raise failed(self.plugin, "sketches", why)
        for number, state in enumerate(read):
            wrong = guarded(self.plugin, "sketches", self._mistake, state, dag, target)
            if wrong:
                raise failed(self.plugin, "sketches", f"returned sketch {number}, which {wrong}")
        made = Derivation(dag, tuple(read), known)
        guarded(self.plugin, "sketches", lambda: made.applied)  # the reasons can be read
        return made

    def _mistake(self, state: Any, dag: Dag, target: Target) -> str:
        """Return the reason for which a state is no sketch of a Dag; "" if it is one."""
        if not isinstance(state, State):
            return f"is {type(state).__name__}, not a State"
        if replay(dag, steps_to_json(state)) != state:
            return f"its steps do not make of {dag.name!r}"
        if reformulations(state) and not self.allow:
            return "changes rounding, which the request does not allow"
        return "" if plans(state, target, 1) else "cannot be lowered"


def generator_of(
    request: Request,
) -> Callable[[Dag, Target, tuple[Rule, ...]], Derivation]:
    """Return the function of the space generator that a request chooses.

    Raises:
        PluginError: the generator cannot be loaded or made.
    """
    plugin, generator = _new_part(SPACES, request, "sketches")
    own = generator if plugin.is_ours else PluggedSpace(plugin, generator, request.allow)
    return own.sketches


@dataclass(frozen=True, slots=True)
class PluggedMeasurer:
    """A measuring back end of another package; an error names the package and the method."""

    plugin: Plugin
    measurer: Measurer
    timeout_s: float = MEASURE_S

    def overdue(self) -> PluginError:
        """Return the error of a call that hangs."""
        return failed(self.plugin, "measure", f"gave no answer in {self.timeout_s:g} s")

    def measure(self, trial: TrialRequest, dag: Dag) -> Measured | Failed:
        """Return finite positive samples in seconds, or a failure of a known kind.

        Raises:
            PluginError: the back end raised, or returned something else.
        """
        start_s = time.monotonic()
        outcome = guarded(self.plugin, "measure", self.measurer.measure, trial, dag)
        took_s = time.monotonic() - start_s
        if isinstance(outcome, Failed) and outcome.kind in get_args(FailureKind):
            return Failed(outcome.kind, shown(outcome.message, 300), seconds=took_s)
        if not isinstance(outcome, Measured):
            why = f"returned {shown(outcome, 100)}, neither Measured nor Failed of a known kind"
            raise failed(self.plugin, "measure", why)
        times_s: list[float] = guarded(self.plugin, "measure", _numbers, outcome.times_s)
        if not times_s or not all(0.0 < one < inf for one in times_s):
            why = f"returned samples {shown(times_s, 100)}, which are no positive seconds"
            raise failed(self.plugin, "measure", why)
        return Measured(tuple(times_s), run_s=took_s, aborted=bool(outcome.aborted))


def measurer_of(request: Request, plugin: Plugin) -> PluggedMeasurer:
    """Return a new object of a measuring back end of another package.

    Raises:
        PluginError: it cannot be loaded or made, or its time-out is no positive number.
    """
    measurer = plugin.make(request.target, request.seed)
    check_methods(plugin, measurer, ("measure",))
    timeout_s = guarded(plugin, "timeout_s", getattr, measurer, "timeout_s", MEASURE_S)
    if type(timeout_s) not in (int, float) or not 0.0 < timeout_s <= MOST_MEASURE_S:
        why = f"is {shown(timeout_s, 100)}, no number of seconds up to {MOST_MEASURE_S:g}"
        raise failed(plugin, "timeout_s", why)
    return PluggedMeasurer(plugin, measurer, float(timeout_s))


def model_of(request: Request) -> CostModel:
    """Return the cost model that a request chooses.

    Raises:
        PluginError: the model cannot be loaded or made.
    """
    plugin, model = _new_part(COST_MODELS, request, "predict", "update")
    return model if plugin.is_ours else PluggedModel(plugin, model)


def strategy_of(request: Request) -> SearchStrategy:
    """Return a new object of the search strategy that a request chooses.

    Raises:
        PluginError: the strategy cannot be loaded or made.
    """
    plugin, strategy = _new_part(SEARCHES, request, "propose")
    return strategy if plugin.is_ours else PluggedSearch(plugin, strategy)


def told_parts(request: Request, strategy: SearchStrategy) -> Iterator[Plugged]:
    """Yield an event for each part that is not the default one."""
    for group in GROUPS:
        plugin = chosen_part(group, request)
        if plugin.name != group.default:
            own = strategy.strategy if isinstance(strategy, PluggedSearch) else None
            forgets = group is SEARCHES and own is not None and not _resumes(own)
            yield Plugged(group.option, plugin.name, plugin.package, forgets)


def recorded_parts(request: Request) -> tuple[tuple[str, str, str], ...]:
    """Return option, name and package of each part that is not the default one, as records do."""
    chosen = (chosen_part(group, request) for group in GROUPS)
    return tuple(
        (one.group.option, one.name, f"{OURS} {version(OURS)}" if one.is_ours else one.package)
        for one in sorted(chosen, key=lambda one: one.group.option)
        if one.name != one.group.default
    )


def _resumes(strategy: SearchStrategy) -> bool:
    return isinstance(strategy, ResumableStrategy)


def _new_part(group: PartGroup, request: Request, *methods: str) -> tuple[Plugin, Any]:
    """Return the part of a group that a request chooses, and a new object of it."""
    plugin = chosen_part(group, request)
    part = plugin.make(request.target, request.seed)
    check_methods(plugin, part, methods)
    return plugin, part


def check_methods(plugin: Plugin, part: object, names: Sequence[str]) -> None:
    """Raise PluginError unless a made part has methods of these names."""
    for name in names:
        if not callable(getattr(part, name, None)):
            why = f"returned {type(part).__name__}, which has no method {name}"
            raise failed(plugin, "its factory", why)


def _arrays(answer: Any) -> list[Scores]:
    return [np.asarray(scores, np.float64) for scores in answer]


def _numbers(answer: Any) -> list[float]:
    return [float(one) for one in answer]


def _as_json(state: Any) -> str:
    return json.dumps(state, allow_nan=False)


def _mistakes(proposed: list[Any], view: SearchView, count: int) -> Iterator[str]:
    """Yield the reasons for which proposed candidates cannot be measured."""
    if len(proposed) > count:
        yield f"{len(proposed)} candidates where {count} were asked for"
    for candidate in proposed:
        if not isinstance(candidate, Candidate):
            yield f"{type(candidate).__name__}, not a Candidate"
            return
        if not (type(candidate.plan) is int and 0 <= candidate.plan < len(view.plans)):
            yield f"a candidate of plan {candidate.plan!r}, and there are {len(view.plans)}"
            return
        plan = view.plans[candidate.plan]
        row: Any = candidate.row
        whole = isinstance(row, tuple) and all(type(size) is int for size in row)
        if not whole or len(candidate.row) != len(plan.sizes):
            yield f"a row that is no tuple of {len(plan.sizes)} integers"
            return
        if candidate.row and not legal(plan, np.array([candidate.row], np.int64))[0]:
            yield f"row {candidate.row} of plan {candidate.plan}, which cannot be lowered"
    if len(set(proposed)) < len(proposed):
        yield "a candidate twice"
    if not {*view.seen}.isdisjoint(proposed):
        yield "a candidate that was proposed before"
