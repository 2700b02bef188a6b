"""What happens during a tuning, as values: a caller may print, store or ignore them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from ansorpy.artifact.rate import Rate

# Why a search ended: its budgets, the latency that was wanted, too little gained of late, no task
# with anything left to gain, Ctrl-C, or no search at all.
Stopped = Literal["trials", "seconds", "target", "gain", "converged", "interrupted", "store"]


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Where the wall time of a round went, in seconds."""

    propose_s: float = 0.0  # evolution: sample, mutate, featurise, score
    measure_s: float = 0.0  # emit, compile, check and time, as seen from outside
    train_s: float = 0.0
    store_s: float = 0.0

    def __add__(self, other: "TimeSpent") -> "TimeSpent":
        """Return the sum, part by part."""
        names = [f.name for f in fields(self)]
        return TimeSpent(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class Started:
    """A tuning begins; `known` counts the stored trials of each task that it starts from."""

    tasks: tuple[str, ...]
    known: tuple[int, ...]
    trials: int
    seconds: float | None
    twins: Mapping[str, str] = field(default_factory=dict)  # name -> the equal task it is tuned as


@dataclass(frozen=True, slots=True)
class Derived:
    """So much of the search space of a task is open: promising plans first, later all of them."""

    task: str
    sketches: int
    plans: int
    seconds: float  # that this took


@dataclass(frozen=True, slots=True)
class Seeded:
    """Records that are imported, or of another version, start the search of a task.

    So many of their programs are measured first; `reasons` tell why others cannot be.
    """

    task: str
    programs: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warmed:
    """The cost model starts from measurements of other tasks on this target."""

    candidates: int
    tasks: int
    seconds: float  # to load and to learn


@dataclass(frozen=True, slots=True)
class Judged:
    """How other tasks' measurements rank the first candidates of a task: told at every change.

    Kendall's tau, with them and by the analytic model alone; where they are not `kept`, the task
    goes on without.
    """

    task: str
    candidates: int
    kendall: float
    roofline: float
    kept: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """Experience that could not be read or written, and why; the tuning goes on without."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """What the cost model chose was built, checked and written, before any trial.

    The zip holds a library and no `kernel.py`. It passed the `cases` named; `best_s` is what it
    took then, `seconds` how long the tuning had run.
    """

    task: str
    kernel: Path  # the zip
    best_s: float
    seconds: float
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoundDone:
    """One batch of trials was measured; counts are totals of the task so far."""

    task: str
    round: int
    trials: int
    best_s: float | None
    failures: Mapping[str, int]  # by kind
    quality: Mapping[str, float]  # of the cost model on this batch, before it learned from it
    spent: TimeSpent


@dataclass(frozen=True, slots=True)
class Improved:
    """A trial beat all before it."""

    task: str
    best_s: float
    trials: int


@dataclass(frozen=True, slots=True)
class Stopping:
    """A KeyboardInterrupt has ended the search: the best so far is raced and written."""


@dataclass(frozen=True, slots=True)
class Racing:
    """The final race of a task begins: its leaders, the untuned kernel and NumPy, in turns."""

    task: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The best so far of a task was raced, verified and written, while the search goes on."""

    task: str
    kernel: Path  # the zip
    best_s: float


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task came to.

    `best_s` is None where no candidate survived; `baseline_s` is the faster of the untuned kernel
    and NumPy, measured in the same interleaved run as `best_s`. `rate` is None without a race, and
    if it would be beyond what the machine reaches.
    """

    name: str
    key: str
    best_s: float | None
    baseline_s: float | None
    trials: int
    seconds: float
    verified: bool
    winner: Literal["tuned", "baseline"] | None
    kernel: Path | None  # the zip
    flop: int = 0
    naive_s: float | None = None
    numpy_s: float | None = None
    numpy_note: str = ""  # why NumPy's evaluation left the race; "": it did not
    failures: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)  # the first message of every kind
    from_store: bool = False
    rate: Rate | None = None
    same_as: str = ""  # the equal task that was tuned; trials, time and failures are counted there


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task has its result and its zip; `Finished` repeats the results of all tasks.

    Zips that the tuning wrote for the task before, `FirstAnswer` and `Delivered`, are removed next.
    """

    result: TaskResult


@dataclass(frozen=True, slots=True)
class Finished:
    """The end; always the last event."""

    results: tuple[TaskResult, ...]
    seconds: float
    stopped: Stopped


Event = (
    Started | Derived | Seeded | Warmed | Judged | Skipped | FirstAnswer | RoundDone | Improved
    | Delivered | Stopping | Racing | TaskDone | Finished
)  # fmt: skip
