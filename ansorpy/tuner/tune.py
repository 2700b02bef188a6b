"""The spine of a tuning: derive, lower, evolve, bind, emit, measure, update, append."""

import time
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ansorpy.cost.model import CostModel
from ansorpy.events import (
    Crowded,
    Derived,
    Event,
    Finished,
    Improved,
    NoTrials,
    SlotNews,
    Stopped,
    Stopping,
    TaskDone,
    TaskResult,
    TimeSpent,
    TooShort,
)
from ansorpy.measure.other_work import crowd
from ansorpy.measure.pool import MeasurePool
from ansorpy.plan.choices import ALL_PLANS
from ansorpy.records import RecordStore
from ansorpy.state.rule import Rule
from ansorpy.tuner.parts.plugged import told_parts
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.race import first_answer
from ansorpy.tuner.race.results import with_trials_of_parts
from ansorpy.tuner.reasons.contrast import contrast_of
from ansorpy.tuner.reasons.remedies import remedies_of
from ansorpy.tuner.reasons.suspects import suspects_of
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.reuse import warm
from ansorpy.tuner.rounds import preflight
from ansorpy.tuner.rounds.round import (
    Begun,
    Laps,
    Round,
    append,
    bind,
    emit,
    evolve,
    measure,
    prebuild,
    update,
)
from ansorpy.tuner.rounds.search_state import SearchState
from ansorpy.tuner.rounds.setup import Context, Opening, Setup, local_pools, prepare
from ansorpy.tuner.rounds.share import Turn
from ansorpy.tuner.tasks.checkpoint import Journal
from ansorpy.tuner.tasks.ranges import join
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import TOLD_TRIALS, Answer
from ansorpy.tuner.tasks.twins import each_result


def run(
    request: Request,
    rules: tuple[Rule, ...] | None = None,
    store: RecordStore | None = None,
    out: Path | None = None,
    model: CostModel | None = None,
    pools: Callable[[], Pools] | None = None,
    clock: Callable[[], float] = time.monotonic,
    journal: Journal | None = None,
    begin_s: float | None = None,
) -> Generator[Event, None, Finished]:
    """Yield the events of a tuning, which `tuner.api` shows to people; return the last one.

    A KeyboardInterrupt ends the search with the best so far, after the event `Stopping`; in the
    final race, and if there is no answer yet, it ends everything.

    Args:
        rules, store, out: the registered rules, the user's store and a folder beside it by default.
        pools: opens the measuring processes; of this machine unless given.
        journal: the rounds go here, and an interrupted tuning resumes from here.
        begin_s: when the command began, by `clock`: `seconds` count from there; now unless given.

    Raises:
        SpecError: the search space is empty, `out` takes no files, or there are too few cores or
            too little memory.
        RunError: this machine builds or runs no kernel.
    """
    open_pools = pools or local_pools(request)
    setup = prepare(request, rules, store, out, clock, journal, begin_s)
    yield from started(request, setup)
    results = setup.stored_results()
    tasks = tuple(task for task in setup.tasks if results[task.name] is None)
    stopped: Stopped = "trials" if tasks else "store"
    if tasks:
        with closing(open_pools()) as opened:
            memory = opened.memory()
            preflight.check_memory(tasks, memory)
            context = Context.of(request, setup, tasks, model, opened, clock)
            yield from too_short(request, context)
            yield from map(SlotNews, opened.news())
            try:
                openings = context.openings(request)
                yield from open_spaces(context, openings, request.seed)
                for task in tasks:
                    if openings[task.name].baseline:
                        yield from context.deliveries.baseline(task)
                if request.trials:
                    if not setup.stored.rounds and context.budget.fitting(1):
                        every = [one for task in tasks for one in (task, *task.parts)]
                        yield from preflight.check_kernel(every, opened, memory.free_bytes, clock)
                    state = context.search_state(request, results)
                    context.model.update(state.restore(setup.stored))
                    rest = {name for name, one in openings.items() if one.after_round}
                    stopped = yield from search(context, state, rest)
            except KeyboardInterrupt:
                known = [one.has_answer for task in tasks for one in (task, *task.parts)]
                if not any(results.values()) and not any(known):
                    raise
                stopped = "interrupted"
                yield Stopping()
            for task in tasks:
                yield from measure_joined(context, task)
                results[task.name] = yield from with_reasons(
                    context, task, stopped == "interrupted"
                )
    done = tuple(each_result(request.dags, setup.tasks, results))
    networks = setup.network_results(request, done)
    last = Finished(done, clock() - setup.begin_s, stopped, networks)
    yield last
    return last


def started(request: Request, setup: Setup) -> Iterator[Event]:
    """Tell the tasks, a busy machine, and the parts that are chosen by name."""
    yield setup.started(request)
    if warning := crowd():
        yield Crowded(warning)
    yield from told_parts(request, setup.tasks[0].strategy)


def too_short(request: Request, context: Context) -> Iterator[TooShort]:
    """Yield the least seconds that the tasks of a request take, if it has fewer."""
    asked_s, taken_s = request.seconds, context.budget.seconds
    if asked_s is not None and taken_s is not None and taken_s > asked_s:
        ends = "a raced kernel" if request.trials else "a verified library"
        yield TooShort(asked_s, taken_s, len(context.tasks), ends)


