"""Serializers: from database rows to wire models."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ansorpy.server.db.models import JobRow, KernelRow
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.schemas.job import Budget, JobReply, JobSummary, TaskReply
from ansorpy.server.service.limits import tensor_bytes
from ansorpy.te.analysis import flop_count
from ansorpy.tuner.twins import leaders, twin_names

SUMMARY_TASKS: Final = 3
MAX_REASON: Final = 1000  # characters
RESULT_FIELDS: Final = (
    "best_s", "baseline_s", "naive_s", "numpy_s", "numpy_note", "same_as", "winner", "verified",
    "flop", "flop_per_s", "effective",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """Facts of a request that its replies contain; computed once per request."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    flops: tuple[int, ...]
    same_as: tuple[str, ...]  # the first equal task; "" for the first one itself
    memory_bytes: int
    budget: Budget


@lru_cache(maxsize=1024)
def _asked(request: str) -> Asked:
    submission = Submission.of(request)
    twins = twin_names(leaders(submission.dags))
    return Asked(
        tuple(dag.name for dag in submission.dags),
        tuple(submission.weights.get(dag.name, 1.0) for dag in submission.dags),
        tuple(map(flop_count, submission.dags)),
        tuple(twins.get(dag.name, "") for dag in submission.dags),
        max(map(tensor_bytes, submission.dags)),
        Budget(**{name: getattr(submission, name) for name in Budget.model_fields}),
    )


def asked(row: JobRow) -> Asked:
    """Return the facts of the request of a job, cached."""
    return _asked(row.request)


def job_reply(row: JobRow, kernels: Sequence[KernelRow], waiting_for: str | None) -> JobReply:
    """Return the reply for a job with its delivered kernels."""
    facts = asked(row)
    progress = json.loads(row.progress)
    results = {result["name"]: result for result in json.loads(row.results)}
    delivered = {kernel.task: kernel for kernel in kernels}
    return JobReply(
        id=row.id,
        state=row.state,  # type: ignore[arg-type]  # the database holds no other
        reason=row.reason[:MAX_REASON],
        waiting_for=waiting_for,
        priority=row.priority,
        budget=facts.budget,
        cores=row.cores,
        target=row.target,
        created_s=row.created_s,
        updated_s=row.updated_s,
        started_s=row.started_s,
        ended_s=row.ended_s,
        trials=row.trials_done,
        seconds=row.seconds_done,
        best_s=row.best_s,
        attempts=row.attempts,
        events=row.events,
        memory_bytes=facts.memory_bytes,
        tasks=[
            task_reply(
                name,
                weight,
                {"flop": flop, **so_far(progress, name, same_as), **results.get(name, {})},
                delivered.get(name),
            )
            for name, weight, flop, same_as in zip(
                facts.names, facts.weights, facts.flops, facts.same_as, strict=True
            )
        ],
    )


def so_far(progress: Mapping[str, Any], name: str, same_as: str) -> Mapping[str, Any]:
    """Return the progress of a task; a duplicate task shows its leader's, with 0 trials."""
    if not same_as:
        known: Mapping[str, Any] = progress.get(name, {})
        return known
    return {**progress.get(same_as, {}), "trials": 0, "failures": {}, "same_as": same_as}


def task_reply(
    name: str, weight: float, known: Mapping[str, Any], kernel: KernelRow | None
) -> TaskReply:
    """Return the reply for a task, from its result, or else its progress.

    Before the final race, and in results of older versions, the number of executed operations is
    unknown; the rate is then marked as effective.
    """
    if "flop_per_s" not in known and known.get("best_s") and known.get("flop"):
        known = {**known, "flop_per_s": known["flop"] / known["best_s"], "effective": True}
    return TaskReply(
        name=name,
        weight=weight,
        trials=known.get("trials", 0),
        sketches=known.get("sketches"),
        failures=known.get("failures", {}),
        kernel=None if kernel is None else kernel.sha256,
        final=kernel is not None and kernel.final,
        **{field: known[field] for field in RESULT_FIELDS if field in known},
    )


def job_summary(row: JobRow) -> JobSummary:
    """Return the row of a job in the list."""
    names = asked(row).names
    return JobSummary(
        id=row.id,
        state=row.state,  # type: ignore[arg-type]
        priority=row.priority,
        tasks=list(names[:SUMMARY_TASKS]),
        task_count=len(names),
        created_s=row.created_s,
        updated_s=row.updated_s,
        trials=row.trials_done,
        trials_asked=row.trials,
        best_s=row.best_s,
    )
