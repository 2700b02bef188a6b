"""Replies of the service as values. Fields that a newer service adds are left out.

Ids, digests and names of tasks become parts of addresses and of paths of files, so that a reply
with any other text in their places is refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeVar

from ansorpy.errors import AnsorError, quoted
from ansorpy.te.limits import NAME
from ansorpy.units import duration

Timing = Literal["race", "trial", "estimate"]  # the source of a latency
State = Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]
ID: Final = re.compile("[0-9a-f]{32}")
DIGEST: Final = re.compile("[0-9a-f]{64}")
DIGITS: Final = 12  # hex digits of a digest in a repr
SHOWN: Final = 3  # names of tasks in the repr of a job
ENDED: Final = ("succeeded", "failed", "cancelled")

T = TypeVar("T")


class ReplyError(AnsorError):
    """A reply of the service that this version does not understand."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task of a job; times in seconds."""

    name: str
    weight: float = 1.0
    dims: Sequence[str] = ()  # sizes that each call decides: `N in 1..512`
    ranges: Sequence[Mapping[str, Any]] = ()  # ranges of a dim: `sizes`, `trials`, `best_s`
    trials: int = 0
    sketches: int | None = None
    best_s: float | None = None
    timing: Timing | None = None
    baseline_s: float | None = None
    naive_s: float | None = None
    numpy_s: float | None = None
    numpy_note: str = ""
    verdict: Mapping[str, Any] | None = None  # `sentence`, `level`, `ratio` and times of a race
    compile_s: float | None = None  # time to compile the kernel; a part of no other
    from_store: bool = False  # answered from records of earlier jobs, without a trial
    same_as: str = ""  # the equal task of the job that is tuned for both
    winner: str | None = None
    verified: bool = False
    estimated: bool = False  # trials are estimates for a GPU: no time, no race
    flop: int | None = None
    flop_per_s: float | None = None
    by_size: Sequence[Mapping[str, Any]] = ()  # times at single sizes of dims, after a race
    effective: bool = False  # the rate counts other operations than those executed
    copies: int = 1  # copies of the kernel that run at once, if the objective is throughput
    items_per_s: float | None = None  # calls per second of all copies together
    failures: Mapping[str, int] = field(default_factory=dict)
    kernel: str | None = None  # sha256 of the package
    final: bool = False

    @property
    def gflops(self) -> float | None:
        """GFLOP per second of the best, None if unknown."""
        return None if self.flop_per_s is None else self.flop_per_s / 1e9

    def __repr__(self) -> str:
        kernel = "" if self.kernel is None else f", kernel {self.kernel[:DIGITS]}"
        return f"<task {self.name}: {self.trials} trials{_best(self.best_s)}{kernel}>"


@dataclass(frozen=True, slots=True)
class Job:
    """The present state of a job; times since the epoch, durations in seconds."""

    id: str
    state: State
    tasks: tuple[TaskState, ...]
    budget: Mapping[str, Any]
    reason: str = ""
    trials: int = 0
    seconds: float = 0.0
    best_s: float | None = None
    timing: Timing | None = None
    sum_of: str = ""  # terms of `best_s`, such as "sum of 3 tasks by weight"
    estimated: bool = False  # candidates are estimated: there are no times
    created_s: float = 0.0
    updated_s: float = 0.0
    started_s: float | None = None
    ended_s: float | None = None
    cores: int = 1
    target: str = ""
    priority: int = 0
    attempts: int = 0
    events: int = 0
    waiting_for: str | None = None  # reason of a queued job, such as "no live worker for cpu"
    model: Mapping[str, Any] | None = None  # nodes, tasks, estimate and bundle of a model
    how: str = ""  # result of a submission: created, repeated, coalesced or answered

    @property
    def ended(self) -> bool:
        """True if the job has ended."""
        return self.state in ENDED

    def task(self, name: str) -> TaskState:
        """Return a task by name; KeyError."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise KeyError(name)

    def __repr__(self) -> str:
        """Return one line; `dataclasses.asdict` tells every field."""
        names = _names([task.name for task in self.tasks], len(self.tasks))
        told = f"{names}: {self.trials} trials{_best(self.best_s)}"
        return f"<job {self.id} {self.state}, {told}>"


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in a list."""

    id: str
    state: State
    tasks: tuple[str, ...]
    task_count: int
    trials: int
    trials_asked: int
    best_s: float | None = None
    timing: Timing | None = None
    estimated: bool = False  # candidates are estimated: there are no times
    created_s: float = 0.0
    updated_s: float = 0.0
    priority: int = 0
    model: str | None = None  # digest of the model that it tunes
    name: str = ""  # name of the file of the model

    def __repr__(self) -> str:
        names = _names(self.tasks, self.task_count)
        trials = f"{self.trials} of {self.trials_asked} trials{_best(self.best_s)}"
        return f"<job {self.id} {self.state}, {names}: {trials}>"


