"""Why a job came to what it came to."""

from pydantic import Field

from ansorpy.server.schemas.base import Wire


class RuleVerdict(Wire):
    """One rule asked at one visit."""

    rule: str
    verdict: str
    why: str = Field(description="The axis or the access that decided it.")
    successors: list[int] = Field(description="Numbers of the visits (or sketches) it leads to.")


class VisitReply(Wire):
    """The derivation standing at a stage; past the last one it has found a sketch."""

    number: int
    stage: str
    sketch: int | None
    verdicts: list[RuleVerdict]


class FailureReply(Wire):
    """Trials that failed in one way."""

    kind: str
    count: int
    examples: list[str] = Field(description="At most three, shortened.")
    next_step: str


class ExplainReply(Wire):
    """The derivation of one task, page by page, and the failures of the job."""

    job: str
    task: str
    tasks: list[str] = Field(description="What `task` may be.")
    target_known: bool = Field(description="False: derived for a machine with default features.")
    sketches: int
    visits: list[VisitReply]
    visit_count: int
    next: int | None = Field(description="`after` of the next page; null at the end.")
    trials: int
    failures: list[FailureReply]
