"""The spine: every verb of a tuning, once, in order.

    read -> answer from the store, or explore -> rounds (propose, measure, learn) -> race -> pack

`run` yields events and knows neither the web nor the database; `tune` is the same for people.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from platformdirs import user_data_path

from ansorpy.cost.model import CostModel
from ansorpy.errors import SpecError
from ansorpy.events import (
    Derived,
    Event,
    Finished,
    Improved,
    Racing,
    RoundDone,
    Seeded,
    Started,
    Stopped,
    Stopping,
    TaskDone,
    TaskResult,
)
from ansorpy.measure.workers.cores import usable_cores
from ansorpy.plan.choices import ALL_PLANS
from ansorpy.records import MemoryStore, Record, Store, default_store
from ansorpy.state.rule import Rule
from ansorpy.target import require_cores
from ansorpy.tuner import first_answer, record_lookup, warm
from ansorpy.tuner.checkpoint import Journal, StoreJournal
from ansorpy.tuner.delivery import Deliveries
from ansorpy.tuner.experience import Experience
from ansorpy.tuner.goal import Goal
from ansorpy.tuner.model import default_model
from ansorpy.tuner.pools import OPEN_POOLS, Pools, small_pools
from ansorpy.tuner.request import Request
from ansorpy.tuner.round import play
from ansorpy.tuner.rules import find_rules
from ansorpy.tuner.scheduler import Settings
from ansorpy.tuner.search_state import Standing
from ansorpy.tuner.task import Task, rules_name
from ansorpy.tuner.time_budget import Pace
from ansorpy.tuner.transfer import Transfer
from ansorpy.tuner.twins import (
    each_result,
    each_told,
    leaders,
    summed,
    twin_names,
    twin_result,
    united,
)

MIN_GAIN = 1e-9  # seconds; what counts as an improvement


@dataclass(frozen=True, slots=True)
class Means:
    """What a search works with; it stays the same from round to round."""

    rules: tuple[Rule, ...]
    model: CostModel
    journal: Journal
    pools: Pools
    deliveries: Deliveries
    transfer: Transfer
    clock: Callable[[], float]


def run(
    request: Request,
    rules: tuple[Rule, ...] | None = None,
    store: Store | None = None,
    out: Path | None = None,
    model: CostModel | None = None,
    pools: Callable[[], Pools] | None = None,
    clock: Callable[[], float] = time.monotonic,
    journal: Journal | None = None,
    experience: Experience | None = None,
) -> Generator[Event, None, None]:
    """Yield what happens; the last event is `Finished`.

    A KeyboardInterrupt, from the terminal or thrown in, ends the search and keeps the best so far;
    where there is none yet, or in the final race, it ends everything. After one, `Stopping` is the
    next event.

    Args:
        rules: the rule set; the registered one of the target's kind unless given.
        store: where records go; the user's JSONL store unless given.
        out: folder of the zips; one beside the user's store unless given.
        pools: what builds, checks and times; measuring processes of this machine unless given.
        journal: what an earlier, interrupted attempt left is taken up again from here, and the
            rounds go here; into the store, not to be resumed, unless given.
        experience: what the cost model starts from, and what the rounds add to; none unless
            given. It moves on: a tuning that is to be resumed starts cold.

    Raises:
        SpecError: the request is wrong, its search space is empty, `out` takes no files, or the
            kernel has more threads than this machine has cores.
        KeyboardInterrupt: there was one, and there is nothing to keep.
    """
    if journal is not None and experience is not None:
        raise ValueError("a tuning with a journal starts cold: it has to repeat itself")
    opening = pools or pools_here(request)
    store = default_store() if store is None else store
    journal = StoreJournal(store) if journal is None else journal
    kept = journal.kept()
    begin_s = clock() - (kept.checkpoint.seconds if kept.checkpoint else 0.0)
    if rules is None:
        rules = find_rules(request.target.kind, request.allow, request.without)
    out = writable(user_data_path("ansorpy") / "kernels" if out is None else out)
    version = rules_name(request.target.kind, rules)
    tasks = united(request.dags, request.target, version)
    firsts = leaders(request.dags)
    weights = summed(firsts, request.weights)
    history = (MemoryStore() if request.fresh else store).all
    known = {task.name: history(task.key) for task in tasks}
    counts = tuple(sum(r.race is None for r in records) for records in known.values())
    yield Started(tuple(known), counts, request.trials, request.seconds, twin_names(firsts))

    digest = record_lookup.request_digest(tasks, request, weights)
    share = -(-request.trials // len(tasks))
    results = {
        task.name: record_lookup.answer(task, known[task.name], digest, share, out)
        for task in tasks
    }
    open_tasks = [task for task in tasks if results[task.name] is None]
    stopped: Stopped = "store"
    if open_tasks:
        taught = request.transfer and not request.fresh
        transfer = Transfer(experience, request.target, request.seed, taught)
        if model is None:
            model = default_model(request.target, request.seed, transfer.prior)
        pace = Pace(request.seconds, begin_s, len(open_tasks), clock)
        with opening() as processes:
            deliveries = Deliveries(processes, journal, digest, out, pace, hasty=not request.trials)
            means = Means(rules, model, journal, processes, deliveries, transfer, clock)
            try:
                begun = {name for name, _ in kept.rounds}
                few = request.first_answer and len(open_tasks) <= OPEN_POOLS
                whole = bool(request.trials) and not pace.hurried
                later = {t.name for t in open_tasks if whole and not known[t.name]} - begun
                for task in open_tasks:
                    asked = not request.trials or (few and task.name not in begun)
                    now, earlier = whole and task.name not in later, known[task.name]
                    yield from begin(means, task, earlier, request.seed, asked, now, share)
                stopped = "trials"
                if request.trials:
                    yield from transfer.warm_up(open_tasks, clock)
                    standing = stand(open_tasks, request, weights, results, pace, clock)
                    model.update(standing.go_on(kept))
                    stopped = yield from search(means, standing, later)
            except KeyboardInterrupt:
                if not any(results.values()) and not any(map(has_answer, open_tasks)):
                    raise
                stopped = "interrupted"
                yield Stopping()
            for task in open_tasks:
                results[task.name] = yield from end(deliveries, task, kept.races.get(task.name))
    done = tuple(each_result(request.dags, tasks, results))
    yield Finished(done, clock() - begin_s, stopped)


def pools_here(request: Request) -> Callable[[], Pools]:
    """Return what opens measuring processes of this machine.

    Raises:
        SpecError: the kernel has more threads than this machine has cores.
    """
    require_cores(request.target.cores, len(usable_cores()), "this machine")
    return Pools if request.trials else small_pools


def end(
    deliveries: Deliveries, task: Task, kept: Record | None
) -> Generator[Event, None, TaskResult]:
    """Race a task unless its result is there already; then remove the zips that came before."""
    result = deliveries.settled(task, kept)
    if result is None:
        yield Racing(task.name)
        result = deliveries.finish(task)
    yield TaskDone(result)
    for twin in task.twins:
        yield TaskDone(twin_result(result, task, twin))
    deliveries.tidy(task, result)
    return result


def has_answer(task: Task) -> bool:
    """Return whether there is something to keep: a trial that survived, or a first answer."""
    return task.best_s is not None or task.first is not None


def writable(folder: Path) -> Path:
    """Return the folder, made where it was missing: a search must not end without a place to go.

    Raises:
        SpecError: it cannot be made, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise SpecError(f"out {folder}: {error.strerror}") from error


