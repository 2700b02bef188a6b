"""The verbs of one round of a task: evolve, bind, emit, measure, update, append.

Evolution occupies one core. The last candidates of a round are deferred to the next one: they are
built on the other cores while the next candidates are evolved, without knowledge of their outcomes
(ADR-0039). If the task certainly has the next round, this starts while the model learns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Event, Thread
from typing import Final

import numpy as np

from ansorpy.cost.model import CostModel, ForTask, Sample
from ansorpy.cost.quality import assess
from ansorpy.errors import AnsorError
from ansorpy.events import Improved, RoundDone, TimeSpent
from ansorpy.measure.outcome import Outcome
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.unbound import Unbound
from ansorpy.search import Candidate
from ansorpy.search.strategy import SearchView
from ansorpy.tuner.reasons.suspects import suspects_of
from ansorpy.tuner.tasks.checkpoint import Checkpoint, Journal
from ansorpy.tuner.tasks.history import costs_of
from ansorpy.tuner.tasks.task import Task
from ansorpy.uncollected import uncollected

MIN_GAIN_S: Final = 1e-9  # the resolution of the clock

Outcomes = tuple[list[Candidate], list[Outcome]]  # candidates that were measured, and theirs

# A measurement in progress: builders emit code while slots measure. Its arguments are the least
# cost so far, and a function that returns True after the deadline; late candidates have outcome
# None.
Emission = Callable[[float | None, Callable[[], bool]], Sequence[Outcome | None]]


@dataclass(frozen=True, slots=True)
class Round:
    """The candidates of one round and their outcomes."""

    chosen: tuple[Candidate, ...]
    outcomes: tuple[Outcome, ...]
    quality: Mapping[str, float]
    spent: TimeSpent

    @property
    def least_cost_s(self) -> float:
        """The least cost of the round, infinite if no candidate survived."""
        return min(costs_of(self.outcomes), default=float("inf"))


class Laps:
    """A stop watch: each call returns the seconds since the call before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._last_s = clock, clock()

    def __call__(self) -> float:
        """Return the seconds since the last call, or since the start."""
        before_s, self._last_s = self._last_s, self._clock()
        return self._last_s - before_s


