"""Jobs: requests and replies."""

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
    """Limits of the search, which ends at the first one reached."""


class JobRequest(OptionFields):  # type: ignore[misc]  # likewise
    """Request for a job: exactly one of `text` and `dags`, and the options of the tuning."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": MATMUL, "budget": {"trials": 64}}}
    )

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)] | None = Field(
        default=None, description="Tensor Comprehensions notation; several defs are several tasks."
    )
    dags: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_TASKS)] | None = Field(
        default=None, description="Dags in the JSON wire form."
    )
    bind: Annotated[dict[Name, Extent], Field(max_length=64)] = Field(
        default_factory=dict, description="Extents of the symbols of `text`."
    )
    budget: Budget = Field(default_factory=Budget)
    target: Annotated[str, Field(max_length=MAX_NAME)] = Field(
        default="",
        description="KIND or KIND:ARCH, such as cpu or cpu:znver4, or a digest from /v1/targets;"
        " default: any worker.",
    )
    priority: Annotated[int, Whole, Field(ge=-100, le=100)] = Field(
        default=0, description="Jobs of higher priority run first."
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
    """Progress and result of one task; times in seconds."""

    name: str
    weight: float
    trials: int = 0
    sketches: int | None = None
    best_s: float | None = Field(
        default=None,
        description="Measured time: of the fastest trial so far, then of the final race.",
    )
    baseline_s: float | None = Field(
        default=None, description="The faster of the untuned kernel and NumPy, in the final race."
    )
    naive_s: float | None = None
    numpy_s: float | None = None
    numpy_note: str = Field(default="", description="Reason why NumPy is not part of the race.")
    same_as: str = Field(
        default="", description="The equal task that is tuned for both and counts the trials."
    )
    winner: Literal["tuned", "baseline"] | None = None
    verified: bool = False
    flop: int | None = Field(
        default=None, description="Operations of the definition; a kernel may need fewer."
    )
    flop_per_s: float | None = Field(
        default=None,
        description="`flop` / `best_s`; null if the rate of executed operations would exceed the"
        " peak of the machine.",
    )
    effective: bool = Field(
        default=False, description="Whether `flop` differs from the number of executed operations."
    )
    failures: dict[str, int] = Field(default_factory=dict, description="Failed trials by kind.")
    kernel: Annotated[str, Field(pattern=DIGEST_PATTERN)] | None = Field(
        default=None, description="sha256 of the package; of the best so far while the job runs."
    )
    final: bool = Field(default=False, description="Whether the kernel won the final race.")


class JobReply(Wire):
    """State, progress and results of a job; times are in seconds, dates since the epoch."""

    id: str
    state: State
    reason: str = Field(description="Reason of a failed, paused or early ended job.")
    waiting_for: str | None = Field(
        description="Missing requirement of a queued job, such as `no live worker for cpu`; null"
        " if a worker can claim it."
    )
    priority: int
    budget: Budget
    cores: int
    target: str = Field(description="As requested; the digest of its worker after the first claim.")
    created_s: float
    updated_s: float
    started_s: float | None
    ended_s: float | None
    trials: int = Field(description="Measured trials.")
    seconds: float = Field(description="Tuning time so far, of all leases together.")
    best_s: float | None = Field(description="Weighted sum of the task times, once all have one.")
    attempts: int = Field(description="Number of claims.")
    events: int = Field(description="Number of the last event.")
    memory_bytes: int = Field(description="Bytes of all tensors of the largest task.")
    tasks: list[TaskReply]


class JobSubmitted(JobReply):
    """The job of a submission."""

    how: How = Field(
        description="created: a new job. repeated: the job of an earlier request with this"
        " Idempotency-Key. coalesced: a queued or running job of the same workload. answered: a"
        " succeeded job of the same workload."
    )


class JobSummary(Wire):
    """One row of the list of jobs."""

    id: str
    state: State
    priority: int
    tasks: list[str] = Field(description="Names of the first tasks.")
    task_count: int
    created_s: float
    updated_s: float
    trials: int
    trials_asked: int
    best_s: float | None


class JobPage(Wire):
    """One page of jobs, newest first."""

    jobs: list[JobSummary]
    next: int | None = Field(description="`before` of the next page; null at the end.")