def begin(
    means: Means,
    task: Task,
    known: Sequence[Record],
    seed: int,
    asked: bool,
    whole: bool,
    trials: int,
) -> Iterator[Event]:
    """Open a promising part of the search space, and answer from that.

    Args:
        asked: whether the first answer is wanted.
        whole: open the rest, too.
        trials: the share of the task.
    """
    if asked:
        means.deliveries.prepare(task)
    yield opened(means, task, first_answer.PLANS)
    task.recall(known)
    reasons = warm.seed(task, known, trials)
    if task.held or reasons:
        yield Seeded(task.name, len(task.held), reasons)
    answer = means.deliveries.at_once(task, means.model, seed) if asked else None
    if answer is not None:
        yield from each_told(task, answer)
    if whole:
        yield opened(means, task)


def opened(means: Means, task: Task, limit: int = ALL_PLANS) -> Derived:
    """Open about so many plans of the search space, and return what is there now."""
    begin_s = means.clock()
    derivation = task.explore(means.rules, limit)
    return Derived(task.name, len(derivation.sketches), len(task.plans), means.clock() - begin_s)


def stand(
    tasks: Sequence[Task],
    request: Request,
    weights: Mapping[str, float],
    results: Mapping[str, TaskResult | None],
    pace: Pace,
    clock: Callable[[], float],
) -> Standing:
    """Return the standing of a search that begins."""
    answered = [result for result in results.values() if result is not None]
    rest_s = sum(weights[r.name] * (r.best_s or 0.0) for r in answered)
    goal = Goal(weights, request.target_latency_s, request.stop_if_gain_below, rest_s)
    # The seconds are kept by the pace, which knows what the end takes.
    settings = Settings(request.trials, early_stop_trials=request.patience)
    return Standing(tasks, settings, weights, request.seed, goal, pace, clock)


def search(means: Means, standing: Standing, later: set[str]) -> Generator[Event, None, Stopped]:
    """Play rounds until the search is over; return why it is.

    Args:
        later: the tasks of which the promising plans are open: the others follow after a round,
            because to open them takes longer than a round.
    """
    while (turn := standing.next_turn()) is not None:
        task = standing.tasks[turn.task.name]
        before_s = task.best_s
        means.deliveries.prepare_race(task)
        if task.rounds and task.name in later:
            later.remove(task.name)
            yield opened(means, task)
        pool, clock = means.pools.of(task), means.clock
        played = play(
            task, turn.trials, means.model, pool, standing.picking, clock, standing.pace.late,
            means.transfer.prior.doubt(task.key), standing.held(turn),
            standing.goes_on(turn),
        )  # fmt: skip
        if played.chosen or task.name not in later:  # else the rest may have what it lacks
            standing.report(turn, len(played.chosen), played.least_cost_s, played.spent)
        done = RoundDone(
            task.name, task.rounds, task.trials, task.best_s, dict(task.failures),
            played.quality, played.spent,
        )  # fmt: skip
        means.journal.round(
            done, task.records(played.chosen, played.outcomes), standing.checkpoint()
        )
        if task.best_s is not None and (before_s is None or task.best_s < before_s - MIN_GAIN):
            yield Improved(task.name, task.best_s, task.trials)
        yield done
        yield from means.transfer.after(task, played.samples)
        delivered = means.deliveries.on_the_way(task)
        if delivered is not None:
            yield from each_told(task, delivered)
    return standing.why_over()
