"""Events of a tuning as values, which a caller may print, store or ignore."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from ansorpy.artifact.rate import Rate
from ansorpy.codegen.exported_types import Library
from ansorpy.measure.outcome import Estimated
from ansorpy.records import RacedOwn, copies_of, items_per_s
from ansorpy.units import counted, duration
from ansorpy.verdict import Judgment

# The reason for the end of a search: a budget, the target latency, too small a recent gain, no task
# with an expected gain, Ctrl-C, or an answer from the store.
Stopped = Literal["trials", "seconds", "target", "gain", "converged", "interrupted", "store"]

# The source of a latency: a race, trials of a kernel that was not raced, or a sum of such times.
Timing = Literal["race", "trial", "estimate"]


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """The wall time of the steps of a round, in seconds."""

    propose_s: float = 0.0  # evolution: sample, mutate, featurise, score
    measure_s: float = 0.0  # emit, compile, check and time, in the parent's time
    train_s: float = 0.0
    store_s: float = 0.0

    @property
    def total_s(self) -> float:
        """The sum of the parts."""
        return self.propose_s + self.measure_s + self.train_s + self.store_s

    def __add__(self, other: "TimeSpent") -> "TimeSpent":
        """Return the sum, part by part."""
        names = [f.name for f in fields(self)]
        return TimeSpent(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class Started:
    """A tuning begins; `known` counts the stored trials of each task that it starts from.

    `threads` counts the threads of a kernel for a processor; 0 for a GPU.
    """

    tasks: tuple[str, ...]
    known: tuple[int, ...]
    trials: int
    seconds: float | None
    twins: Mapping[str, str] = field(default_factory=dict)  # name -> the equal task it is tuned as
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Crowded:
    """Other work crowds the machine at the start of a tuning; `warning` says so to people."""

    warning: str

    def __str__(self) -> str:
        return f"warning: {self.warning}"


@dataclass(frozen=True, slots=True)
class SlotNews:
    """A change of the slots that measure: their number, or the reason why one is not used."""

    news: str

    def __str__(self) -> str:
        return f"cluster: {self.news}"


@dataclass(frozen=True, slots=True)
class TooShort:
    """The seconds asked for are fewer than the least that the tasks take, `least_s`: these count.

    `ends` names the least delivery of a task: a raced kernel, a library, or the bundle of a model.
    """

    asked_s: float
    least_s: float
    tasks: int
    ends: str

    def __str__(self) -> str:
        return (
            f"{self.asked_s:g} s are too few: {self.ends} of {counted(self.tasks, 'task')} takes"
            f" about {self.least_s:.0f} s, which count in their place"
        )


@dataclass(frozen=True, slots=True)
class NoTrials:
    """The search ended by its seconds before a trial; `enough_s` would allow about `trials`."""

    seconds: float
    enough_s: float
    trials: int

    def __str__(self) -> str:
        return (
            f"{self.seconds:.3g} s were enough for no trial: {self.enough_s:.0f} s give about"
            f" {self.trials}"
        )


@dataclass(frozen=True, slots=True)
class Plugged:
    """A part of the tuning that is not the default one: its option, name and package.

    `forgets`: a search strategy that keeps no memory over an interruption.
    """

    option: str
    name: str
    package: str
    forgets: bool


@dataclass(frozen=True, slots=True)
class Derived:
    """The opened part of a task's search space: promising plans first, later all plans.

    `sketches` is None if a schedule or a template of the user makes the candidates. `loops`
    is the loop nest of a schedule that the user wrote, as text.
    """

    task: str
    sketches: int | None
    plans: int
    seconds: float  # duration of derivation and lowering
    loops: str = ""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Records that are imported, or of another version, start the search of a task.

    `programs` of them are measured first; `reasons` tell why others cannot be measured.
    """

    task: str
    programs: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """A choice of the cost model was built, checked and written, before any trial.

    The zip holds a library and no `kernel.py`. It passed the `cases` named; `best_s` is its time
    in these cases, `seconds` the age of the tuning. `library` is the library, to be linked with
    others. `from_store`: the choice is the best trial of earlier tunings.
    """

    task: str
    kernel: Path  # the zip
    best_s: float
    seconds: float
    cases: tuple[str, ...]
    from_store: bool = False
    library: Library | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BaselineTimed:
    """The untuned kernel and NumPy were timed in turns before the first trial of a task.

    Times in seconds; None if the contestant did not finish. The final race measures both again.
    """

    task: str
    naive_s: float | None
    numpy_s: float | None
    numpy_note: str = ""  # reason why NumPy's evaluation left the race; "": it did not

    @property
    def baseline_s(self) -> float | None:
        """The faster of both, None if neither finished."""
        return min((one for one in (self.naive_s, self.numpy_s) if one is not None), default=None)


