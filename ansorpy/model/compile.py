"""The spine of a whole model: passes, partition, first answers, search, bundle, verification."""

import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

from ansorpy.bundle.container import write_bundle
from ansorpy.bundle.weightless import without_weights
from ansorpy.cost.explained import explained_s
from ansorpy.errors import RunError, SpecError
from ansorpy.events import (
    Finished,
    FirstAnswer,
    Forecast,
    Improved,
    Stopped,
    TaskResult,
    TooShort,
)
from ansorpy.graph.graph import Graph
from ansorpy.graph.groups import Partition
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import Simplified, simplify
from ansorpy.graph.wire.document import Document
from ansorpy.graph.wire.draw import with_drawn_weights
from ansorpy.measure.timing.cold_weights import cold_bytes
from ansorpy.model.assemble import Origin, TaskLibrary, plan_of
from ansorpy.model.budget import ModelBudget
from ansorpy.model.events import (
    BundleWritten,
    Cutting,
    Divided,
    ModelEstimate,
    ModelEvent,
    Recut,
)
from ansorpy.model.options import ModelOptions
from ansorpy.model.tasks import ModelTasks, tasks_of
from ansorpy.model.verify import BUDGET_S, ModelReference, check, reference_of
from ansorpy.records import RecordStore
from ansorpy.sketch import derive
from ansorpy.state.rule import Rule, Verdict
from ansorpy.target import Target, require_cpu
from ansorpy.te.dag import Dag
from ansorpy.tuner.allocation import chosen_dags
from ansorpy.tuner.checkpoint import Journal
from ansorpy.tuner.experience import Experience
from ansorpy.tuner.forecast import forecast_of_sum
from ansorpy.tuner.options import check_whole
from ansorpy.tuner.plugged import recorded_parts
from ansorpy.tuner.pools import Pools
from ansorpy.tuner.request import Answered, Request
from ansorpy.tuner.rules import find_rules
from ansorpy.tuner.task import Task, rules_name
from ansorpy.tuner.trust import is_trusted
from ansorpy.tuner.tune import run
from ansorpy.units import counted, duration

