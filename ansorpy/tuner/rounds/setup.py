"""The set-up of a tuning: a request becomes tasks, records, an opening of each search space."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from ansorpy.cost.model import CostModel
from ansorpy.errors import SpecError
from ansorpy.events import NetworkResult, Started, TaskResult
from ansorpy.folders import data_dir
from ansorpy.measure.backend import DEVICE
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.timing.cold_weights import cold_bytes
from ansorpy.records import MemoryStore, Record, RecordStore
from ansorpy.state.rule import Rule
from ansorpy.target import CpuTarget, GpuTarget, require_cores
from ansorpy.te.analysis import structure_key
from ansorpy.te.dag import Dag
from ansorpy.te.dims import in_range, ranges_of
from ansorpy.tuner.delivery.deliveries import Deliveries
from ansorpy.tuner.options.allocation import objective_of
from ansorpy.tuner.options.networks import Networks, network_results, networks_of, totals
from ansorpy.tuner.parts.plugged import generator_of, model_of, recorded_parts, strategy_of
from ansorpy.tuner.parts.pools import OPEN_POOLS, Pools, measured_elsewhere, pools_of
from ansorpy.tuner.parts.spaces import generated_name, space_of
from ansorpy.tuner.parts.stores import store_of
from ansorpy.tuner.race.cpu_form import CpuForm
from ansorpy.tuner.race.form import DeliveredForm
from ansorpy.tuner.race.gpu_form import GpuForm
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.reuse import record_lookup
from ansorpy.tuner.reuse.sources import Sources, own_records, sources_of
from ansorpy.tuner.rounds.scheduler import Settings
from ansorpy.tuner.rounds.search_state import SearchState, StopCriteria
from ansorpy.tuner.rounds.share import Share
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.checkpoint import Journal, StoredSearch, StoreJournal
from ansorpy.tuner.tasks.identity import Identity, rules_name
from ansorpy.tuner.tasks.ranges import JoinedSpace
from ansorpy.tuner.tasks.search_space import OwnSpace, SearchSpace
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import LIBRARY_END_S, UNTUNED_S, TimeBudget, least_s
from ansorpy.tuner.tasks.twins import leaders, summed, twin_names, with_twins

PART_TRIALS: Final = 8  # trials of each range of sizes, at least


@dataclass(frozen=True, slots=True)
class Setup:
    """The parts of a tuning that a request, a store and a journal determine."""

    rules: tuple[Rule, ...]
    tasks: tuple[Task, ...]  # equal Dags are one task; one with parts is searched as these
    networks: Networks  # the weight of each task in each network
    sources: Mapping[str, Sources]  # by task
    answers: Mapping[str, Sequence[Record]]  # records whose races may answer the request, by task
    share: int  # trials of each task
    # Trials for each range behind the answer to another request that also answers this one.
    enough: float
    digest: str  # identity of the request
    form: DeliveredForm[Any]
    out: Path
    store: RecordStore
    journal: Journal
    stored: StoredSearch
    begin_s: float  # by the clock of the tuning; of the command, if it told

    def started(self, request: Request) -> Started:
        """Return the first event."""
        found = [[self.sources[one.name].known for one in task.searched] for task in self.tasks]
        counts = tuple(
            sum(record.race is None for known in of_task for record in known) for of_task in found
        )
        twins = twin_names(leaders(request.dags))
        target = request.target
        threads = target.cores if isinstance(target, CpuTarget) else 0
        names = tuple(task.name for task in self.tasks)
        return Started(names, counts, request.trials, request.seconds, twins, threads)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each task that is searched, summed over the networks."""
        return totals(self.searched_networks)

    @property
    def searched_networks(self) -> Networks:
        """The weight of each task and of each part in each network (ADR-0207)."""
        shares = {
            part: (task.name, share)
            for task in self.tasks
            for part, share in task.weights_of_parts().items()
        }
        return {
            name: {**row, **{part: row[of] * share for part, (of, share) in shares.items()}}
            for name, row in self.networks.items()
        }

    def network_results(
        self, request: Request, results: Sequence[TaskResult]
    ) -> tuple[NetworkResult, ...]:
        """Return the latency of each network that has a name, given the results of all names."""
        networks = networks_of(request.weights, [dag.name for dag in request.dags])
        return network_results(networks, results, request.network_targets_s)

    def stored_results(self) -> dict[str, TaskResult | None]:
        """Return the results of earlier tunings that answer the request, None for other tasks."""
        return {
            task.name: record_lookup.answer(
                task, self.form, self.answers[task.name], self.digest,
                self.enough * len(task.searched), self.out,
            )
            for task in self.tasks
        }  # fmt: skip


