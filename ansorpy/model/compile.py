"""The spine of a whole model: passes, partition, first answers, search, bundle, verification."""

import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ansorpy.cost.explained import explained_s
from ansorpy.errors import RunError, SpecError
from ansorpy.events import Finished, Stopped, TaskResult, TooShort
from ansorpy.graph.graph import Graph
from ansorpy.graph.groups import Partition
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import Simplified, simplify
from ansorpy.graph.wire.draw import with_drawn_weights
from ansorpy.measure.timing.cold_weights import cold_bytes
from ansorpy.model.assemble import check_dims
from ansorpy.model.budget import ModelBudget
from ansorpy.model.compilation import LEAST_SHARE, Compilation, Tune, tuning_request
from ansorpy.model.events import Divided, ModelEvent, Recut, bundle_latency
from ansorpy.model.judge import compared, rivals_of
from ansorpy.model.mend import answered, mended
from ansorpy.model.outline import outline_of
from ansorpy.model.request import ModelRequest
from ansorpy.model.tasks import ModelTasks, hosted_nodes, tasks_of
from ansorpy.plot.card import Card, as_html
from ansorpy.plot.subject import subject_of
from ansorpy.records import RecordStore
from ansorpy.records.rows import Trials, dataframe, trial_rows
from ansorpy.sketch import derive
from ansorpy.state.rule import Rule, Verdict
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.te.dims import any_range_of, in_range
from ansorpy.tuner.options.allocation import chosen_dags
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.checkpoint import Journal
from ansorpy.tuner.tasks.identity import Identity, rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.trust import is_trusted
from ansorpy.tuner.tune import run
from ansorpy.units import counted, duration
from ansorpy.verdict import Judgment

LEAST_TRIALS: Final = 8  # trials of a searched task: the first round
FUSES: Final = "FuseChain"  # name of the rule of chains
MANY_REDUCTIONS: Final = 3  # reductions from which on the sketches of a Dag are counted
MANY_COMPUTES: Final = 12  # compute nodes from which on a Dag is lowered, about a second each


@dataclass(frozen=True, slots=True)
class ModelResult:
    """A written bundle, and the parts that it consists of.

    `hosted` has the operators of the nodes that NumPy computes. `recuts` has the tasks that were
    cut, `explained_s` the seconds that bytes and operations of each task explain.
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
    recuts: tuple[Recut, ...] = ()
    explained_s: Mapping[str, float] = field(default_factory=dict)
    verdict: Judgment | None = None
    records: Trials = field(default_factory=dict, compare=False, repr=False)
    target: Target | None = field(default=None, compare=False, repr=False)

    @property
    def best_s(self) -> float:
        """The seconds of a call of the bundle: of its race, else the sum of its kernels."""
        return bundle_latency(self.model_s, self.verdict)[0]

    @property
    def speedup(self) -> float | None:
        """The time of the fastest runtime over ours; None without a race."""
        return None if self.verdict is None else self.verdict.ratio

    def to_dataframe(self) -> Any:
        """Return the trials of all tasks as a DataFrame, a row each as of `Result.trials`.

        Raises:
            PackageError: pandas is not installed.
        """
        return dataframe(trial_rows(self.records))

    def plot(self, kind: str = "history", *, task: str | None = None, ax: Any = None) -> Any:
        """Draw a picture of a task and return its figure; the arguments of `Result.plot`.

        Raises:
            SpecError: there is no such kind or task, or the task lacks the data of the picture.
            PackageError: matplotlib is not installed.
        """
        from ansorpy.plot.draw import plot  # loads the rates and trees of the cost model

        return plot(kind, subject_of(self.tasks, self.records, self.target, task), ax)

    @property
    def untuned(self) -> int:
        """The number of tasks with untuned kernels: there was no time for others."""
        return sum(task.winner == "baseline" for task in self.tasks)

    def __str__(self) -> str:
        """Return four lines for people: verdict, latency, trials, bundle."""
        lines = [f"  {name:9} {text}" for name, text in self._rows().items()]
        return "\n".join([f"{self.bundle.stem}: {self._told()}", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the summary as a card, for notebooks: the verdict first."""
        level = self.verdict.level if self.verdict else "none"
        card = Card(self.bundle.stem, self._told(), level, self._rows())
        return as_html([card], [], [f"ansorpy.load({str(self.bundle)!r})(...)"])

    def _told(self) -> str:
        return str(self.verdict) if self.verdict else f"verified against {self.reference}"

    def _rows(self) -> dict[str, str]:
        hosted = f", {counted(len(self.hosted), 'node')} by NumPy" if self.hosted else ""
        untuned = f"; {self.untuned} of {counted(len(self.tasks), 'task')} have untuned kernels"
        untuned = untuned if self.untuned else ""
        raced = self.verdict is not None and self.verdict.peer is not None
        latency = f"{duration(self.verdict.ours_s)} (race); " if self.verdict and raced else ""
        return {
            "latency": f"{latency}kernels alone take {duration(self.model_s)}: "
            f"{counted(self.parts, 'call')} of {counted(len(self.tasks), 'kernel')}{hosted}",
            "trials": f"{self.trials} in {self.seconds:.0f} s (stopped: {self.stopped}){untuned}",
            "bundle": str(self.bundle),
        }

    def explain(self) -> str:
        """Return the reasons: the check, and the tasks that were cut."""
        rows = [
            ("check", f"error {self.error:.1e} of the largest element, at most {self.bound:.1e};"
             f" {self.reference}"),
            *(("cut", str(one)) for one in self.recuts),
        ]  # fmt: skip
        return "\n".join(f"  {name:9} {text}" for name, text in rows)