@dataclass(frozen=True, slots=True)
class Preflight:
    """This machine builds and runs kernels that are right; the search follows.

    `by` names the proof: a kernel of `task`. `need_bytes` bounds the memory that a check of the
    largest task takes, `free_bytes` is the free memory of this machine, None if it is not known.
    """

    task: str
    by: str
    seconds: float  # duration of the proof; 0.0 if the tuning needs the kernel anyway
    need_bytes: int
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A trait that is over-represented among the failures of one kind: a hint, no proof.

    `both` of `failed` failures of the kind have the trait, as `having` of all `trials` do.
    """

    kind: str
    trait: str  # a rule with its stage, a structural choice, or a size with its value or range
    both: int
    failed: int
    having: int
    trials: int
    p: float  # p-value by Fisher's exact test, one-sided

    @property
    def lift(self) -> float:
        """The share of the trait among the failures over its share among all trials."""
        return self.both * self.trials / (self.failed * self.having)

    def __str__(self) -> str:
        return (
            f"{self.both} of {self.failed} failures ({self.kind}) have {self.trait}, as"
            f" {self.having} of {self.trials} trials do (lift {self.lift:.1f}, p = {self.p:.1g})"
        )


@dataclass(frozen=True, slots=True)
class RoundDone:
    """One batch of trials was measured; counts are totals of the task so far.

    `best_s` is the time of the fastest trial so far: it never rises, and no race replaces it.
    """

    task: str
    round: int
    trials: int
    best_s: float | None
    failures: Mapping[str, int]  # number of failures by kind
    quality: Mapping[str, float]  # quality of the cost model on this batch, before training on it
    spent: TimeSpent
    estimated: bool = False  # trials are estimates: there is no time, and `best_s` is None
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True, slots=True)
class Improved:
    """A trial is faster than all earlier ones."""

    task: str
    best_s: float
    trials: int


@dataclass(frozen=True, slots=True)
class Stopping:
    """A KeyboardInterrupt has ended the search: the best candidate is raced and written."""


@dataclass(frozen=True, slots=True)
class Racing:
    """The final race of a task begins: its leaders, the untuned kernel and NumPy, in turns."""

    task: str


@dataclass(frozen=True, slots=True)
class Emulating:
    """The best candidates of a task, which were only estimated, are checked under the emulator."""

    task: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The best kernel of a task so far was verified and written; the search continues.

    It was raced and has a `kernel.py`; early in a job of the service it is a library alone.
    """

    task: str
    kernel: Path  # the zip
    best_s: float
    timing: Timing = "race"  # "trial": a library, timed when it was checked


@dataclass(frozen=True, slots=True)
class ScorePart:
    """A part of the difference between two scores of the cost model.

    `winner` and `runner_up` are the values of the feature, summed over the stores of each program;
    `part` is the contribution to the score of the winner minus that to the score of the runner-up,
    `share` its absolute value over the sum of the absolute values of all parts.
    """

    name: str
    winner: float
    runner_up: float
    part: float
    share: float

    def __str__(self) -> str:
        values = f" {self.winner:.4g} against {self.runner_up:.4g}"
        values = values if self.winner != self.runner_up else ""
        side = "for" if self.part > 0 else "against"
        return f"{self.name}{values} ({100 * self.share:.0f} % of the difference, {side} it)"


@dataclass(frozen=True, slots=True)
class Contrast:
    """The delivered candidate against the best other one.

    Times of trials in seconds, None if a candidate was not timed; traits that only one of both has;
    parts of the difference of their scores, none if the cost model has not learned.
    """

    winner_s: float | None
    runner_up_s: float | None
    only_winner: tuple[str, ...]
    only_runner_up: tuple[str, ...]
    differences: tuple[ScorePart, ...] = ()

    def __str__(self) -> str:
        times = (
            "not timed" if one is None else duration(one)
            for one in (self.winner_s, self.runner_up_s)
        )  # fmt: skip
        clauses = [f"{' against '.join(times)} in trials"]
        clauses += [f"it alone has {', '.join(self.only_winner)}"] if self.only_winner else []
        other = ", ".join(self.only_runner_up)
        clauses += [f"the runner-up alone has {other}"] if other else []
        parts = ", ".join(map(str, self.differences))
        clauses += [f"the scores of the cost model differ by {parts}"] if parts else []
        return "; ".join(clauses)


