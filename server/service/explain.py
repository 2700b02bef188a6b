"""Explanations of a job: the derivation of its sketches, and its failures with advice."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias, get_args

from sqlalchemy import Engine

from ansorpy.errors import RuleError, SpecError
from ansorpy.events import Contrast, ScorePart, Suspect
from ansorpy.measure.outcome import FailureKind
from ansorpy.server.db.engine import reading
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.errors import NotFoundError
from ansorpy.server.schemas.explain import (
    ContrastReply,
    ExplainReply,
    FailureReply,
    RuleVerdict,
    SuspectReply,
    VisitReply,
)
from ansorpy.server.service.serializers import asked, task_latencies
from ansorpy.sketch import Derivation, Visit, derive
from ansorpy.state.rule import Rule
from ansorpy.target import CpuTarget, Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.options.plugins import SPACES
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.identity import rules_name

NO_TASK: Final = "cannot find this task because the job has none of this name; expected a task name"
OF_MODEL: Final = (
    "cannot explain this job because the Dags of a model's tasks are not stored; expected a job"
    " of text or of Dags"
)
MOST_DIFFERENCES: Final = 5  # rows about the runner-up
PAGE_BYTES: Final = 11_000  # size of the visits in one reply
EXAMPLE_CHARS: Final = 300
WHY_CHARS: Final = 300
SKETCHES: Final = 512  # largest derivation that is shown
DERIVE_S: Final = 5.0  # processor time of a derivation that is shown; 250 sketches take some 3 s
DERIVATIONS: Final = 8  # kept, because their pages are requested one by one; each some MB
REFUSALS: Final = 1024  # kept, because each may take DERIVE_S
NEXT_STEPS: Final[Mapping[str, str]] = {
    "build": "A bug in the code generator: report the message. The search continues without it.",
    "build-timeout": "The kernel is too large to compile in time: use fewer nodes per task.",
    "load": "The machine code cannot be loaded: run `ansorpy doctor` on the worker.",
    "crash": "The kernel crashed in its child process: report the message, it is a bug.",
    "run-timeout": "Much slower than the best candidate, or hanging. A few are normal; if most"
    " trials fail like this, the workload exceeds its time limit: split it into several tasks.",
    "wrong": "The result exceeded its error bound and was discarded: report the message.",
    "out-of-bounds": "An access beyond its buffer was caught: report the message, it is a bug.",
    "spills": "The kernel needs more registers than a thread of the GPU has: a few are normal.",
    "occupancy": "No multiprocessor of the GPU can hold one block: a few are normal.",
    "memory": "The tensors did not fit: use smaller tasks, or a worker with more memory.",
}
assert set(NEXT_STEPS) == set(get_args(FailureKind))


@dataclass(frozen=True, slots=True)
class TaskExplanation:
    """The derivation of a task, and the failures of its job."""

    known: queries.JobDetails
    task: str
    tasks: tuple[str, ...]
    target_known: bool  # False: derived for a machine with default features
    derivation: Derivation | None
    refusal: str  # reason why there is no derivation
    failures: list[FailureReply]


Answer: TypeAlias = Derivation | str  # the reason why there is no derivation


@dataclass(frozen=True, slots=True)
class KeptAnswers:
    """The latest derivations and refusals by request; equal requests at once derive once."""

    _answers: OrderedDict[tuple[str, ...], Answer] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: tuple[str, ...], derived: Callable[[], Answer]) -> Answer:
        """Return the answer to a request, derived unless it is kept."""
        with self._lock:
            if key not in self._answers:
                self._answers[key] = derived()
                for kind, most in ((Derivation, DERIVATIONS), (str, REFUSALS)):
                    of_kind = [k for k, one in self._answers.items() if isinstance(one, kind)]
                    for oldest in of_kind[:-most]:
                        del self._answers[oldest]
            self._answers.move_to_end(key)
            return self._answers[key]


@dataclass(frozen=True, slots=True)
class ExplainService:
    """Use cases of the explanations."""

    engine: Engine
    rules_dir: Path | None = None
    kept: KeptAnswers = field(default_factory=KeptAnswers)

    def look(self, tenant_id: int, job_id: str, task: str | None) -> TaskExplanation:
        """Return the explanation of a task (default: the first one).

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            known = queries.explain(tx, tenant_id, job_id)
        tasks = tuple(dag.name for dag in known.submission.dags)
        if not tasks:
            raise NotFoundError(OF_MODEL)
        name = tasks[0] if task is None else task
        if name not in tasks:
            raise NotFoundError(NO_TASK)
        cores = known.submission.cores
        target = target_of(known.target, cores)
        found = self._answer(known, tasks.index(name), target or CpuTarget(cores=cores))
        derivation, refusal = (None, found) if isinstance(found, str) else (found, "")
        failures = failures_of(known)
        return TaskExplanation(
            known, name, tasks, target is not None, derivation, refusal, failures
        )

    def _answer(self, known: queries.JobDetails, number: int, target: Target) -> Answer:
        """Return the derivation of a task, or the reason why there is none."""
        submission = known.submission
        if submission.space != SPACES.default:
            return (
                "cannot show the derivation because a space generator of another package makes the"
                f" sketches; expected a job with space {SPACES.default}"
            )
        try:
            kind, allow, without = target.kind, submission.allow, submission.without
            rules = find_rules(kind, allow, without, self.rules_dir)
        except SpecError as error:
            return str(error)
        dag = submission.dags[number]
        key = (known.job.request_sha256, dag.name, repr(target), rules_name(kind, rules))
        return self.kept.get(key, partial(derived, dag, target, rules))

    def meanings(self, look: TaskExplanation) -> dict[str, str]:
        """Return the first line of the documentation of each rule of a job by its name."""
        submission, kind = look.known.submission, look.known.target.get("target", {}).get("kind")
        with suppress(SpecError):
            rules = find_rules(kind or "cpu", submission.allow, submission.without, self.rules_dir)
            return {type(one).__name__: first_line(type(one).__doc__ or "") for one in rules}
        return {}

    def read(self, tenant_id: int, job_id: str, task: str | None, after: int) -> ExplainReply:
        """Return a page of the derivation of a task (default: the first one).

        Raises:
            NotFoundError: the job or the task does not exist.
            SpecError: the derivation is too large, or a rule fails.
        """
        look = self.look(tenant_id, job_id, task)
        if look.derivation is None:
            raise SpecError(look.refusal)
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
            trials=look.known.job.trials_done,
            **task_latencies(look.known.job, asked(look.known.job))[look.task].as_fact(),
            failures=look.failures,
            contrast=contrast_of(look.known.job.results, look.task),
        )


