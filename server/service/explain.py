"""Why a job came to what it came to: the derivation of its sketches, and its failures."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, get_args

from sqlalchemy import Engine

from ansorpy.errors import SpecError
from ansorpy.measure.outcome import FailureKind
from ansorpy.server.db.engine import reading
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.errors import NotFoundError
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.schemas.explain import ExplainReply, FailureReply, RuleVerdict, VisitReply
from ansorpy.sketch import Derivation, Visit, derive
from ansorpy.target import Target
from ansorpy.tuner.rules import find_rules

PAGE_BYTES: Final = 11_000  # of the visits of one reply
EXAMPLE_CHARS: Final = 300
WHY_CHARS: Final = 300
SKETCHES: Final = 512  # beyond which a derivation is not shown
NEXT_STEPS: Final[Mapping[str, str]] = {
    "build": "A bug of the code generator: report the message; the search goes on without it.",
    "build-timeout": "The kernel is too large to compile in time: fewer nodes per task help.",
    "load": "The machine code does not load: run `ansorpy doctor` on the worker.",
    "crash": "The kernel crashed in its child process: report the message, it is a bug.",
    "run-timeout": "Far slower than the best, or hanging: a few are normal; if most do, the"
    " workload is large for its time limit: split it into several tasks.",
    "wrong": "The result was outside its error bound and was thrown away: report the message.",
    "out-of-bounds": "An access left its buffer and was caught: report the message, it is a bug.",
    "memory": "The tensors did not fit: make the task smaller or give the worker more memory.",
}
assert set(NEXT_STEPS) == set(get_args(FailureKind))


@dataclass(frozen=True, slots=True)
class TaskExplanation:
    """What is known about a task of a job: its derivation, and what failed in the job."""

    known: queries.JobDetails
    task: str
    tasks: tuple[str, ...]
    target_known: bool  # False: derived for a machine with default features
    derivation: Derivation | None  # None: it has more than SKETCHES sketches
    failures: list[FailureReply]


@dataclass(frozen=True, slots=True)
class ExplainService:
    """What the routes of explanations call."""

    engine: Engine

    def look(self, tenant_id: int, job_id: str, task: str | None) -> TaskExplanation:
        """Return what is known about one task (the first unless given); UnknownError."""
        with reading(self.engine) as tx:
            known = queries.explain(tx, tenant_id, job_id)
        tasks = tuple(dag.name for dag in known.submission.dags)
        name = tasks[0] if task is None else task
        if name not in tasks:
            raise NotFoundError("the job has no such task")
        cores = known.submission.cores
        target = target_of(known.target, cores)
        derivation: Derivation | None = None
        with suppress(SpecError):
            derivation = derived(known.job.request, name, target or Target(cores=cores))
        failures = failures_of(known)
        return TaskExplanation(known, name, tasks, target is not None, derivation, failures)

    def read(self, tenant_id: int, job_id: str, task: str | None, after: int) -> ExplainReply:
        """Return a page of the derivation of one task (the first unless given).

        Raises:
            UnknownError: no such job, or no such task in it.
            SpecError: the derivation is too large to be shown.
        """
        look = self.look(tenant_id, job_id, task)
        if look.derivation is None:
            raise SpecError(f"the derivation has more than {SKETCHES} sketches")
        visits, following = page(look.derivation, after)
        return ExplainReply(
            job=job_id,
            task=look.task,
            tasks=list(look.tasks),
            target_known=look.target_known,
            sketches=len(look.derivation.sketches),
            visits=visits,
            visit_count=len(look.derivation.visits),
            next=following,
            trials=look.known.trials,
            failures=look.failures,
        )


def failures_of(known: queries.JobDetails) -> list[FailureReply]:
    """Return the failures of a job by kind, with shortened examples and what to do next."""
    return [
        FailureReply(
            kind=failure.kind,
            count=failure.count,
            examples=[example[:EXAMPLE_CHARS] for example in failure.examples],
            next_step=NEXT_STEPS.get(failure.kind, "Report the messages."),
        )
        for failure in known.failures
    ]


@lru_cache(maxsize=8)
def derived(request: str, task: str, target: Target) -> Derivation:
    """Return the derivation of a task of a stored request; kept, for its pages are asked in turn.

    Raises:
        SpecError: it has too many sketches.
    """
    submission = Submission.of(request)
    (dag,) = (dag for dag in submission.dags if dag.name == task)
    rules = find_rules(target.kind, submission.allow, submission.without)
    return derive(dag, target, rules, SKETCHES)


def page(derivation: Derivation, after: int) -> tuple[list[VisitReply], int | None]:
    """Return visits from number `after` on, as many as fit a reply, and where the next begin."""
    found: list[VisitReply] = []
    size = 0
    for number in range(after, len(derivation.visits)):
        shown = visit_reply(number, derivation.visits[number])
        size += len(shown.model_dump_json())
        if found and size > PAGE_BYTES:
            return found, number
        found.append(shown)
    return found, None


def visit_reply(number: int, visit: Visit) -> VisitReply:
    """Return one visit: every rule that was asked, its verdict, and what decided it."""
    return VisitReply(
        number=number,
        stage=visit.stage,
        sketch=visit.sketch,
        verdicts=[
            RuleVerdict(
                rule=trial.rule,
                verdict=trial.verdict.name.lower(),
                why=trial.answer.why[:WHY_CHARS],
                successors=list(trial.successors),
            )
            for trial in visit.trials
        ],
    )


def target_of(facts: Mapping[str, Any], cores: int) -> Target | None:
    """Return the target that the facts of a worker tell of; None where there are none."""
    told = facts.get("target")
    if not isinstance(told, Mapping):
        return None
    names = {field.name for field in fields(Target)}
    known = {name: _frozen(value) for name, value in told.items() if name in names}
    return Target(**{**known, "cores": cores})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