@dataclass(slots=True)
class Begun:
    """A round whose candidates are being measured.

    Args:
        lap: tells the seconds since the round began, and since it told.
        proposed_s: seconds of the proposal.
    """

    task: Task
    rows: Sequence[Candidate]
    lap: Laps
    proposed_s: float
    _measured: Callable[[], Outcomes] = field(init=False)
    _cancelled: Event = field(default_factory=Event)

    def late(self, late: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function that is true once `late` is, or the round is cancelled."""
        return lambda: self._cancelled.is_set() or late()

    def measure(self, measured: Callable[[], Outcomes], aside: bool) -> None:
        """Measure when the outcomes are asked for, or, `aside`, from now on in a thread."""
        if not aside:
            self._measured = measured
            return
        self.task.queue.under_way += self.rows
        future: Future[Outcomes] = Future()

        def run() -> None:
            try:
                future.set_result(measured())
            except BaseException as error:  # noqa: BLE001 - raised where the outcomes are asked for
                future.set_exception(error)

        Thread(target=run, daemon=True, name=f"round of {self.task.name}").start()
        self._measured = future.result

    def outcomes(self) -> Outcomes:
        """Return the measured candidates and their outcomes; wait for them."""
        found = self._measured()
        done = {*self.rows}
        self.task.queue.under_way = [one for one in self.task.queue.under_way if one not in done]
        return found

    def cancel(self) -> None:
        """Measure no further candidate, and wait for those that are being measured."""
        self._cancelled.set()
        with suppress(AnsorError):
            self.outcomes()


def evolve(
    task: Task, count: int, model: CostModel, rng: np.random.Generator, pool: MeasurePool
) -> list[Candidate]:
    """Return `count` candidates, fewer if fewer are left; the deferred ones come first.

    Builders build the deferred candidates meanwhile.
    """
    prebuild(task, pool)
    chosen = task.queue.waiting(task.history.costs_s)
    missing, taken = max(0, count - len(chosen)), [*chosen, *task.queue.under_way]
    return chosen + propose(task, ForTask(model, task.key), taken, missing, rng)


@uncollected()
def propose(
    task: Task, ranker: ForTask, taken: Sequence[Candidate], count: int, rng: np.random.Generator
) -> list[Candidate]:
    """Return `count` candidates neither measured nor taken; fewer if fewer are left."""
    if not count:
        return []
    space, costs_s, ranked = task.space, task.history.costs_s, task.history.ranked()
    seen = {*costs_s, *taken}
    view = SearchView(task.key, space.plans, task.target, costs_s, ranked, seen, ranker)
    if space.own is not None:
        return space.own.propose(space, view, count, rng)
    return list(task.strategy.propose(view, count, rng))


def bind(task: Task, chosen: Sequence[Candidate]) -> list[Unbound]:
    """Return candidates for the builders, which bind each to a program in their processes."""
    return [task.space.unbound(candidate) for candidate in chosen]


def emit(
    pool: MeasurePool, candidates: Sequence[Unbound], recorded: Sequence[Outcome | None]
) -> Emission:
    """Return the pipeline of a pool: builders emit the code of candidates, slots measure it.

    It runs while `measure` reads it: the code of a candidate is emitted while another one is timed.

    Args:
        recorded: the known outcome of each candidate, which is not measured again, or None.
    """
    rest = [one for one, known in zip(candidates, recorded, strict=True) if known is None]

    def run(best_s: float | None, late: Callable[[], bool]) -> Sequence[Outcome | None]:
        measured = iter(pool.measure(rest, best_s, late) if rest else [])
        return [next(measured) if known is None else known for known in recorded]

    return run


def prebuild(task: Task, pool: MeasurePool, later: bool = False) -> None:
    """Start to build the deferred candidates of a task on idle cores; return at once.

    Args:
        later: start once the present round has nothing left to build.
    """
    new = [candidate for candidate in task.queue.held if task.outcome_on_record(candidate) is None]
    pool.prebuild(*bind(task, new), later=later)


def measure(
    task: Task, chosen: Sequence[Candidate], emitted: Emission, late: Callable[[], bool]
) -> tuple[list[Candidate], list[Outcome]]:
    """Return candidates and their outcomes, except those for which it was too late."""
    found = emitted(task.history.least_cost_s, late)
    done = [(c, o) for c, o in zip(chosen, found, strict=True) if o is not None]
    return [candidate for candidate, _ in done], [outcome for _, outcome in done]


def update(
    task: Task, model: CostModel, chosen: Sequence[Candidate], outcomes: Sequence[Outcome]
) -> Mapping[str, float]:
    """Store a round in the task and train the cost model with it.

    Returns:
        The quality of the model's predictions of the round before the training.
    """
    task.history.learn(chosen, outcomes)
    samples = tuple(task.samples(chosen))
    quality = quality_of(samples, ForTask(model, task.key))
    model.update(samples)
    return quality


def append(
    journal: Journal, task: Task, done: Round, before_s: float | None, checkpoint: Checkpoint
) -> Iterator[Improved | RoundDone]:
    """Append the records of a round and the state of the search; yield the events of the round.

    Args:
        before_s: the time of the fastest trial of the task before the round.
    """
    history = task.history
    event = RoundDone(
        task.name, history.rounds, history.trials, history.trial_s, dict(history.failures),
        done.quality, done.spent, task.identity.estimated, suspects_of(task),
    )  # fmt: skip
    journal.append_round(event, task.records(done.chosen, done.outcomes), checkpoint)
    best_s = history.trial_s
    if best_s is not None and (before_s is None or best_s < before_s - MIN_GAIN_S):
        yield Improved(task.name, best_s, history.trials)
    yield event


def quality_of(samples: Sequence[Sample], model: ForTask) -> Mapping[str, float]:
    """Return how well the model predicts a round before it learns from it."""
    if not samples:
        return {}
    scores = np.concatenate(model.predict([sample.batch for sample in samples]))
    costs_s = np.concatenate([sample.costs_s for sample in samples])
    return {name: float(value) for name, value in asdict(assess(scores, costs_s)).items()}
