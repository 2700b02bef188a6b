"""The trials of a task of a job: rows of a table, and the facts of its pictures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, Literal

from sqlalchemy import Engine, select

from ansorpy.errors import RecordError, SpecError
from ansorpy.events import TaskResult
from ansorpy.measure.outcome import Estimated, Failed, Measured
from ansorpy.plot.importance import SizeImportance, importance_of
from ansorpy.plot.roofline import Roofline, roofline_of
from ansorpy.plot.sized import SizedTrials, size_names, sized_trials
from ansorpy.plot.subject import Subject
from ansorpy.records import Record, decode
from ansorpy.server.db.engine import reading
from ansorpy.server.db.models import RecordRow
from ansorpy.server.jobs import queries
from ansorpy.server.schemas.job import TaskReply
from ansorpy.server.service.explain import target_of

TIMED: Final = "timed"
STOPPED: Final = "stopped early"  # slower than the best candidate after its first samples
ESTIMATE: Final = "estimated"

Show = Literal["all", "timed", "early", "failed"]
Sort = Literal["trial", "time", "slowdown", "variant"]


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A trial: its number in the task and round, its time in seconds, its sizes by name.

    `variant` numbers the plans, which are the structural choices, in the order of their first
    trial. `sizes` is empty if this version cannot replay the plan. `slowdown` tells
    the machine in the trial. `place` numbers the trials of a round.
    """

    number: int
    round: int
    place: int
    best_s: float | None
    slowdown: float | None
    outcome: str
    message: str
    variant: int
    sizes: Mapping[str, int]

    @property
    def failed(self) -> bool:
        """True without a time and without an estimate."""
        return self.best_s is None and self.outcome != ESTIMATE


KEYS: Final[Mapping[Sort, Callable[[TrialRow], float | None]]] = {
    "trial": lambda one: one.number,
    "time": lambda one: one.best_s,
    "slowdown": lambda one: one.slowdown,
    "variant": lambda one: one.variant,
}


@dataclass(frozen=True, slots=True)
class TrialQuery:
    """A choice of trials, and their order."""

    show: Show = "all"
    variant: int | None = None
    sort: Sort = "trial"
    descending: bool = False

    def of(self, rows: Iterable[TrialRow]) -> list[TrialRow]:
        """Return the chosen trials in order; trials without a value come last."""
        chosen = [one for one in rows if self._takes(one)]
        key = KEYS[self.sort]
        known = [one for one in chosen if key(one) is not None]
        known.sort(key=lambda one: key(one) or 0.0, reverse=self.descending)
        return known + [one for one in chosen if key(one) is None]

    def _takes(self, row: TrialRow) -> bool:
        fits = {
            "all": True, "timed": row.outcome == TIMED, "early": row.outcome == STOPPED,
            "failed": row.failed,
        }  # fmt: skip
        return fits[self.show] and self.variant in (None, row.variant)


@dataclass(frozen=True, slots=True)
class TaskTrials:
    """The records of a task of a job as a subject of pictures, and the rounds of its trials."""

    subject: Subject
    rounds: Sequence[int]  # the round of each trial

    def rows(self) -> Iterator[TrialRow]:
        """Yield the trials in order."""
        trials = self.subject.trials
        names = _names_of(self.subject)
        variants = {plan: n for n, plan in enumerate(dict.fromkeys(t.plan for t in trials), 1)}
        numbers = iter(range(1, len(trials) + 1))
        pairs = zip(self.rounds, trials, strict=True)
        for number_of_round, of_round in groupby(pairs, key=lambda pair: pair[0]):
            for place, (_, record) in enumerate(of_round, 1):
                yield TrialRow(
                    number=next(numbers),
                    round=number_of_round,
                    place=place,
                    best_s=record.best_s,
                    variant=variants[record.plan],
                    sizes=dict(zip(names.get(record.plan, ()), record.row, strict=False)),
                    **_told(record),
                )

    @property
    def roofline(self) -> Roofline | None:
        """The kernel and its rivals below the limits of the machine; None without a race."""
        try:
            return roofline_of(self.subject)
        except (SpecError, RecordError):
            return None

    @property
    def sized(self) -> SizedTrials | None:
        """The varied sizes of the trials of one form of the loops; None without times."""
        try:
            return sized_trials(self.subject).varied()
        except (SpecError, RecordError):
            return None

    @property
    def importance(self) -> SizeImportance | str:
        """The importance of the sizes, or the reason why there is none."""
        return _importance(_Hashed(self.subject))

    @property
    def estimate(self) -> Estimated | None:
        """The least estimate of the trials of a job without a device; None with times."""
        found = (one.outcome for one in self.subject.trials)
        estimates = [one for one in found if isinstance(one, Estimated)]
        return min(estimates, key=lambda one: one.seconds, default=None)


def _told(record: Record) -> dict[str, Any]:
    match record.outcome:
        case Measured(aborted=aborted, slowdown=slowdown):
            return {
                "outcome": STOPPED if aborted else TIMED, "message": "", "slowdown": slowdown,
            }  # fmt: skip
        case Estimated():
            return {"outcome": ESTIMATE, "message": "", "slowdown": None}
        case Failed(kind=kind, message=message):
            return {"outcome": kind, "message": message, "slowdown": None}


def _names_of(subject: Subject) -> Mapping[str, tuple[str, ...]]:
    if subject.target is None:
        return {}
    try:
        return size_names(subject.dag, subject.target, (one.plan for one in subject.trials))
    except (SpecError, RecordError):  # the computation is not on record
        return {}


class _Hashed:
    """A subject that equals another one with the same trials: a search only adds some."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        trials = subject.trials
        self.key = (len(trials), trials[-1].id if trials else "", subject.name, subject.target)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.key == other.key


@lru_cache(maxsize=64)  # each takes about a second of a core
def _importance(asked: _Hashed) -> SizeImportance | str:
    try:
        return importance_of(asked.subject)
    except (SpecError, RecordError) as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class TrialService:
    """Use cases of the trials of a job."""

    engine: Engine

    def of_task(self, tenant_id: int, job_id: str, task: TaskReply) -> TaskTrials:
        """Return the trials of a task; a task that equals another one has the trials of that one.

        Raises:
            NotFoundError: the tenant has no such job.
        """
        name = task.same_as or task.name
        mine = RecordRow.job_id == job_id, RecordRow.task == name
        query = select(RecordRow.body, RecordRow.round).where(*mine).order_by(RecordRow.seq)
        with reading(self.engine) as tx:
            known = queries.explain(tx, tenant_id, job_id)
            found = [(decode(body), number) for body, number in tx.execute(query)]
        target = target_of(known.target, known.job.cores)
        records = tuple(record for record, _ in found)
        rounds = [number for record, number in found if record.race is None]
        return TaskTrials(Subject(_result_of(task, records), records, target), rounds)


def _result_of(task: TaskReply, records: Sequence[Record]) -> TaskResult:
    """Return the result of a task as far as pictures show it."""
    race = next((one.race for one in reversed(records) if one.race is not None), None)
    return TaskResult(
        name=task.name,
        key=records[0].key if records else "",
        best_s=task.best_s,
        baseline_s=task.baseline_s,
        trials=task.trials,
        seconds=0.0,
        verified=task.verified,
        winner=task.winner,
        kernel=None,
        naive_s=task.naive_s,
        numpy_s=task.numpy_s,
        own=() if race is None else race.own,
        peers=() if race is None else race.peers,
    )