def open_spaces(context: Context, openings: Mapping[str, Opening], seed: int) -> Iterator[Event]:
    """Open the search space of each task, and answer it.

    If first answers are results, the first answer of a task is built while the next task is opened.
    """
    lap, waiting = Laps(context.clock), list[tuple[Task, Answer]]()
    ahead = int(context.deliveries.ends_with_answer)
    for task in context.tasks:
        later = task.parts[1:-1] if ahead else ()  # opened with the best plans of the others
        for part in task.parts:
            yield from open_space(context, part, openings[part.name], seed, part in later)
            yield from open_rest(context, part, openings[part.name])
        kind = yield from open_space(context, task, openings[task.name], seed)
        yield from (derived(part, 0.0) for part in later)
        waiting.append((task, kind))
        if len(waiting) > ahead:
            yield from answer(context, *waiting.pop(0), openings, lap)
    for task, kind in waiting:
        yield from answer(context, task, kind, openings, lap)


def open_space(
    context: Context, task: Task, how: Opening, seed: int, later: bool = False
) -> Generator[Event, None, Answer]:
    """Open a promising part of the search space of a task; return how the task is answered.

    Without time for a first answer there is none; a task that would end with it stays closed.

    Args:
        later: only derive the sketches; plans are lowered when the first answer is chosen.
    """
    setup, deliveries = context.setup, context.deliveries
    kind = deliveries.answer_kind() if how.first_answer else "none"
    if how.first_answer:
        if kind == "none" and deliveries.ends_with_answer:
            return kind
        deliveries.open_pool(task)
    if later:
        task.space.derive(setup.rules)
    elif not task.parts:
        few = kind == "one" and deliveries.ends_with_answer
        yield open_plans(context, task, first_answer.FEW_PLANS if few else first_answer.PLANS)
    late = context.budget.opening_late()
    yield from warm.start(task, setup.sources[task.name], setup.share, late)
    if kind != "none":
        deliveries.choose_answer(task, context.model, seed, kind)
    return kind


def answer(
    context: Context, task: Task, kind: Answer, openings: Mapping[str, Opening], lap: Laps
) -> Iterator[Event]:
    """Answer a task that is open, then open the rest of its search space."""
    if kind != "none":
        yield from context.deliveries.first_answer(task)
    elif context.deliveries.ends_with_answer:
        yield from context.deliveries.untuned_answer(task)
    context.budget.note_opened(kind, lap())
    yield from open_rest(context, task, openings[task.name])
    lap()


def open_rest(context: Context, task: Task, how: Opening) -> Iterator[Derived]:
    """Open the rest of the search space of a task, if that is due before the first round."""
    if how.all_plans and not task.parts:
        yield open_plans(context, task, late=context.budget.opening_late())


def with_reasons(
    context: Context, task: Task, interrupted: bool
) -> Generator[Event, None, TaskResult]:
    """Deliver the kernel of a task; its result has the reasons that the search has found."""
    ending = context.deliveries.end(task, interrupted)
    try:
        while True:
            event = next(ending)
            if isinstance(event, TaskDone):
                event = TaskDone(reasoned(context, task, event.result))
            yield event
    except StopIteration as end:
        result: TaskResult = end.value
        return reasoned(context, task, result)


def reasoned(context: Context, task: Task, result: TaskResult) -> TaskResult:
    """Return a result with its reasons; a twin names the task that has them."""
    if result.same_as:
        return result
    result = with_trials_of_parts(task, result)
    contrast = contrast_of(task, result, context.model)
    verdict = result.verdict
    if verdict is not None:
        steps = remedies_of([task.dag], context.allow, task.history.trials, task.history.seconds)
        verdict = replace(verdict, remedies=steps)
    return replace(result, suspects=suspects_of(task), contrast=contrast, verdict=verdict)


def open_plans(
    context: Context,
    task: Task,
    limit: int = ALL_PLANS,
    late: Callable[[], bool] | None = None,
) -> Derived:
    """Derive the sketches of a task, unless they are known, and lower about `limit` plans.

    Args:
        late: once it returns True, no further plan is lowered.
    """
    lap = Laps(context.clock)
    if not task.space.sketches:
        task.space.derive(context.setup.rules)
    task.space.lower(limit, late)
    return derived(task, lap())


def derived(task: Task, seconds: float) -> Derived:
    """Return the event of a search space that was opened in some seconds."""
    if task.space.own is not None:
        return Derived(task.name, None, len(task.space.plans), seconds, task.space.own.loops)
    return Derived(task.name, len(task.space.sketches), len(task.space.plans), seconds)