@dataclass(frozen=True, slots=True)
class SizeResult:
    """A call of a delivered kernel at single sizes of its dims, in seconds.

    `numpy_s` is NumPy's time of the same call; None if NumPy did not race.
    """

    sizes: Mapping[str, int]  # by dim
    kernel_for: str  # the range whose kernel the call runs, as in `ranges`: "M in 2..8"
    best_s: float
    numpy_s: float | None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one task.

    `best_s` is None if no candidate survived, and if trials are `estimated`; `baseline_s` is the
    faster of the untuned kernel and NumPy, measured in the same interleaved run as `best_s`. `rate`
    is None without a race, and if it exceeds the peak of the machine. `compile_s` is the time to
    import `kernel.py` and to compile it at its first call, on the tuning machine, or to make the
    library without `kernel.py`; it is a part of no latency. `library` is the delivered library if
    the task was not raced, to be linked with others. `verdict` is None without a race.
    """

    name: str
    key: str
    best_s: float | None
    baseline_s: float | None
    trials: int
    seconds: float
    verified: bool
    winner: Literal["tuned", "baseline", "own"] | None
    kernel: Path | None  # the zip
    flop: int = 0
    naive_s: float | None = None
    numpy_s: float | None = None
    numpy_note: str = ""  # reason why NumPy's evaluation left the race; "": it did not
    own: tuple[RacedOwn, ...] = ()  # kernels of the user's own in the final race
    peers: tuple[RacedOwn, ...] = ()  # installed libraries in the final race, which never win
    failures: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)  # the first message of every kind
    suspects: tuple[Suspect, ...] = ()
    contrast: Contrast | None = None
    from_store: bool = False
    rate: Rate | None = None
    compile_s: float | None = None  # None: not known, as of a kernel for a GPU
    estimated: bool = False  # trials were estimates (ADR-0143): no time, no race, no rate
    estimate: Estimated | None = None  # estimate of the delivered kernel, if not timed
    same_as: str = ""  # the equal task that was tuned; trials, time and failures are counted there
    verdict: Judgment | None = None
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by dim; times are means
    weights: tuple[float, ...] = ()  # weights of these times; (): all are equal
    # Best trials of the kernels for ranges of sizes, in seconds, as {"M in 2..8": 1e-6}.
    ranges: Mapping[str, float] = field(default_factory=dict)
    by_size: tuple[SizeResult, ...] = ()  # after a race, if the kernel has dims
    library: Library | None = field(default=None, compare=False, repr=False)
    # Plan as text and row of the delivered candidate; None for the untuned kernel.
    candidate: tuple[str, tuple[int, ...]] | None = field(default=None, compare=False, repr=False)

    @property
    def timing(self) -> Timing | None:
        """The source of `best_s`; None without a time."""
        if self.best_s is None:
            return None
        return "trial" if self.verdict is None else "race"

    @property
    def copies(self) -> int:
        """The number of copies of the kernel that ran at once while it was timed (ADR-0166)."""
        return copies_of(self.key)

    @property
    def items_per_s(self) -> float | None:
        """The calls per second of all copies together; None if one call ran at a time."""
        return items_per_s(self.copies, self.best_s)


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task has its result and its zip; `Finished` repeats the results of all tasks.

    Zips that the tuning wrote for the task before, `FirstAnswer` and `Delivered`, are removed next.
    """

    result: TaskResult


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """The latency of a network: the sum of the times of its tasks by weight, in seconds.

    `best_s` and `baseline_s` are None if a task of the network has no such time; `target_s` is the
    latency asked for, None if there is none.
    """

    name: str
    best_s: float | None
    baseline_s: float | None
    target_s: float | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The end; always the last event."""

    results: tuple[TaskResult, ...]
    seconds: float
    stopped: Stopped
    networks: tuple[NetworkResult, ...] = ()  # those with a name


Event = (
    Started | Crowded | SlotNews | TooShort | NoTrials | Plugged | Derived | Seeded | FirstAnswer
    | BaselineTimed | Preflight | RoundDone | Improved | Delivered | Stopping | Racing | Emulating
    | TaskDone | Finished
)  # fmt: skip
