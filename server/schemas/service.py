"""What the service tells about itself."""

from typing import Any, Literal

from pydantic import Field

from ansorpy.server.schemas.base import Wire


class Health(Wire):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(Wire):
    """The service can do its work."""

    status: Literal["ok"] = "ok"
    database: str = Field(description="The kind of database that answered.")
    workers: int = Field(description="Living workers; jobs wait where there is none.")


class TargetReply(Wire):
    """A machine that a living worker measures on."""

    target: str = Field(description="The digest that a job may ask for.")
    facts: dict[str, Any]


class Targets(Wire):
    """Every target that has a living worker."""

    targets: list[TargetReply]


class RuleReply(Wire):
    """One derivation rule of a set, in its order."""

    name: str
    parameters: dict[str, str]
    summary: str
    text: str = Field(description="Condition, rewrite and source, as documented.")


class RuleSet(Wire):
    """The rules of one kind of target."""

    kind: str
    version: str = Field(description="As records name it.")
    rules: list[RuleReply]


class RuleSets(Wire):
    """The registered rule sets."""

    sets: list[RuleSet]


class WorkerReply(Wire):
    """A living worker."""

    id: str
    host: str
    pid: int
    state: str
    job: str | None = Field(description="The job it has, where it is yours.")
    target: str
    facts: dict[str, Any]
    started_s: float
    heartbeat_s: float
    jobs_done: int


class Workers(Wire):
    """The living workers, oldest first."""

    workers: list[WorkerReply]