def search(context: Context, state: SearchState, rest: set[str]) -> Generator[Event, None, Stopped]:
    """Search in rounds, in `rest` tasks for all plans from the second on; return why it ended.

    As many rounds are under way as the pools allow; each ends in the order of its begin, so that
    decisions do not depend on the order in which outcomes come.
    """
    delivered = {task.name for task in context.tasks}  # parts are not, by themselves
    under_way: deque[tuple[Turn, Begun]] = deque()
    most = context.pools.rounds()
    try:
        turn, last = state.next_turn(), None
        while turn is not None or under_way:
            if turn is not None and last is not None:  # else the final race follows
                yield from context.deliveries.intermediate(last)
            while turn is not None:
                task = state.tasks[turn.task.name]
                yield from _opened(context, task, rest, delivered)
                held, goes_on = state.deferred(turn), state.task_continues(turn)
                state.scheduler.begin(turn)
                begun = begin(
                    task, turn.trials, context.model, context.pools.of(task), state.picking,
                    context.clock, state.budget.late, held, goes_on, most > 1,
                )  # fmt: skip
                under_way.append((turn, begun))
                turn = state.next_turn() if len(under_way) < most else None
            task = yield from _ended(context, state, *under_way.popleft(), rest)
            yield from map(SlotNews, context.pools.news())
            last = task if task.name in delivered else None
            turn = state.next_turn()
    finally:
        for _, begun in under_way:  # the search was interrupted: these trials do not count
            begun.cancel()
    reason = state.stop_reason()
    if reason == "seconds" and not any(task.history.trials for task in state.tasks.values()):
        budget = context.budget
        yield NoTrials(budget.left_s + budget.spent_s, budget.told_s(), TOLD_TRIALS)
    return reason


def _opened(
    context: Context, task: Task, rest: set[str], delivered: Container[str]
) -> Iterator[Event]:
    """Prepare the race of a task, and open the rest of its search space once it has a round."""
    if task.name in delivered:
        context.deliveries.prepare_race(task)
    if task.history.rounds and task.name in rest:
        rest.remove(task.name)
        yield open_plans(context, task, late=context.budget.opening_late())


def _ended(
    context: Context, state: SearchState, turn: Turn, begun: Begun, rest: Container[str]
) -> Generator[Event, None, Task]:
    """Wait for the outcomes of a round; learn, report and store them. Return its task."""
    task = begun.task
    before_s = task.history.trial_s
    done = finish(begun, context.model)
    if done.chosen or task.name not in rest:  # else the other plans may have candidates
        state.report(turn, len(done.chosen), done.least_cost_s, done.spent)
    else:
        state.scheduler.end(turn)
    yield from append(context.setup.journal, task, done, before_s, state.checkpoint())
    return task


def measure_joined(context: Context, task: Task) -> Iterator[Improved]:
    """Measure candidates that join the best kernels of the parts of a task, if all have a trial.

    Their records would name no candidate of a search, so that none is stored.
    """
    chosen = context.deliveries.best_of_parts(task)
    if not chosen:
        return
    rows = list(dict.fromkeys([*task.queue.waiting(()), *join(task.space, chosen)]))
    emitted = emit(context.pools.of(task), bind(task, rows), [None] * len(rows))
    task.history.learn(*measure(task, rows, emitted, context.budget.late))
    task.history.add(*(part.history for part in task.parts))
    if task.history.trial_s is not None:
        yield Improved(task.name, task.history.trial_s, task.history.trials)


def play(
    task: Task, count: int, model: CostModel, pool: MeasurePool, rng: np.random.Generator,
    clock: Callable[[], float], late: Callable[[], bool] = lambda: False, held: int = 0,
    goes_on: bool = False,
) -> Round:  # fmt: skip
    """Play a round from its begin to its end."""
    return finish(begin(task, count, model, pool, rng, clock, late, held, goes_on), model)


def begin(
    task: Task, count: int, model: CostModel, pool: MeasurePool, rng: np.random.Generator,
    clock: Callable[[], float], late: Callable[[], bool] = lambda: False, held: int = 0,
    goes_on: bool = False, aside: bool = False,
) -> Begun:  # fmt: skip
    """Begin a round of at most `count` trials; more candidates, `held`, wait for the next round.

    Args:
        late: once it returns True, unmeasured candidates count as if they were never proposed.
        goes_on: the task has the next round, and no other task measures before it.
        aside: measure in a thread of its own, so that other rounds can begin meanwhile.
    """
    lap = Laps(clock)
    rows = evolve(task, count + held, model, rng, pool)
    rows, task.queue.held = rows[:count], rows[count:]
    begun = Begun(task, rows, lap, lap())
    if goes_on:
        prebuild(task, pool, later=True)
    emitted = emit(pool, bind(task, rows), [task.outcome_on_record(row) for row in rows])
    begun.measure(partial(measure, task, rows, emitted, begun.late(late)), aside)
    return begun


def finish(begun: Begun, model: CostModel) -> Round:
    """Return a round with its outcomes, from which the task and the cost model have learned."""
    rows, outcomes = begun.outcomes()
    waited_s = begun.lap()
    quality = update(begun.task, model, rows, outcomes)
    spent = TimeSpent(begun.proposed_s, waited_s, begun.lap())
    begun.task.history.seconds += spent.total_s
    return Round(tuple(rows), tuple(outcomes), quality, spent)
