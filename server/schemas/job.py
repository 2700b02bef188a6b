"""Jobs: what is asked, what is told."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from ansorpy.server.schemas.base import DIGEST_PATTERN, Name, Whole, Wire
from ansorpy.server.schemas.options import BudgetFields, OptionFields
from ansorpy.target import MAX_NAME
from ansorpy.tuner.option import definitions
from ansorpy.tuner.options import TuneOptions, options_of

MAX_TEXT = 64 * 1024
MAX_TASKS = 64
MATMUL = "def mm(float(64,64) A, float(64,64) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"

Extent = Annotated[int, Whole, Field(ge=1, le=2**31 - 1)]
State = Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]
How = Literal["created", "repeated", "coalesced", "answered"]


class Budget(BudgetFields):  # type: ignore[misc]  # its fields are made from the options
    """When the search ends: whichever of these comes first."""


class JobRequest(OptionFields):  # type: ignore[misc]  # likewise
    """What to tune (exactly one of `text` and `dags`), and how hard."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": MATMUL, "budget": {"trials": 64}}}
    )

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)] | None = Field(
        default=None, description="Tensor Comprehensions notation; several defs are several tasks."
    )
    dags: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_TASKS)] | None = Field(
        default=None, description="DAGs in the JSON wire form."
    )
    bind: Annotated[dict[Name, Extent], Field(max_length=64)] = Field(
        default_factory=dict, description="Extents of the symbols of `text`."
    )
    budget: Budget = Field(default_factory=Budget)
    target: Annotated[str, Field(max_length=MAX_NAME)] = Field(
        default="",
        description="KIND or KIND:ARCH, such as cpu or cpu:znver4, or a digest from /v1/targets;"
        " any worker's unless given.",
    )
    priority: Annotated[int, Whole, Field(ge=-100, le=100)] = Field(
        default=0, description="Higher ones run first."
    )

    def options(self) -> TuneOptions:
        """Return the options of the tuning."""
        return options_of(self.model_dump(include={"budget", *definitions(TuneOptions)}))

    @model_validator(mode="after")
    def _one_source(self) -> "JobRequest":
        if (self.text is None) == (self.dags is None):
            raise ValueError("exactly one of text and dags")
        return self


class TaskReply(Wire):
    """How far one task is, and what came out; times in seconds."""

    name: str
    weight: float
    trials: int = 0
    sketches: int | None = None
    best_s: float | None = Field(
        default=None,
        description="Measured: the fastest trial so far, then the time of the final race.",
    )
    baseline_s: float | None = Field(
        default=None, description="The faster of the untuned kernel and NumPy, in the final race."
    )
    naive_s: float | None = None
    numpy_s: float | None = None
    numpy_note: str = Field(default="", description="Why NumPy's evaluation left the race.")
    same_as: str = Field(
        default="", description="The equal task that is tuned for both; trials are counted there."
    )
    winner: Literal["tuned", "baseline"] | None = None
    verified: bool = False
    flop: int | None = Field(
        default=None, description="Operations of the definition, which a kernel may do without."
    )
    flop_per_s: float | None = Field(
        default=None,
        description="`flop` over `best_s`; null if the operations executed would be beyond the"
        " peak of the machine.",
    )
    effective: bool = Field(
        default=False, description="`flop_per_s` counts other operations than those executed."
    )
    failures: dict[str, int] = Field(default_factory=dict, description="Failed trials by kind.")
    kernel: Annotated[str, Field(pattern=DIGEST_PATTERN)] | None = Field(
        default=None, description="sha256 of the package, the best so far while the job runs."
    )
    final: bool = Field(default=False, description="Whether the kernel won the final race.")


class JobReply(Wire):
    """A job: its state, how far it is, and what came out. Times since the epoch end in `_s`."""

    id: str
    state: State
    reason: str = Field(description="Why it failed, paused or ended early.")
    waiting_for: str | None = Field(
        description="What a queued job lacks, such as `no live worker for cpu`; null if a worker"
        " may take it."
    )
    priority: int
    budget: Budget
    cores: int
    target: str = Field(description="As it was asked for; a digest once a worker has the job.")
    created_s: float
    updated_s: float
    started_s: float | None
    ended_s: float | None
    trials: int = Field(description="Trials done so far.")
    seconds: float = Field(description="Time worked so far, all leases together.")
    best_s: float | None = Field(description="Weighted latency of all tasks, once all have one.")
    attempts: int = Field(description="How many workers took it up.")
    events: int = Field(description="The number of its last event.")
    memory_bytes: int = Field(description="Of all tensors of its largest task.")
    tasks: list[TaskReply]


class JobSubmitted(JobReply):
    """The job that a submission came to."""

    how: How = Field(
        description="created: a new job. repeated: the one this Idempotency-Key made before."
        " coalesced: one that waits or runs for the same workload. answered: one that succeeded."
    )


class JobSummary(Wire):
    """One line of the list of jobs."""

    id: str
    state: State
    priority: int
    tasks: list[str] = Field(description="The first names.")
    task_count: int
    created_s: float
    updated_s: float
    trials: int
    trials_asked: int
    best_s: float | None


class JobPage(Wire):
    """Jobs, newest first."""

    jobs: list[JobSummary]
    next: int | None = Field(description="`before` of the next page; null at the end.")