def _names(names: Sequence[str], count: int) -> str:
    """Return the first names of tasks, and the number of the others."""
    shown = names[:SHOWN]
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")


def _best(best_s: float | None) -> str:
    return "" if best_s is None else f", best {duration(best_s)}"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a job; `number` counts from 1."""

    number: int
    kind: str
    at_s: float
    body: Mapping[str, Any]

    def __repr__(self) -> str:
        task = f" of {self.body['task']}" if "task" in self.body else ""
        return f"<event {self.number}: {self.kind}{task}>"


def job_of(reply: Any) -> Job:
    """Return a job; ReplyError for another reply."""
    known = _known(Job, reply)
    _check(known.get("id"), ID)
    model = known.get("model")
    if isinstance(model, Mapping):
        bundle = model.get("bundle")
        _check(model.get("sha256"), DIGEST)
        _check(bundle.get("sha256") if isinstance(bundle, Mapping) else bundle, DIGEST)
    return _made(Job, {**known, "tasks": tuple(map(_task_of, known.get("tasks", ())))})


def _task_of(reply: Any) -> TaskState:
    known = _known(TaskState, reply)
    _check(known.get("name"), NAME)
    _check(known.get("kernel"), DIGEST)
    return _made(TaskState, known)


def line_of(reply: Any) -> JobLine:
    """Return a line of the list; ReplyError for another reply."""
    known = _known(JobLine, reply)
    _check(known.get("id"), ID)
    _check(known.get("model"), DIGEST)
    for name in known.get("tasks", ()):
        _check(name, NAME)
    return _made(JobLine, {**known, "tasks": tuple(known.get("tasks", ()))})


def event_of(reply: Any) -> Event:
    """Return an event; ReplyError for another reply."""
    if not isinstance(reply, Mapping) or not {"id", "kind", "at_s"} <= set(reply):
        raise ReplyError(f"not an event: {str(reply)[:80]!r}")
    body = {name: value for name, value in reply.items() if name not in ("id", "kind", "at_s")}
    return Event(int(reply["id"]), str(reply["kind"]), float(reply["at_s"]), body)


def value_of(kind: type[T], reply: Any) -> T:
    """Return a reply without parts as a value; ReplyError for another reply."""
    return _made(kind, _known(kind, reply))


def _check(value: Any, form: re.Pattern[str]) -> None:
    """Raise ReplyError unless a value has a form; absent ones are left to `_made`."""
    if value is not None and not (isinstance(value, str) and form.fullmatch(value)):
        raise ReplyError(
            f"cannot use {quoted(value)} of the reply because it is no name, id or digest;"
            f" expected {form.pattern}"
        )


def _known(kind: type[Any], reply: Any) -> dict[str, Any]:
    if not isinstance(reply, Mapping):
        raise ReplyError(f"not a {kind.__name__}: {str(reply)[:80]!r}")
    names = {f.name for f in fields(kind)}
    return {name: value for name, value in reply.items() if name in names}


def _made(kind: type[T], values: Mapping[str, Any]) -> T:
    try:
        return kind(**values)
    except TypeError as error:
        raise ReplyError(f"not a {kind.__name__}: {error}") from error