def failures_of(known: queries.JobDetails) -> list[FailureReply]:
    """Return the failures of a job by kind, with shortened examples and advice."""
    suspects = suspects_of(known.job.progress)
    return [
        FailureReply(
            kind=failure.kind,
            count=failure.count,
            examples=[example[:EXAMPLE_CHARS] for example in failure.examples],
            next_step=NEXT_STEPS.get(failure.kind, "Report the messages."),
            suspect=suspects.get(failure.kind),
        )
        for failure in known.failures
    ]


def suspects_of(progress: str) -> dict[str, SuspectReply]:
    """Return the most significant suspect in the progress of a job, by kind of failure."""
    suspects: dict[str, SuspectReply] = {}
    for task, facts in json.loads(progress).items():
        for stored in facts.get("suspects", ()):
            told = Suspect(**stored)
            before = suspects.get(told.kind)
            if before is None or told.p < before.p:
                rest = {name: value for name, value in stored.items() if name != "kind"}
                suspects[told.kind] = SuspectReply(task=task, text=str(told), **rest)
    return suspects


def contrast_of(results: str, task: str) -> ContrastReply | None:
    """Return the contrast in the results of a job, None if the task has none."""
    stored = _of_result(results, task, "contrast")
    if stored is None:
        return None
    parts = tuple(ScorePart(**one) for one in stored["differences"])
    return ContrastReply(**stored, text=str(Contrast(**{**stored, "differences": parts})))


def _of_result(results: str, task: str, name: str) -> Mapping[str, Any] | None:
    found: Sequence[Mapping[str, Any]] = json.loads(results)
    return next((one.get(name) for one in found if one["name"] == task), None)


def derived(dag: Dag, target: Target, rules: tuple[Rule, ...]) -> Answer:
    """Return the derivation of a task, or the reason why none is shown."""
    end_s = time.thread_time() + DERIVE_S

    def check() -> None:
        if time.thread_time() > end_s:
            raise SpecError("late")

    try:
        return derive(dag, target, rules, SKETCHES, check)
    except SpecError:
        return (
            "cannot show the derivation because it has too many sketches; expected at most"
            f" {SKETCHES}, derived within {DERIVE_S:.0f} s"
        )
    except RuleError as error:
        return str(error)


def page(derivation: Derivation, after: int) -> tuple[list[VisitReply], int | None]:
    """Return visits from number `after` on that fit a reply, and the number after them."""
    visits: list[VisitReply] = []
    size = 0
    for number in range(after, len(derivation.visits)):
        shown = visit_reply(number, derivation.visits[number])
        size += len(shown.model_dump_json())
        if visits and size > PAGE_BYTES:
            return visits, number
        visits.append(shown)
    return visits, None


def visit_reply(number: int, visit: Visit) -> VisitReply:
    """Return the wire model of a visit, with the verdict and reason of every rule."""
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


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A choice or a feature in which the winner and the runner-up differ; "" if one lacks it."""

    name: str
    winner: str
    runner_up: str
    share: float | None = None  # share of the difference of the scores, signed; None for a choice


def differences(contrast: ContrastReply) -> list[DifferenceRow]:
    """Return at most MOST_DIFFERENCES rows: choices and sizes first, then features."""
    own, other = map(_valued, (contrast.only_winner, contrast.only_runner_up))
    rows = [
        DifferenceRow(name, own.get(name, ""), other.get(name, "")) for name in {**own, **other}
    ]
    rows += [
        DifferenceRow(
            one.name, f"{one.winner:.4g}", f"{one.runner_up:.4g}",
            one.share if one.part > 0 else -one.share,
        )
        for one in contrast.differences
    ]  # fmt: skip
    return rows[:MOST_DIFFERENCES]


def _valued(traits: Sequence[str]) -> dict[str, str]:
    """Return the values of traits such as "C.i.1 = 8" by name; others have the value "yes"."""
    pairs = (trait.partition(" = ") for trait in traits)
    return {name: value or "yes" for name, _, value in pairs}


def first_line(doc: str) -> str:
    """Return the first line of a documentation, without marks of code."""
    return doc.split("\n")[0].replace("`", "")


def target_of(facts: Mapping[str, Any], cores: int) -> Target | None:
    """Return the target in the facts of a worker, or None if there is none."""
    told = facts.get("target")
    if not isinstance(told, Mapping):
        return None
    return Target.of_facts({**told, "cores": cores})