def prepare(
    request: Request,
    rules: tuple[Rule, ...] | None,
    store: RecordStore | None,
    out: Path | None,
    clock: Callable[[], float],
    journal: Journal | None,
    begin_s: float | None = None,
) -> Setup:
    """Return the set-up of a tuning; `tune.run` explains the arguments.

    Raises:
        SpecError: a rule is unknown, or `out` takes no files.
    """
    if store is None and request.device not in ("", DEVICE):
        raise ValueError(f"times of {request.device} enter no store of a user")
    store = store_of(store)
    journal = StoreJournal(store) if journal is None else journal
    stored = journal.stored()
    begin_s = clock() if begin_s is None else begin_s
    begin_s -= stored.checkpoint.seconds if stored.checkpoint else 0.0
    kind = request.target.kind
    rules = find_rules(kind, request.allow, request.without) if rules is None else rules
    out = writable(data_dir() / "kernels" if out is None else out)
    cold = cold_bytes(request.weights_bytes or request.program_weights_bytes, request.target)
    own = space_of(request)
    named = generated_name(request, rules_name(kind, rules)) if own is None else own.name
    recorded = recorded_parts(request)

    def task_of(
        dag: Dag, own: OwnSpace | None, twins: tuple[Dag, ...] = (), parts: tuple[Task, ...] = ()
    ) -> Task:
        identity = Identity(
            dag, request.target, named if own is None else own.name, cold, request.estimated,
            request.measured_by, request.copies, twins, recorded,
        )  # fmt: skip
        space = SearchSpace(dag, request.target, own, generator_of(request))
        return Task(identity, space, strategy=strategy_of(request), parts=parts)

    least = PART_TRIALS * len(request.dags)
    most = request.kernels_per_dim
    if request.trials:
        most = min(most, max(1, request.trials // least))

    def with_parts(dag: Dag, twins: tuple[Dag, ...]) -> Task:
        ranges = ranges_of(dag, most)
        parts = tuple(task_of(in_range(dag, sizes), None) for sizes in ranges)
        spaces = tuple(part.space for part in parts)
        joined = JoinedSpace.of(named, ranges, spaces) if parts else own
        return task_of(dag, joined, twins, parts)

    tasks = tuple(with_parts(dag, twins) for dag, twins in with_twins(request.dags))
    every = [one for task in tasks for one in (task, *task.parts)]
    firsts = leaders(request.dags)
    networks = networks_of(request.weights, list(firsts))
    networks = {name: summed(firsts, row) for name, row in networks.items()}
    reused = MemoryStore() if request.fresh else store
    past = {task.name: own_records(task, reused.all(task.key)) for task in every}
    if request.deterministic:
        for task in every:
            task.queue.recorded = record_lookup.recorded(task.dag, past[task.name])
    searched = sum(len(task.searched) for task in tasks)
    share = min(-(-request.trials // searched), request.max_trials_per_task or request.trials)
    return Setup(
        rules=rules,
        tasks=tasks,
        networks=networks,
        sources={one.name: sources_of(request, one, past[one.name], reused) for one in every},
        answers=past,
        share=share,
        enough=inf if request.deterministic or request.own else share,
        digest=record_lookup.request_digest(tasks, request, networks, request.own),
        form=form_of(request),
        out=out,
        store=store,
        journal=journal,
        stored=stored,
        begin_s=begin_s,
    )


@dataclass(frozen=True, slots=True)
class Opening:
    """The extent to which the search space of a task is opened before its first round."""

    first_answer: bool  # promising plans only, then the choice of the cost model is delivered
    baseline: bool  # the untuned kernel and NumPy are timed after the first answers
    all_plans: bool  # the other plans before the first round
    after_round: bool  # the other plans after the first round: to open them takes longer


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of a search that stay the same from round to round."""

    setup: Setup
    tasks: tuple[Task, ...]  # without those that earlier tunings answer; they may have parts
    model: CostModel
    pools: Pools
    budget: TimeBudget
    deliveries: Deliveries
    clock: Callable[[], float]
    allow: tuple[str, ...] = ()  # rules that are used on request only

    @staticmethod
    def of(
        request: Request,
        setup: Setup,
        tasks: tuple[Task, ...],
        model: CostModel | None,
        pools: Pools,
        clock: Callable[[], float],
    ) -> "Context":
        """Return the context of a search over `tasks`; `tune.run` explains the arguments."""
        budget = budget_of(request, setup, len(tasks), clock)
        model = model or model_of(request)
        deliveries = deliveries_of(request, setup, pools, budget, model)
        return Context(setup, tasks, model, pools, budget, deliveries, clock, tuple(request.allow))

    @property
    def searched(self) -> tuple[Task, ...]:
        """The tasks that the search proposes candidates for."""
        return tuple(one for task in self.tasks for one in task.searched)

    def openings(self, request: Request) -> dict[str, Opening]:
        """Return how to open the search space of each task."""
        resumed = {name for name, _ in self.setup.stored.rounds}
        quick = request.first_answer and _model_chooses(request)
        # The space of a user is open after the first call.
        whole = bool(request.trials) and not self.budget.hurried and request.mode == "auto"
        early = quick and request.early and whole
        few = quick and len(self.tasks) <= OPEN_POOLS
        openings = {}
        every = [one for task in self.tasks for one in (task, *task.parts)]
        for name in (task.name for task in every):
            later = whole and not self.setup.sources[name].known and name not in resumed
            new = name not in resumed
            answer = not request.trials or ((few or early) and new)
            openings[name] = Opening(answer, early and new, whole and not later, later)
        for part in (part for task in self.tasks for part in task.parts):
            openings[part.name] = replace(openings[part.name], first_answer=False, baseline=False)
        return openings

    def search_state(
        self, request: Request, results: Mapping[str, TaskResult | None]
    ) -> SearchState:
        """Return the state of a search that begins; `budget`, not the scheduler, has its seconds.

        Args:
            results: of earlier tunings; None for the tasks of the search.
        """
        weights = self.setup.weights
        answered = {one.name: one.best_s or 0.0 for one in results.values() if one is not None}
        whole = totals(self.setup.networks)
        rest_s = sum(whole[name] * best_s for name, best_s in answered.items())
        gain = request.stop_if_gain_below
        criteria = StopCriteria(weights, request.target_latency_s, gain, rest_s)
        first = self.tasks[0]  # each of its ranges is as important, unless calls tell otherwise
        alike = len(self.tasks) == 1 and bool(first.parts) and not first.expects_calls
        settings = Settings(
            request.trials,
            strategy="round-robin" if alike or request.strategy == "round-robin" else "gradient",
            early_stop_trials=request.patience,
            task_trials=request.max_trials_per_task,
        )
        tags = request.strategy == "similar"
        shares = [
            Share(name, weights[name], one.flop, structure_key(one.dag) if tags else "")
            for name, one in ((task.name, task.identity) for task in self.searched)
        ]
        names = [task.name for task in self.searched]
        networks = self.setup.searched_networks
        objective = objective_of(request, networks, names, answered)
        return SearchState(
            self.searched, shares, settings, objective, request.seed, criteria, self.budget,
            self.clock,
        )  # fmt: skip


def budget_of(request: Request, setup: Setup, tasks: int, clock: Callable[[], float]) -> TimeBudget:
    """Return the time budget of a request: its seconds, or the least that its tasks take.

    A model counts the seconds of its tasks itself (`model.budget`).
    """
    libraries, seconds = request.libraries or not request.trials, request.seconds
    if seconds is not None and has_choice(request) and not request.libraries:
        earlier_s = setup.stored.checkpoint.seconds if setup.stored.checkpoint else 0.0
        start_s = clock() - setup.begin_s - earlier_s
        threads = request.target.cores
        seconds = max(seconds, earlier_s + least_s(tasks, request.trials, start_s, threads))
    end_s = LIBRARY_END_S if request.trials else UNTUNED_S
    return TimeBudget(
        seconds, setup.begin_s, tasks, clock, finish_s=end_s if libraries else None,
        libraries=libraries, sure=has_choice(request), threads=request.target.cores,
    )  # fmt: skip


def has_choice(request: Request) -> bool:
    """Return whether a kernel can be delivered without a trial: the choice of the cost model."""
    return _model_chooses(request) and not request.deterministic


def _model_chooses(request: Request) -> bool:
    """Return whether the cost model may choose a kernel."""
    return isinstance(request.target, CpuTarget) and request.mode == "auto"


def form_of(request: Request) -> DeliveredForm[Any]:
    """Return the form in which the kernels of a request race and are delivered."""
    if isinstance(request.target, GpuTarget):
        return GpuForm()
    return CpuForm(request.own, peers=request.race and not request.program_weights_bytes)


def deliveries_of(
    request: Request, setup: Setup, pools: Pools, budget: TimeBudget, model: CostModel
) -> Deliveries:
    """Return the deliveries of the kernels of a request."""
    return Deliveries(
        setup.form, pools, setup.journal, setup.digest, setup.out, budget,
        hasty=not request.trials, stored_races=setup.stored.races, libraries=request.libraries,
        repeatable=request.deterministic, early=request.early,
        estimated=request.estimated, model=model, seed=request.seed,
    )  # fmt: skip


def local_pools(request: Request) -> Callable[[], Pools]:
    """Return a function that opens measuring processes: of this machine, or of ANSORPY_CLUSTER.

    Raises:
        SpecError: the kernel has more threads, or runs in more copies, than this machine has cores.
    """
    if not measured_elsewhere(request):
        require_cores(
            max(request.target.host_threads, request.copies), len(usable_cores()), "this machine"
        )
    return partial(pools_of, request)


def writable(folder: Path) -> Path:
    """Return the folder, which is made if it is missing, before a search needs it.

    Raises:
        SpecError: it cannot be made, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise SpecError(
            f"cannot write kernels to {folder} because of {error.strerror!r}; expected a folder"
            " for new files"
        ) from error
