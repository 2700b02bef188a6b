"""The shapes on the wire: strict, bounded, nothing extra."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_TEXT = 64 * 1024

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
Extent = Annotated[int, Field(ge=1, le=2**31 - 1)]
Weight = Annotated[float, Field(gt=0, le=1e9)]


class Wire(BaseModel):
    """What all wire shapes share."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class JobRequest(Wire):
    """Body of POST /v1/jobs: what to tune (exactly one of `text` and `dags`), and how hard."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "text": "def mm(float(9,9) A, float(9,9) B) -> (C) {C(i,j) +=! A(i,k) * B(k,j)}",
                "trials": 64,
            }
        }
    )

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)] | None = Field(
        default=None, description="Tensor Comprehensions notation; several defs are several tasks."
    )
    dags: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="DAGs in the JSON wire form."
    )
    bind: Annotated[dict[Name, Extent], Field(max_length=64)] = Field(
        default_factory=dict, description="Extents of the symbols of `text`."
    )
    weights: Annotated[dict[Name, Weight], Field(max_length=64)] = Field(
        default_factory=dict, description="How often each task runs in the whole; 1 unless given."
    )
    cores: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="Threads of the kernel."
    )
    trials: Annotated[int, Field(ge=1, le=100_000)] = 64
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0

    @model_validator(mode="after")
    def _one_source(self) -> "JobRequest":
        if (self.text is None) == (self.dags is None):
            raise ValueError("exactly one of text and dags")
        return self


class TaskReply(Wire):
    """The result of one task; times in seconds."""

    name: str
    best_s: float | None
    baseline_s: float | None
    naive_s: float | None
    numpy_s: float | None
    trials: int
    seconds: float
    verified: bool
    winner: Literal["tuned", "baseline"] | None
    flop: int
    failures: dict[str, int]
    kernel: str | None = Field(description="Where the zip is served.")


class TaskProgress(Wire):
    """How far one task is."""

    trials: int = 0
    best_s: float | None = None
    sketches: int | None = None
    failures: dict[str, int] = Field(default_factory=dict)


class JobReply(Wire):
    """A job: its state, how far it is, and what came out."""

    id: str
    state: Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]
    created_s: float = Field(description="Seconds since the epoch.")
    attempt: int = Field(description="How many workers took it up.")
    progress: dict[str, TaskProgress]
    tasks: list[TaskReply]
    error: str | None


class Health(Wire):
    """How the service and its worker process are."""

    status: Literal["ok"]
    worker: str
    pid: int | None = Field(description="The worker process, while it runs.")


class Mistake(Wire):
    """One thing that is wrong with a request; never repeats the value that was sent."""

    place: str
    code: str


class Problem(Wire):
    """RFC 9457 problem details."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    errors: list[Mistake] = Field(default_factory=list)