def compiled(
    request: ModelRequest,
    store: RecordStore,
    rules: tuple[Rule, ...] | None = None,
    clock: Callable[[], float] = time.monotonic,
    pools: Callable[[Request], Pools] | None = None,
    journal: Journal | None = None,
    begin_s: float | None = None,
) -> Generator[ModelEvent, None, ModelResult]:
    """Yield the events of the tuning of a model; return its result.

    Every task gets a first answer, and slow tasks are cut (`mended`); a bundle of the first answers
    is written and verified; then the tasks that take most time are searched, and the bundle is
    replaced. A KeyboardInterrupt ends the search: the bundle of the best so far is the result. It
    is raised before there is a bundle.

    Args:
        pools: opens the measuring processes of a request; processes of this machine unless given.
        journal: the rounds go here instead of to the store.
        begin_s: when the command began, by `clock`: `seconds` count from there; now unless given.

    Raises:
        SpecError: the request is wrong.
        RunError: the bundle's outputs are wrong.
    """
    rivals = rivals_of(request)
    budget = ModelBudget(
        request.options.seconds, clock() if begin_s is None else begin_s, clock, rivals.seconds()
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
    if request.graph.dims:
        check_dims(parted, tasks)
    names = [dag.name for dag in tasks.dags]
    options.check_tasks(names)
    chosen_dags(tasks.dags, options.tasks)  # refuses an unknown name
    yield _divided(request.graph, simplified, parted, tasks, budget.spent_s, target.cores)
    tune = _tuner(rules, store, pools, journal, clock)
    if sent:  # only now: no stand-in may decide about tasks
        whole = with_drawn_weights(request.graph, options.seed)
        request, parted = replace(request, graph=whole), replace(parted, graph=whole)
    size = tasks.weights_bytes
    work = Compilation(request, tasks, parted, budget, size, request.reference)
    if budget.limited:  # a bundle needs the oracle: its time is known before other steps begin
        work.refer()
        yield from _too_short(work)
    with tempfile.TemporaryDirectory(prefix="ansorpy-model-") as folder:
        ended = Finished((), 0.0, "trials")  # without a task there is nothing to tune
        if tasks.dags:
            dags = _heaviest_first(work) if budget.limited else tasks.dags
            first = tuning_request(work, dags, trials=0, seconds=budget.answers_s(), weights={})
            ended = yield from work.follow(tune(first, Path(folder)))
        needed = [one.task for one in tasks.parts if one.task]
        lacking = [name for name in needed if name not in work.libraries]
        if lacking and ended.stopped == "interrupted":
            raise KeyboardInterrupt
        if lacking:
            raise RunError(_missing(lacking))
        stopped = yield from answered(work, tune, Path(folder), ended.stopped)
        if stopped != "interrupted":
            stopped = yield from mended(work, tune, Path(folder), stopped)
        work.tasks = tasks = work.fastest(work.times_s())
        written = work.written()
        yield written
        second = None if stopped == "interrupted" else search_request(work, store, rules)
        if second is not None:
            searching = tune(second, Path(folder))
            stopped = "interrupted"
            with suppress(KeyboardInterrupt):  # the bundle of the first answers is there
                ended = yield from work.follow(searching)
                written = work.written()
                yield written
                stopped = ended.stopped
        if stopped != "interrupted":
            written = yield from compared(work, written, rivals)
    return ModelResult(
        bundle=written.bundle,
        model_s=written.model_s,
        error=written.error,
        bound=written.bound,
        reference=written.reference,
        parts=len(tasks.parts),
        tasks=tuple(replace(work.results[dag.name], kernel=None) for dag in tasks.dags),
        hosted=hosted_nodes(tasks),
        trials=work.trials,
        seconds=budget.spent_s,
        stopped=stopped,
        recuts=tuple(work.recuts),
        explained_s={dag.name: explained_s(dag, target) for dag in tasks.dags},
        verdict=written.verdict,
    )


def _too_short(work: Compilation) -> Iterator[TooShort]:
    """Yield the least seconds of the bundle, if the request has fewer."""
    asked_s, tasks = work.request.options.seconds, len(work.tasks.dags)
    least_s = work.budget.raised_to_least(tasks)
    if asked_s is not None and least_s is not None:
        yield TooShort(asked_s, least_s, tasks, "a bundle of untuned kernels")


def _heaviest_first(work: Compilation) -> tuple[Dag, ...]:
    """Return the Dags of the tasks, the largest share of the model first (`TimeBudget.answer`)."""
    weights, target = work.tasks.weights, work.request.target

    def part_s(dag: Dag) -> float:
        return max(weights.get(dag.name, 0.0), 1.0) * explained_s(dag, target)

    return tuple(sorted(work.tasks.dags, key=part_s, reverse=True))


def _tuner(
    rules: tuple[Rule, ...],
    store: RecordStore,
    pools: Callable[[Request], Pools] | None,
    journal: Journal | None,
    clock: Callable[[], float],
) -> Tune:
    """Return a function that tunes a request for libraries, with files in a folder."""

    def tune(request: Request, folder: Path) -> Generator[ModelEvent, None, Finished]:
        opened = None if pools is None else partial(pools, request)
        return run(request, rules, store, folder, pools=opened, clock=clock, journal=journal)

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
    done = {dag.name: sum(asked.done.get(n, 0) for n in _names(work, dag)) for dag in tasks.dags}
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
    return tuning_request(
        work,
        heavy,
        trials=left,
        seconds=work.budget.search_s(),
        target_latency_s=target_s,
        weights={dag.name: weights[dag.name] for dag in heavy},
    )


def _names(work: Compilation, dag: Dag) -> tuple[str, ...]:
    """Return the names of a task and of the ranges of its dim."""
    ranges = any_range_of(dag, work.request.options.kernels_per_dim)
    return (dag.name, *(in_range(dag, sizes).name for sizes in ranges))


def _known(work: Compilation, dag: Dag, store: RecordStore, rules: tuple[Rule, ...]) -> int:
    """Return the number of trials of a task, and of ranges of its dim, under the same rules."""
    asked = work.request
    name = rules_name(asked.target.kind, rules)
    cold = cold_bytes(work.weights_bytes, asked.target)
    ranges = any_range_of(dag, asked.options.kernels_per_dim)
    found = 0
    for one in (dag, *(in_range(dag, sizes) for sizes in ranges)):
        records = store.all(Identity(one, asked.target, name, cold).key)
        found += sum(r.race is None and r.rules == name and is_trusted(r, one) for r in records)
    return found


def _fits(dag: Dag, target: Target, rules: tuple[Rule, ...]) -> bool:
    """Return True if the sketches of a Dag stay within the limit, and one of them has a kernel.

    Values that are computed again at every level of a deep Dag may leave no room for any schedule.
    """
    deep = len(dag.computes) >= MANY_COMPUTES
    if not deep and sum(bool(node.reduce_axes) for node in dag.computes) < MANY_REDUCTIONS:
        return True
    task = Task.of(dag, target, rules_name(target.kind, rules))
    try:
        task.space.derive(rules)
        if deep:
            task.space.lower(1)
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


def _divided(
    graph: Graph,
    simplified: Simplified,
    parted: Partition,
    tasks: ModelTasks,
    seconds: float,
    threads: int,
) -> Divided:
    return Divided(
        nodes_before=len(graph.nodes),
        nodes=len(simplified.graph.nodes),
        passes=simplified.sites,
        parts=len(tasks.parts),
        tasks=len(tasks.dags),
        seconds=seconds,
        weights=tasks.weights,
        hosted=hosted_nodes(tasks),
        dags=tasks.dags,
        threads=threads,
        outline=outline_of(tasks, parted),
    )


def _missing(tasks: Sequence[str]) -> str:
    return (
        f"cannot build the bundle because {len(set(tasks))} tasks have no verified library:"
        f" {', '.join(dict.fromkeys(tasks[:5]))}; expected one for each"
    )
