"""Jobs: requests and replies."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ansorpy.events import Timing
from ansorpy.model.options import model_definitions
from ansorpy.server.schemas.base import DIGEST_PATTERN, Digest, Whole, Wire
from ansorpy.server.schemas.model import Bindings, Extents
from ansorpy.server.schemas.options import BudgetFields, OptionFields
from ansorpy.target import MAX_NAME
from ansorpy.tuner.options.option import definitions
from ansorpy.tuner.options.tune_options import TuneOptions, options_of

MAX_TEXT = 64 * 1024
MAX_TASKS = 64
MATMUL = "def mm(float(64,64) A, float(64,64) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"

# Rules over several fields of a request: kind of mistake, and reason for people.
RULES: Final = {
    "no_source": "it has no computation",
    "several_sources": "it has several computations",
    "text_extents": "its values are the extents of a text",
    "needs_model": "it belongs to a model or a graph",
    "graph_extents": "the extents of a graph are numbers",
}

InputName = Annotated[str, Field(min_length=1, max_length=256)]
State = Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]
TaskStage = Literal["waiting", "answered", "searching", "done"]
How = Literal["created", "repeated", "coalesced", "answered"]


class Budget(BudgetFields):  # type: ignore[misc]  # its fields are made from the options
    """Limits of the search, which ends at the first one reached."""


class JobRequest(OptionFields):  # type: ignore[misc]  # likewise
    """Request for a job: one of `text`, `dags`, `model` and `graph`, and options of the tuning."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": MATMUL, "budget": {"trials": 64}}}
    )

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)] | None = Field(
        default=None, description="Tensor Comprehensions notation; several defs are several tasks."
    )
    dags: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_TASKS)] | None = Field(
        default=None, description="Dags in the JSON wire form."
    )
    model: Digest | None = Field(
        default=None, description="sha256 of an uploaded model; the job delivers one bundle."
    )
    graph: dict[str, Any] | None = Field(
        default=None,
        description="A model without weights (docs/graph.md); the job delivers one bundle without"
        " them.",
    )
    bind: Bindings = Field(
        default_factory=dict,
        description="Values of the symbols of `text`, positive integers; or of symbolic extents and"
        " scalar inputs of `model`. A range, such as 1..512, leaves the size to each call.",
    )
    shapes: Annotated[dict[InputName, Extents], Field(max_length=64)] = Field(
        default_factory=dict, description="Shapes of inputs of `model`, by name."
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

    def model_options(self) -> dict[str, Any]:
        """Return the options of models alone that differ from their default."""
        told = {**self.budget.model_dump(), **self.model_dump(include=set(model_definitions()))}
        known = model_definitions().items()
        return {name: told[name] for name, one in known if told[name] != one.default}

    @model_validator(mode="after")
    def _one_source(self) -> "JobRequest":
        count = sum(one is not None for one in (self.text, self.dags, self.model, self.graph))
        if count != 1:
            rule = "several_sources" if count else "no_source"
            raise _broken(rule, "", "exactly one of text, dags, model and graph")
        if self.model is not None or self.graph is not None:
            self._check_whole()
        else:
            self._check_tasks()
        return self

    def _check_tasks(self) -> None:
        """Refuse fields that only a model has, and extents that are no sizes."""
        numbers = [one for one in self.bind.values() if not isinstance(one, str)]
        if any(type(one) is not int or one < 1 for one in numbers):
            raise _broken("text_extents", "bind", "positive integers, or ranges such as 1..512")
        own = self.model_options()
        told = ["shapes"] if self.shapes else []
        told += [f"budget.{name}" if name in Budget.model_fields else name for name in own]
        if told:
            raise _broken("needs_model", told[0], f"a model or a graph with {', '.join(told)}")

    def _check_whole(self) -> None:
        """Refuse extents of a graph, which it determines itself."""
        if self.graph is not None and (self.bind or self.shapes):
            place = "bind" if self.bind else "shapes"
            raise _broken("graph_extents", place, "no bind and no shapes")


def _broken(rule: str, place: str, expected: str) -> PydanticCustomError:
    """Return the mistake of a request that breaks one of RULES."""
    return PydanticCustomError(rule, "{expected}", {"place": place, "expected": expected})


class PeerReply(Wire):
    """A library in a race; `seconds` per call, null with the reason in `note`."""

    name: str
    seconds: float | None = None
    note: str = ""
    alike: bool = Field(default=False, description="Its samples and ours overlap.")


class VerdictReply(Wire):
    """A result beside the libraries that its user would use instead; times in seconds."""

    sentence: str
    level: Literal["green", "amber", "none"] = Field(
        description="green: faster than all; amber: a library is faster, or the machine was busy;"
        " none: equal, or not compared."
    )
    ratio: float | None = Field(description="Time of the fastest library over ours.")
    ours_s: float
    peer: str | None = Field(description="The fastest library; null without a race.")
    peer_s: float | None
    peers: list[PeerReply]
    threads: int
    oracle: str = Field(description="Program that the outputs were checked against.")
    slowdown: float = Field(description="Of the machine during the race; 1 if it was quiet.")
    remedies: list[str] = Field(description="Steps that may make the result faster.")


class RangeReply(Wire):
    """Progress of the search for a range of the sizes of a dim."""

    name: str = Field(description="Its task in events, charts and records.")
    sizes: str = Field(description="Such as `N = 2..8`.")
    trials: int = 0
    sketches: int | None = None
    best_s: float | None = Field(
        default=None, description="Of the fastest trial, at sizes of this range."
    )
    failures: dict[str, int] = Field(default_factory=dict, description="Failed trials by kind.")


class SizeReply(Wire):
    """A call of the delivered kernel at single sizes of its dims."""

    sizes: dict[str, int] = Field(description="By dim.")
    kernel_for: str = Field(description="Range whose kernel the call runs, as in `N in 2..8`.")
    best_s: float
    numpy_s: float | None = Field(description="NumPy's time; null if it did not race.")


class TaskReply(Wire):
    """Progress and result of one task; times in seconds."""

    name: str
    weight: float
    dims: list[str] = Field(
        default_factory=list, description="Sizes that each call decides, such as `N in 1..512`."
    )
    ranges: list[RangeReply] = Field(
        default_factory=list,
        description="Ranges of a dim that are searched by themselves, whose kernels are joined at"
        " the end. `trials` and `failures` of the task are their sums.",
    )
    trials: int = 0
    sketches: int | None = Field(
        default=None, description="Null for a schedule and a template, and until they are derived."
    )
    best_s: float | None = Field(
        default=None,
        description="The latency of record: of the fastest trial so far; of an ended job the"
        " latency of the kernel that it delivered.",
    )
    timing: Timing | None = Field(
        default=None,
        description="The source of `best_s`. race: timed in turns with others, as delivered;"
        " trial: in the search, or as a library without a race. Null without a time.",
    )
    from_store: bool = Field(
        default=False, description="Answered from records of earlier jobs, without a trial."
    )
    baseline_s: float | None = Field(
        default=None,
        description="The faster of the untuned kernel and NumPy: measured before the first trial,"
        " then again in the final race.",
    )
    naive_s: float | None = None
    numpy_s: float | None = None
    numpy_note: str = Field(default="", description="Reason why NumPy is not part of the race.")
    verdict: VerdictReply | None = Field(default=None, description="Null until the final race.")
    compile_s: float | None = Field(
        default=None,
        description="Time of the compilation of the delivered kernel.py at its first call, or of"
        " a library without it; a part of no other time. Null if not known, as for a GPU.",
    )
    same_as: str = Field(
        default="", description="The equal task that is tuned for both and counts the trials."
    )
    winner: Literal["tuned", "baseline"] | None = None
    verified: bool = False
    estimated: bool = Field(
        default=False,
        description="Whether trials are estimates for a GPU that no worker has: no time, no race."
        " A verified kernel passed its checks under emulation.",
    )
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
    by_size: list[SizeReply] = Field(
        default_factory=list,
        description="After the final race of a kernel with dims: its times at sizes that represent"
        " each range. `best_s` is their mean, by weight.",
    )
    copies: int = Field(
        default=1,
        description="Copies of the kernel that run at once while it is timed: the cores of a job"
        " whose objective is throughput.",
    )
    items_per_s: float | None = Field(
        default=None,
        description="Calls per second of all copies together, the score of the objective"
        " throughput; `best_s` is the time of a call of each.",
    )
    failures: dict[str, int] = Field(default_factory=dict, description="Failed trials by kind.")
    kernel: Annotated[str, Field(pattern=DIGEST_PATTERN)] | None = Field(
        default=None, description="sha256 of the package; of the best so far while the job runs."
    )
    final: bool = Field(default=False, description="Whether the kernel won the final race.")


class EstimateReply(Wire):
    """The estimated latency of a model at one moment."""

    seconds: float = Field(description="Tuning time so far.")
    trials: int
    latency_s: float = Field(description="Sum of the best times of all parts.")


class ModelTaskProgress(Wire):
    """The place of one task in a model; `tasks` of the job has the rest."""

    name: str
    title: str = Field(
        default="", description="Its operators and sizes, such as `Conv 3x3 64>64 @55x55 +ReLU`."
    )
    weight: float = Field(description="Calls of its kernel; 0 for an alternative not chosen.")
    state: TaskStage = Field(
        description="waiting, answered (its first answer has a time), searching or done."
    )
    best_s: float | None
    timing: Timing | None = Field(default=None, description="The source of `best_s`.")
    share: float | None = Field(description="Its share of the estimated latency.")


class BundleReply(Wire):
    """The newest bundle of a model."""

    sha256: Digest
    size_bytes: int
    latency_s: float = Field(
        description="Time of a call in its race, else the sum of the times of its kernels."
    )
    timing: Timing = Field(default="estimate", description="race or, for the sum, estimate.")
    error: float = Field(description="Largest difference to the reference, by largest element.")
    bound: float = Field(description="Largest difference that is accepted.")
    reference: str = Field(description="The oracle, the inputs it got, and what was left out.")
    final: bool = Field(description="False: the search goes on.")


class ModelProgress(Wire):
    """Progress and result of a job that tunes a model."""

    sha256: Digest
    bind: dict[str, float | str] = Field(
        default_factory=dict, description="As requested; a range is a size that each call decides."
    )
    divided: bool = Field(description="Whether the tasks are known.")
    nodes_before: int = Field(default=0, description="Nodes of the file.")
    nodes: int = Field(default=0, description="Nodes after the passes over the graph.")
    passes: dict[str, int] = Field(default_factory=dict, description="Sites of each pass.")
    parts: int = Field(default=0, description="Calls of kernels.")
    hosted: list[str] = Field(
        default_factory=list, description="Operators of the nodes that NumPy computes."
    )
    trials: int | None = Field(default=None, description="Trials of all tasks, at most.")
    answered: int = Field(default=0, description="Tasks that have a time.")
    estimate_s: float | None = Field(
        default=None,
        description="Sum of the times of all kernels, once all tasks have a time; `best_s` of the"
        " job is the latency of record.",
    )
    history: list[EstimateReply] = Field(
        default_factory=list, description="Estimates in order; of many, some are left out."
    )
    untuned: int = Field(default=0, description="Tasks whose kernels are untuned for lack of time.")
    tasks: list[ModelTaskProgress] = Field(default_factory=list)
    bundle: BundleReply | None = None
    verdict: VerdictReply | None = Field(
        default=None, description="Of the last bundle, once the job has ended."
    )


class NetworkReply(Wire):
    """The latency of a network: the sum of the times of its tasks by weight, in seconds."""

    name: str
    best_s: float | None = Field(description="Null until each of its tasks has a time.")
    baseline_s: float | None = Field(description="Untuned or NumPy, once each task has a time.")
    target_s: float | None = Field(description="As requested.")


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
    best_s: float | None = Field(
        description="The latency of record: the weighted sum over the tasks, once all have a time."
        " Of a model the estimate of its search so far; once it has ended, of its newest bundle."
    )
    timing: Timing | None = Field(
        default=None,
        description="The source of `best_s`. race: each part, or the bundle, was raced; trial: not"
        " each one was; estimate: the sum of the kernels of a model.",
    )
    sum_of: str = Field(
        default="", description="Terms of `best_s` for people, such as `sum of 3 tasks by weight`."
    )
    estimated: bool = Field(
        default=False, description="Whether candidates are estimated, so that there are no times."
    )
    attempts: int = Field(description="Number of claims.")
    events: int = Field(description="Number of the last event.")
    memory_bytes: int = Field(description="Bytes of all tensors of the largest task.")
    cost_model: str = Field(description="As requested (`GET /v1/plugins`).")
    search: str = Field(description="The search strategy, as requested (`GET /v1/plugins`).")
    space: str = Field(description="The space generator, as requested (`GET /v1/plugins`).")
    measurer: str = Field(
        description="The measuring back end of the trials, as requested (`GET /v1/plugins`)."
    )
    model: ModelProgress | None = Field(default=None, description="Null unless it tunes a model.")
    tasks: list[TaskReply] = Field(description="Empty until a model is divided.")
    networks: list[NetworkReply] = Field(
        default_factory=list, description="The networks that `weights` names."
    )


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
    model: Digest | None = Field(
        default=None, description="sha256 of the model that it tunes, if any."
    )
    name: str = Field(default="", description="Name of the file of the model, if known.")
    created_s: float
    updated_s: float
    trials: int
    trials_asked: int
    best_s: float | None
    timing: Timing | None = Field(description="The source of `best_s`, as of the job.")
    estimated: bool = Field(default=False, description="As of the job.")


class JobPage(Wire):
    """One page of jobs, newest first."""

    jobs: list[JobSummary]
    next: int | None = Field(description="`before` of the next page; null at the end.")
