"""Explanations of a job: derivation of its sketches, and failures of its trials."""

from pydantic import Field

from ansorpy.events import Timing
from ansorpy.server.schemas.base import Wire


class RuleVerdict(Wire):
    """Verdict of one rule at one visit."""

    rule: str
    verdict: str
    why: str = Field(description="The axis or access that decided the verdict.")
    successors: list[int] = Field(description="Numbers of the resulting visits (or sketches).")


class VisitReply(Wire):
    """One visit of the derivation to a stage; a visit beyond the last stage is a sketch."""

    number: int
    stage: str
    sketch: int | None
    verdicts: list[RuleVerdict]


class SuspectReply(Wire):
    """A trait that is over-represented among the failures of a task: a hint, no proof."""

    task: str
    trait: str = Field(description="A rule with its stage, a choice, or a size with its value.")
    both: int = Field(description="Failures that have the trait.")
    failed: int = Field(description="Failures of this kind.")
    having: int = Field(description="Trials that have the trait.")
    trials: int = Field(description="Trials that the search of the task knows.")
    p: float = Field(description="p-value by Fisher's exact test, one-sided.")
    text: str


class FailureReply(Wire):
    """Failed trials of one kind."""

    kind: str
    count: int
    examples: list[str] = Field(description="At most three, shortened.")
    next_step: str
    suspect: SuspectReply | None = Field(
        default=None, description="The most significant one of all tasks; null if none is."
    )


class DifferenceReply(Wire):
    """A part of the difference between two scores of the cost model."""

    name: str = Field(description="A feature, `number of stores` or `analytic model`.")
    winner: float = Field(description="Value of the feature, summed over the stores.")
    runner_up: float
    part: float = Field(description="Above 0: it speaks for the winner.")
    share: float = Field(description="Absolute value over the sum of those of all parts.")


class ContrastReply(Wire):
    """The delivered candidate against the best other one."""

    winner_s: float | None = Field(description="Time of its trial.")
    runner_up_s: float | None
    only_winner: list[str] = Field(description="Rules, choices and sizes that it alone has.")
    only_runner_up: list[str]
    differences: list[DifferenceReply]
    text: str


class ExplainReply(Wire):
    """One page of the derivation of a task, and the failures of the job."""

    job: str
    task: str
    tasks: list[str] = Field(description="All values of `task`.")
    target_known: bool = Field(description="False: derived for a machine with default features.")
    sketches: int
    visits: list[VisitReply]
    visit_count: int
    next: int | None = Field(description="`after` of the next page; null at the end.")
    trials: int
    best_s: float | None = Field(default=None, description="As of the task in the job.")
    timing: Timing | None = Field(default=None, description="The source of `best_s`.")
    failures: list[FailureReply]
    contrast: ContrastReply | None = Field(
        default=None, description="The winner against the runner-up, once the task has ended."
    )