LEAST_SHARE: Final = 0.005  # share of a model's time below which a task is not searched
LEAST_TRIALS: Final = 8  # trials of a searched task: the first round
SUSPECT: Final = 5.0  # times the seconds that bytes and operations explain: a slower task is cut
MOST_CUT: Final = 8  # tasks that are cut, those of the largest share first: pieces take seconds
FUSES: Final = "FuseChain"  # name of the rule of chains
MANY_REDUCTIONS: Final = 3  # reductions from which on the sketches of a Dag are counted
MANY_COMPUTES: Final = 12  # compute nodes from which on a Dag is lowered, about a second each


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model to tune.

    Args:
        graph: as imported.
        out: path of the bundle.
        file: the model's file, which ONNX Runtime can run; None if there is none.
        digest: sha256 of the file, hex.
        reference: inputs and right outputs; those of `reference_of` unless given.
        done: trials of an interrupted attempt at the same request, by task; they are in the store.
        race_s: seconds that a race of the whole bundle takes after the last one is written.
        document: of a graph whose weights are elsewhere, as it was sent: after passes. The bundle
            is verified with stand-ins of the weights, and has none.
    """

    graph: Graph
    target: Target
    options: ModelOptions
    out: Path
    file: Path | None = None
    digest: str = ""
    reference: ModelReference | None = None
    done: Mapping[str, int] = field(default_factory=dict)
    document: Document | None = None
    race_s: float = 0.0

    def __post_init__(self) -> None:
        require_cpu(self.target.kind)
        check_whole(self.options)


@dataclass(frozen=True, slots=True)
class ModelResult:
    """A written bundle, and the parts that it consists of.

    `hosted` has the operators of the nodes that NumPy computes. `forecast` is None without a
    search. `recuts` has the tasks that were cut, `explained_s` the seconds that bytes and
    operations of each task explain.
    `model_s` is the sum of the kernels' best times. `error` and `bound` are shares of the largest
    element of the reference, whose oracle and inputs `reference` names.
    """

    bundle: Path
    model_s: float
    error: float
    bound: float
    reference: str
    parts: int
    tasks: tuple[TaskResult, ...]
    hosted: tuple[str, ...]
    trials: int
    seconds: float
    stopped: Stopped
    forecast: Forecast | None = None
    recuts: tuple[Recut, ...] = ()
    explained_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def untuned(self) -> int:
        """The number of tasks with untuned kernels: there was no time for others."""
        return sum(task.winner == "baseline" for task in self.tasks)

    def __str__(self) -> str:
        """Return a summary for people."""
        untuned = f"; {self.untuned} of {counted(len(self.tasks), 'task')} have untuned kernels"
        hosted = f", {counted(len(self.hosted), 'node')} by NumPy" if self.hosted else ""
        return (
            f"{self.bundle}: kernels take {duration(self.model_s)} per call;"
            f" {counted(self.parts, 'call')} of {counted(len(self.tasks), 'kernel')}{hosted},"
            f" {counted(self.trials, 'trial')}, {self.seconds:.0f} s"
            f" ({self.stopped}); error {self.error:.1e} of the largest element, at most"
            f" {self.bound:.1e}, verified against {self.reference}"
            f"{untuned if self.untuned else ''}"
            f"{'' if self.forecast is None else f'; {self.forecast}'}"
            f"{''.join(f'; {one}' for one in self.recuts)}"
        )


@dataclass(slots=True)
class Compilation:
    """A model that becomes a bundle: its tasks, and the best library of each so far."""

    request: ModelRequest
    tasks: ModelTasks
    partition: Partition
    budget: ModelBudget
    weights_bytes: int = 0  # weights that a run of the model reads
    reference: ModelReference | None = None
    libraries: dict[str, TaskLibrary] = field(default_factory=dict)
    results: dict[str, TaskResult] = field(default_factory=dict)
    best_s: dict[str, float] = field(default_factory=dict)  # also of trials without a library
    trials: int = 0
    recuts: list[Recut] = field(default_factory=list)
    cut_from: dict[str, str] = field(default_factory=dict)  # piece of a task -> the task

    @property
    def model_s(self) -> float:
        """The sum of the best times of all parts that have one."""
        return self.estimate().model_s

    def estimate(self) -> ModelEstimate:
        """Return the time of the model as far as its parts have one."""
        weights = self.fastest(self.best_s).weights
        sum_s = sum((count * self.best_s.get(name, 0.0) for name, count in weights.items()), 0.0)
        return ModelEstimate(sum_s, len(self.best_s), len(self.tasks.dags), weights)

    def times_s(self) -> dict[str, float]:
        """Return the time of the library of each task that has one."""
        return {name: made.best_s for name, made in self.libraries.items()}

    def fastest(self, times_s: Mapping[str, float]) -> ModelTasks:
        """Return the tasks with the faster alternatives; a part without a time takes forever."""
        return self.tasks.chosen({dag.name: inf for dag in self.tasks.dags} | {**times_s})

    def dag(self, name: str) -> Dag:
        """Return the Dag of a task."""
        return next(dag for dag in self.tasks.dags if dag.name == name)

    def follow(
        self, events: Generator[ModelEvent, None, Finished]
    ) -> Generator[ModelEvent, None, Finished]:
        """Yield the events of a tuning of tasks, with estimates; return the last one."""
        event: ModelEvent | None = next(events)
        while not isinstance(event, Finished):
            assert event is not None
            try:
                yield event
                if isinstance(event, FirstAnswer | Improved) and self._improves(event):
                    yield self.estimate()
                event = next(events)
            except KeyboardInterrupt:
                event = events.throw(KeyboardInterrupt())
        for result in event.results:
            self._keep(result)
        return event

    def outlook(self, ended: Finished) -> Forecast | None:
        """Return the forecast of the time of the model from those of the tasks of a search."""
        whole = self.estimate()
        return forecast_of_sum(
            [
                (whole.weights.get(one.name, 0.0) * self.best_s[one.name] / whole.model_s, forecast)
                for one in ended.results
                if (forecast := one.forecast) is not None and one.name in self.best_s
            ]
        )

    def _improves(self, event: FirstAnswer | Improved) -> bool:
        before_s = self.best_s.get(event.task)
        if before_s is not None and before_s <= event.best_s:
            return False
        self.best_s[event.task] = event.best_s
        return True

    def _keep(self, result: TaskResult) -> None:
        """Keep the library of a result if it is the fastest of its task.

        A search measures the answer before it, too (ADR-0171): its choice is kept unless it is the
        untuned kernel, because times of other minutes do not compare.
        """
        self.trials += result.trials
        known = self.libraries.get(result.name)
        if result.library is None or result.best_s is None:
            return
        searched = result.trials > 0 and result.winner == "tuned"
        if known is None or searched or result.best_s < known.best_s:
            self.libraries[result.name] = TaskLibrary(result.library, result.best_s)
            self.results[result.name] = result
        self.best_s[result.name] = self.libraries[result.name].best_s

    def written(self) -> BundleWritten:
        """Write and verify the bundle.

        Raises:
            RunError: it cannot be run, or its outputs are wrong; no bundle is left then.
        """
        asked = self.request
        begin_s = self.budget.spent_s
        self.refer()
        assert self.reference is not None  # `refer` has set it
        reference = self.reference.within(self.budget.check_left_s, self.model_s)
        parts = recorded_parts(_request(self, self.tasks.dags, weights={}))
        origin = Origin(asked.digest, asked.target.cores, parts)
        plan = plan_of(self.partition, self.tasks, self.libraries, origin, reference.self_test)
        new, bare = (asked.out.with_name(f"{asked.out.stem}.{w}.zip") for w in ("new", "bare"))
        try:
            write_bundle(new, plan)
            error = check(new, reference, asked.target.cores, asked.graph.name)
            if asked.document is not None:
                without_weights(new, bare, asked.document.text)
                bare.replace(new)
            new.replace(asked.out)
        finally:
            new.unlink(missing_ok=True)
            bare.unlink(missing_ok=True)
        spent_s = self.budget.spent_s
        self.budget.note_written(spent_s - begin_s)
        return BundleWritten(
            asked.out, self.model_s, error, reference.bound, reference.told, spent_s
        )

    def refer(self) -> None:
        """Ask the oracle for the right outputs, unless they are known.

        Raises:
            GraphError: the interpreter cannot run the graph.
        """
        if self.reference is None:
            asked, limit_s = self.request, self.budget.oracle_s(BUDGET_S)
            self.reference = reference_of(asked.graph, asked.file, asked.options.seed, limit_s)


def compiled(
    request: ModelRequest,
    store: RecordStore,
    experience: Experience | None = None,
    rules: tuple[Rule, ...] | None = None,
    clock: Callable[[], float] = time.monotonic,
    pools: Callable[[Request], Pools] | None = None,
    journal: Journal | None = None,
    begin_s: float | None = None,
) -> Generator[ModelEvent, None, ModelResult]:
    """Yield the events of the tuning of a model; return its result.

    Every task gets a first answer, and those that take too long are cut (`_mended`); a bundle of
    these is written and verified; then the tasks that take most time are searched, and the bundle
    is replaced. A KeyboardInterrupt ends the
    search: the bundle of the best so far is the result. It is raised before there is a bundle.

    Args:
        pools: opens the measuring processes of a request; those of this machine unless given.
        journal: the rounds go here instead of to the store; not with experience.
        begin_s: when the command began, by `clock`: `seconds` count from there; now unless given.

    Raises:
        SpecError: the request is wrong.
        RunError: the bundle's outputs are wrong.
    """
    budget = ModelBudget(
        request.options.seconds, clock() if begin_s is None else begin_s, clock, request.race_s
    )
    options, target = request.options, request.target
    rules = find_rules(target.kind, options.allow, options.without) if rules is None else rules
    sent = request.document is not None
    simplified = Simplified(request.graph, (), True) if sent else simplify(request.graph)
    parted = partition(simplified.graph)
    tasks = tasks_of(
        parted,
        lambda dag: _fits(dag, target, rules),
        lambda dag: fuses(dag, target, rules),
    )
    names = [dag.name for dag in tasks.dags]
    options.check_tasks(names)
    chosen_dags(tasks.dags, options.tasks)  # refuses an unknown name
    yield _divided(request.graph, simplified, tasks, budget.spent_s)
    tune = _tuner(rules, store, pools, journal, clock)
    if sent:  # only now: no stand-in may decide about tasks
        whole = with_drawn_weights(request.graph, options.seed)
        request, parted = replace(request, graph=whole), replace(parted, graph=whole)
    size = tasks.weights_bytes
    work = Compilation(request, tasks, parted, budget, size, request.reference)
    if budget.limited:  # a bundle needs the oracle: its time is known before that of the others
        work.refer()
        yield from _too_short(work)
    with tempfile.TemporaryDirectory(prefix="ansorpy-model-") as folder:
        ended = Finished((), 0.0, "trials")  # without a task there is nothing to tune
        if tasks.dags:
            dags = _lightest_first(work) if budget.limited else tasks.dags
            first = _request(work, dags, trials=0, seconds=budget.answers_s(), weights={})
            ended = yield from work.follow(tune(first, Path(folder), None))
        needed = [one.task for one in tasks.parts if one.task]
        lacking = [name for name in needed if name not in work.libraries]
        if lacking and ended.stopped == "interrupted":
            raise KeyboardInterrupt
        if lacking:
            raise RunError(_missing(lacking))
        stopped, outlook = ended.stopped, None
        if stopped != "interrupted":
            stopped = yield from _mended(work, tune, Path(folder), stopped)
        work.tasks = tasks = work.fastest(work.times_s())
        told = work.written()
        yield told
        second = None if stopped == "interrupted" else search_request(work, store, rules)
        if second is not None:
            searching = tune(second, Path(folder), experience)
            stopped = "interrupted"
            with suppress(KeyboardInterrupt):  # the bundle of the first answers is there
                ended = yield from work.follow(searching)
                told = work.written()
                yield told
                stopped, outlook = ended.stopped, work.outlook(ended)
    return ModelResult(
        bundle=told.bundle,
        model_s=told.model_s,
        error=told.error,
        bound=told.bound,
        reference=told.reference,
        parts=len(tasks.parts),
        tasks=tuple(replace(work.results[dag.name], kernel=None) for dag in tasks.dags),
        hosted=tuple(one.group.title for one in tasks.parts if one.lowered is None),
        trials=work.trials,
        seconds=budget.spent_s,
        stopped=stopped,
        forecast=outlook,
        recuts=tuple(work.recuts),
        explained_s={dag.name: explained_s(dag, target) for dag in tasks.dags},
    )


Tune = Callable[[Request, Path, Experience | None], Generator[ModelEvent, None, Finished]]


def _too_short(work: Compilation) -> Iterator[TooShort]:
    """Yield the least seconds of the bundle, if the request has fewer."""
    asked_s, tasks = work.request.options.seconds, len(work.tasks.dags)
    least_s = work.budget.raised_to_least(tasks)
    if asked_s is not None and least_s is not None:
        yield TooShort(asked_s, least_s, tasks, "a bundle of untuned kernels")


def _lightest_first(work: Compilation) -> tuple[Dag, ...]:
    """Return the Dags of the tasks, the largest share of the model last (`TimeBudget.answer`)."""
    weights, target = work.tasks.weights, work.request.target

    def part_s(dag: Dag) -> float:
        return max(weights.get(dag.name, 0.0), 1.0) * explained_s(dag, target)

    return tuple(sorted(work.tasks.dags, key=part_s))


def _mended(
    work: Compilation, tune: Tune, folder: Path, stopped: Stopped
) -> Generator[ModelEvent, None, Stopped]:
    """Yield the events of first answers of tasks in pieces that take too long; return the end.

    A task is cut if it takes SUSPECT times the seconds that its bytes and operations explain, and
    a share of the model that is worth trials. The faster form stays: no trial is spent on the
    other one.
    """
    asked, every = work.request, work.tasks.dags
    work.tasks = replace(work.fastest(work.times_s()), dags=every)
    times_s, weights, model_s = work.times_s(), work.tasks.weights, work.model_s
    usual_s = {name: explained_s(work.dag(name), asked.target) for name in weights}
    slow = [
        name
        for name, count in weights.items()
        if count * times_s.get(name, 0.0) >= LEAST_SHARE * model_s
        and times_s.get(name, 0.0) > SUSPECT * usual_s[name]
        and work.results[name].winner == "tuned"
    ]
    slow.sort(key=lambda name: -weights[name] * times_s[name])
    cut = work.tasks.in_pieces(work.partition.graph, slow[:MOST_CUT])
    if not cut.cuts:
        return stopped
    found = {one.whole.task: one for one in cut.cuts}
    pieces = {name: [cut.parts[n].task for n in one.members] for name, one in found.items()}
    if work.budget.searched(1):
        new = [dag for dag in cut.dags if dag.name not in times_s]
        yield Cutting(tuple(found), len(cut.dags), tuple(new))
        work.tasks = cut
        work.cut_from |= {
            dag.name: name for name in found for dag in new if dag.name in pieces[name]
        }
        if new:
            request = _request(work, new, trials=0, seconds=work.budget.cuts_s(), weights={})
            stopped = (yield from work.follow(tune(request, folder, None))).stopped
        times_s = work.times_s()
    for name, parts in pieces.items():
        known = [times_s[part] for part in parts if part in times_s]
        sum_s = sum(known) if len(known) == len(parts) else None
        work.recuts.append(Recut(name, times_s[name], usual_s[name], len(parts), sum_s))
        yield work.recuts[-1]
    return stopped


def _tuner(
    rules: tuple[Rule, ...],
    store: RecordStore,
    pools: Callable[[Request], Pools] | None,
    journal: Journal | None,
    clock: Callable[[], float],
) -> Tune:
    """Return a function that tunes a request for libraries, with files in a folder."""

    def tune(
        request: Request, folder: Path, experience: Experience | None
    ) -> Generator[ModelEvent, None, Finished]:
        opened = None if pools is None else partial(pools, request)
        return run(
            request, rules, store, folder, pools=opened, clock=clock, journal=journal,
            experience=experience,
        )  # fmt: skip

    return tune


def search_request(
    work: Compilation, store: RecordStore, rules: tuple[Rule, ...]
) -> Request | None:
    """Return the request for the tasks that take most time; None if there is nothing to search.

    Trials in the store count as trials of this request, up to half of them per task or one share:
    a model that is tuned again, with other weights or the same, is answered by the best of them.
    A task with a share of trials in the store is not searched. An interrupted attempt at the same
    request has used up a part of the trials.
    """
    asked, tasks = work.request, work.tasks
    options, weights = asked.options, tasks.weights
    trials = options.trials_of(len(tasks.dags))
    part_s = {name: weights[name] * work.libraries[name].best_s for name in weights}
    ranked = sorted(tasks.dags, key=lambda dag: -part_s[dag.name])
    heavy = [dag for dag in ranked if part_s[dag.name] >= LEAST_SHARE * work.model_s]
    named = {dag.name: {dag.name, work.cut_from.get(dag.name)} for dag in tasks.dags}
    heavy = [dag for dag in heavy if not options.tasks or named[dag.name] & {*options.tasks}]
    heavy = heavy[: work.budget.searched(trials // LEAST_TRIALS)]
    if not heavy:
        return None
    share = trials // len(heavy)
    done = {dag.name: asked.done.get(dag.name, 0) for dag in tasks.dags}
    left = trials - sum(done.values())
    if not options.fresh:
        made = {dag.name: _known(work, dag, store, rules) for dag in tasks.dags}
        earlier = {name: max(0, made[name] - done[name]) for name in made}
        count = sum(min(one, max(share, trials // 2)) for one in earlier.values())
        left -= count
        if count and left < LEAST_TRIALS:
            return None
        heavy = [dag for dag in heavy if earlier[dag.name] < share]
    target_s = options.target_latency_s
    if target_s is not None:
        target_s -= work.model_s - sum(part_s[dag.name] for dag in heavy)
    reached = options.target_latency_s is not None and work.model_s <= options.target_latency_s
    if not heavy or left <= 0 or reached or (target_s is not None and target_s <= 0):
        return None
    return _request(
        work,
        heavy,
        trials=left,
        seconds=work.budget.search_s(),
        target_latency_s=target_s,
        weights={dag.name: weights[dag.name] for dag in heavy},
    )


def _answered(work: Compilation, dags: Sequence[Dag]) -> Answered:
    """Return the candidates of the answers that tasks have."""
    found = {dag.name: work.results[dag.name] for dag in dags if dag.name in work.results}
    return {name: one.candidate for name, one in found.items() if one.candidate is not None}


def _request(work: Compilation, dags: Sequence[Dag], **changes: Any) -> Request:
    """Return the request for the libraries of some tasks."""
    asked = work.request
    names = {dag.name for dag in dags}
    targets_s = {name: s for name, s in asked.options.task_targets_s.items() if name in names}
    options = replace(asked.options, tasks=(), task_targets_s=targets_s, **changes)
    return Request.of(
        options, tuple(dags), asked.target, first_answer=False, libraries=True,
        weights_bytes=work.weights_bytes, answered=_answered(work, dags),
    )  # fmt: skip


def _known(work: Compilation, dag: Dag, store: RecordStore, rules: tuple[Rule, ...]) -> int:
    """Return the number of trials of a task in a store, under the same rules."""
    target = work.request.target
    name = rules_name(target.kind, rules)
    cold = cold_bytes(work.weights_bytes, target)
    records = store.all(Task.of(dag, target, name, cold).key)
    return sum(one.race is None and one.rules == name and is_trusted(one, dag) for one in records)


def _fits(dag: Dag, target: Target, rules: tuple[Rule, ...]) -> bool:
    """Return True if the sketches of a Dag stay within the limit, and one of them has a kernel.

    Values that are computed again at every level of a deep Dag may leave no room for any schedule.
    """
    deep = len(dag.computes) >= MANY_COMPUTES
    if not deep and sum(bool(node.reduce_axes) for node in dag.computes) < MANY_REDUCTIONS:
        return True
    task = Task.of(dag, target, rules_name(target.kind, rules))
    try:
        task.derive(rules)
        if deep:
            task.lower(1)
    except SpecError:
        return False
    return True


def fuses(dag: Dag, target: Target, rules: tuple[Rule, ...]) -> bool:
    """Return True if a rule computes two reductions of a Dag in blocks of rows."""
    try:
        found = derive(dag, target, rules)
    except SpecError:
        return False
    return any(
        trial.rule == FUSES and trial.verdict is not Verdict.SKIP
        for visit in found.visits
        for trial in visit.trials
    )


def _divided(graph: Graph, simplified: Simplified, tasks: ModelTasks, seconds: float) -> Divided:
    return Divided(
        nodes_before=len(graph.nodes),
        nodes=len(simplified.graph.nodes),
        passes=simplified.sites,
        parts=len(tasks.parts),
        tasks=len(tasks.dags),
        seconds=seconds,
        weights=tasks.weights,
        hosted=tuple(one.group.title for one in tasks.parts if one.lowered is None),
        dags=tasks.dags,
    )


def _missing(tasks: Sequence[str]) -> str:
    return (
        f"cannot build the bundle because {len(set(tasks))} tasks have no verified library:"
        f" {', '.join(dict.fromkeys(tasks[:5]))}; expected one for each"
    )
