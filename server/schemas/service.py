"""Information about the service: health, targets, rules, workers."""

from typing import Annotated, Any, Literal

from pydantic import Field

from ansorpy.server.schemas.base import Wire

Disk = Annotated[
    Literal["ok", "full"],
    Field(
        description="full: the disk has no room. Requests that store something, and workers, fail"
        " until it has; reading requests are answered."
    ),
]


class Health(Wire):
    """The process answers."""

    status: Literal["ok"] = "ok"
    disk: Disk


class Ready(Wire):
    """The service and its database answer."""

    status: Literal["ok"] = "ok"
    database: str = Field(description="Kind of the database.")
    workers: int = Field(description="Number of living workers; without one, jobs wait.")
    disk: Disk


class TargetReply(Wire):
    """The target of a living worker."""

    target: str = Field(description="Digest, to be used as the target of a job.")
    facts: dict[str, Any]


class Targets(Wire):
    """The targets of all living workers."""

    targets: list[TargetReply]


class CapabilityReply(Wire):
    """An instruction on products."""

    name: str
    computes: str
    available: bool = Field(description="Whether kernels for the target have it.")
    reason: str = Field(description="Why it is not available; empty if it is.")
    in_source: bool = Field(
        description="Whether kernel.py, the numba form, has it, too; that for a GPU has products"
        " of single numbers in its place."
    )


class TargetCapabilities(Wire):
    """The instructions of a target."""

    target: str = Field(description="Digest of a processor, or KIND:ARCH of a GPU.")
    name: str = Field(description="KIND:ARCH.")
    service: bool = Field(description="Whether it is the processor of the service itself.")
    workers: int = Field(description="Living workers that make kernels for it.")
    instructions: list[CapabilityReply]


class Capabilities(Wire):
    """The targets of the living workers, and the processor of the service."""

    targets: list[TargetCapabilities]


class RuleReply(Wire):
    """One derivation rule of a set, at its position."""

    name: str
    parameters: dict[str, str]
    summary: str
    text: str = Field(description="Documentation: condition, rewrite, source.")


class RuleSet(Wire):
    """The rules of one kind of target."""

    kind: str
    version: str = Field(description="Version of the set, as in records.")
    rules: list[RuleReply]


class RuleSets(Wire):
    """The registered rule sets."""

    sets: list[RuleSet]


class PluginReply(Wire):
    """A part of a tuning that a job may choose."""

    option: str = Field(
        description="The field of a job that chooses it; `store`: of commands only."
    )
    kind: str = Field(description="The kind in words: cost model, space generator, rule set ...")
    name: str
    package: str = Field(description="The package that offers it, with its version.")
    default: bool = Field(description="Whether jobs without a choice use it.")


class Plugins(Wire):
    """The parts that are installed beside the service."""

    plugins: list[PluginReply]


class WorkerReply(Wire):
    """A living worker."""

    id: str
    host: str
    pid: int
    state: str
    job: str | None = Field(description="The job of the worker, if it belongs to your tenant.")
    target: str
    facts: dict[str, Any]
    started_s: float
    heartbeat_s: float
    jobs_done: int


class Workers(Wire):
    """The living workers, oldest first."""

    workers: list[WorkerReply]


class SlotActivity(Wire):
    """The question that a slot answers."""

    job: str | None = Field(description="Its job, if it belongs to your tenant.")
    method: str = Field(description="`measure`, `race` and others.")
    trials: int = Field(description="Candidates of the question.")
    seconds: float = Field(description="Time since it began.")


class SlotReply(Wire):
    """A slot of a cluster: a set of cores that measures."""

    cluster: str
    name: str
    host: str
    address: str
    kind: str = Field(description="Digest of its target.")
    version: str = Field(description="Version of its ansorpy.")
    cores: list[int]
    state: Literal["idle", "busy", "resting", "left"] = Field(
        description="left: not in the reports of the last minute; forgotten after an hour."
    )
    until_s: float | None = Field(description="End of the rest.")
    busy: float = Field(description="Share of the last minute in which it worked.")
    waiting: int = Field(description="Questions that wait for it.")
    doing: SlotActivity | None
    drift: float | None = Field(
        description="Time of its reference kernel, relative to the first one."
    )
    trials: int = Field(description="Trials since it started.")
    up_s: float = Field(description="Time since it started.")
    seen_s: float = Field(description="Time of the last report that has it.")


class ClusterReply(Wire):
    """A cluster that a worker surveys."""

    address: str = Field(description="HOST:PORT of its head.")
    reason: str = Field(description="Why it cannot be reached; empty if it is.")
    seen_s: float = Field(description="Time of the last report.")


class RateReply(Wire):
    """The rate of trials of all slots, a mean of five minutes."""

    begin_s: float
    trials_per_minute: float
    busy_slots: float


class Machines(Wire):
    """The slots of clusters, and their rate of trials in the last six hours."""

    clusters: list[ClusterReply]
    slots: list[SlotReply]
    rates: list[RateReply]


class RecordsTaken(Wire):
    """The result of an import of records."""

    records: int = Field(description="Records in the body.")
    new: int = Field(description="Records that were not stored before.")
