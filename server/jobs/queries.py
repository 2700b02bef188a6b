"""What the API asks of jobs. Every function takes the tenant: what is not theirs is unknown.

A transaction comes in (`ansorpy.server.db.engine.transaction`), rows go out; times are seconds
since the epoch, from `ansorpy.server.db.engine.now`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from uuid import uuid4

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ansorpy.measure.outcome import Failed
from ansorpy.records import decode
from ansorpy.server.db.models import (
    IdempotencyRow,
    JobEventRow,
    JobRow,
    KernelRow,
    PackageRow,
    RecordRow,
    TenantRow,
    WorkerRow,
)
from ansorpy.server.jobs.errors import KeyReusedError, NotFoundError, QuotaError
from ansorpy.server.jobs.events import add_state_event, read_events
from ansorpy.server.jobs.machines import digests_of
from ansorpy.server.jobs.reuse import newest_reusable
from ansorpy.server.jobs.states import State, move
from ansorpy.server.jobs.submission import Submission
from ansorpy.tuner.trust import are_current

EXAMPLES: Final = 3  # failures of one kind that are told in full
RETRY_QUEUE_S: Final = 30

How = Literal["created", "repeated", "coalesced", "answered"]


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The job that a submission came to.

    created    a new one
    repeated   the one that the same Idempotency-Key made before
    coalesced  one that waits or runs, for the same workload with at least this budget
    answered   one that succeeded, likewise: its kernels are there
    """

    job: JobRow
    how: How


def submit(
    tx: Session,
    tenant_id: int,
    submission: Submission,
    now_s: float,
    *,
    idempotency_key: str | None = None,
    max_queued: int = 1000,
) -> SubmitResult:
    """Queue a job, or find the one that already does or did this.

    Raises:
        KeyReusedError: the key was used for another request.
        BusyError: the tenant has too many jobs waiting.
    """
    # The lock makes submissions of one tenant wait for one another: a repeated one finds the first.
    tenant = tx.get_one(TenantRow, tenant_id, with_for_update=True)
    digest = submission.sha256
    if idempotency_key is not None:
        used = tx.get(IdempotencyRow, (tenant_id, idempotency_key))
        if used is not None:
            if used.request_sha256 != digest:
                raise KeyReusedError("this Idempotency-Key was used for another request")
            return SubmitResult(find(tx, tenant_id, used.job_id), "repeated")
    found = None if submission.fresh else _find_reusable(tx, tenant_id, submission)
    if found is None:
        limit = max_queued if tenant.max_queued_jobs is None else tenant.max_queued_jobs
        if count(tx, tenant_id, "queued") >= limit:
            raise QuotaError(f"{limit} jobs wait already", RETRY_QUEUE_S)
        found = SubmitResult(_add_job(tx, tenant_id, submission, now_s), "created")
    if idempotency_key is not None:
        tx.add(
            IdempotencyRow(
                tenant_id=tenant_id, key=idempotency_key, request_sha256=digest,
                job_id=found.job.id, created_s=now_s,
            )
        )  # fmt: skip
    return found


def find(tx: Session, tenant_id: int, job_id: str, *, lock: bool = False) -> JobRow:
    """Return a job; UnknownError where there is none of this tenant."""
    query = select(JobRow).where(JobRow.id == job_id, JobRow.tenant_id == tenant_id)
    row = tx.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFoundError("no such job")
    return row


def list_jobs(
    tx: Session,
    tenant_id: int,
    *,
    state: State | None = None,
    before: int | None = None,
    limit: int = 50,
    prefix: str = "",
) -> tuple[Sequence[JobRow], int | None]:
    """Return a page of jobs, newest first, and where the next page begins (None: there is none).

    Args:
        before: what the page before returned.
        prefix: hex digits that the ids begin with.
    """
    query = select(JobRow).where(JobRow.tenant_id == tenant_id)
    if state is not None:
        query = query.where(JobRow.state == state)
    if prefix:
        query = query.where(JobRow.id.between(prefix, prefix + "g"))  # ids are hex
    if before is not None:
        query = query.where(JobRow.seq < before)
    rows = tx.scalars(query.order_by(JobRow.seq.desc()).limit(limit + 1)).all()
    page = rows[:limit]
    return page, page[-1].seq if len(rows) > limit else None


def count(tx: Session, tenant_id: int, state: State) -> int:
    """Return how many jobs of a tenant are in a state."""
    query = select(func.count()).where(JobRow.tenant_id == tenant_id, JobRow.state == state)
    return tx.scalar(query) or 0


def cancel(tx: Session, tenant_id: int, job_id: str, now_s: float) -> JobRow:
    """End a job for good; what it delivered so far stays.

    Raises:
        UnknownError, MoveError
    """
    return _set_state(tx, tenant_id, job_id, "cancelled", now_s)


def pause(tx: Session, tenant_id: int, job_id: str, now_s: float) -> JobRow:
    """Take a job from its worker, after its last stored round, until `resume`.

    Raises:
        UnknownError, MoveError
    """
    return _set_state(tx, tenant_id, job_id, "paused", now_s, "by request")


def resume(tx: Session, tenant_id: int, job_id: str, now_s: float) -> JobRow:
    """Queue a paused job again; one that waits or runs does so already.

    Raises:
        UnknownError, MoveError
    """
    row = find(tx, tenant_id, job_id, lock=True)
    if row.state not in ("queued", "running"):
        move(row, "queued", now_s)
        add_state_event(tx, row, now_s)
    return row


def events_after(
    tx: Session, tenant_id: int, job_id: str, seq: int, limit: int = 500
) -> Sequence[JobEventRow]:
    """Return the events of a job after number `seq`, in order; UnknownError."""
    return read_events(tx, find(tx, tenant_id, job_id).id, seq, limit)


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Trials that failed in one way, with the first messages."""

    kind: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobDetails:
    """What is known about why a job came to what it came to.

    The derivation of the sketches is not stored: `ansorpy.sketch.derive` makes it again from
    `submission.dags` in milliseconds.
    """

    job: JobRow
    submission: Submission
    failures: tuple[FailureCount, ...] = ()
    trials: int = 0
    target: Mapping[str, Any] = field(default_factory=dict)  # facts of a worker of that target


def explain(tx: Session, tenant_id: int, job_id: str) -> JobDetails:
    """Return the failures of a job by kind, and what it was asked; UnknownError."""
    job = find(tx, tenant_id, job_id)
    mine = RecordRow.job_id == job.id
    kinds = tx.execute(
        select(RecordRow.failure, func.count()).where(mine).group_by(RecordRow.failure)
    ).all()
    failures = tuple(
        FailureCount(kind, number, _examples(tx, job.id, kind))
        for kind, number in sorted(kinds, key=lambda pair: -pair[1])
        if kind is not None
    )
    facts = tx.scalar(select(WorkerRow.facts).where(WorkerRow.target == job.target).limit(1))
    return JobDetails(
        job, Submission.of(job.request), failures, job.trials_done, json.loads(facts or "{}")
    )


def kernels_of(tx: Session, tenant_id: int, job_id: str) -> Sequence[KernelRow]:
    """Return the kernel of every task that has one, the newest each; UnknownError."""
    job = find(tx, tenant_id, job_id)
    newest = (
        select(func.max(KernelRow.seq)).where(KernelRow.job_id == job.id).group_by(KernelRow.task)
    )
    query = select(KernelRow).where(KernelRow.seq.in_(newest)).order_by(KernelRow.task)
    return tx.scalars(query).all()


def package(tx: Session, tenant_id: int, sha256: str) -> PackageRow:
    """Return a package that a job of this tenant delivered; UnknownError.

    `content` is read from the database when it is first asked for, within the transaction.
    """
    query = (
        select(PackageRow)
        .join(KernelRow, KernelRow.sha256 == PackageRow.sha256)
        .join(JobRow, JobRow.id == KernelRow.job_id)
        .where(PackageRow.sha256 == sha256, JobRow.tenant_id == tenant_id)
        .limit(1)
    )
    row = tx.scalar(query)
    if row is None:
        raise NotFoundError("no such kernel")
    return row


def records_after(
    tx: Session, tenant_id: int, seq: int = 0, limit: int = 1000, job_id: str | None = None
) -> Sequence[RecordRow]:
    """Return records of a tenant after number `seq`, in order; `body` is their JSONL line."""
    query = select(RecordRow).where(RecordRow.tenant_id == tenant_id, RecordRow.seq > seq)
    if job_id is not None:
        query = query.where(RecordRow.job_id == find(tx, tenant_id, job_id).id)
    return tx.scalars(query.order_by(RecordRow.seq).limit(limit)).all()


def _find_reusable(tx: Session, tenant_id: int, submission: Submission) -> SubmitResult | None:
    """Return a job of the tenant that makes this one needless."""
    # A job for any target that no worker has taken yet may end up on another one.
    targets = digests_of(tx, submission.target) if submission.target else ()
    for state, how in _REUSE:
        newest = newest_reusable(tenant_id, submission, state, targets).scalar_subquery()
        row = tx.scalar(select(JobRow).where(JobRow.seq == newest))
        if row is not None and (how != "answered" or _is_current(tx, row)):
            return SubmitResult(row, how)
    return None


def _is_current(tx: Session, row: JobRow) -> bool:
    """Return whether this installation would make the kernels of a finished job as they are."""
    query = (
        select(PackageRow.manifest)
        .join(KernelRow, KernelRow.sha256 == PackageRow.sha256)
        .where(KernelRow.job_id == row.id, KernelRow.final)
    )
    return all(are_current(json.loads(text).get("versions", {})) for text in tx.scalars(query))


_REUSE: Final[tuple[tuple[State, How], ...]] = (
    ("succeeded", "answered"),
    ("running", "coalesced"),
    ("queued", "coalesced"),
)


def _add_job(tx: Session, tenant_id: int, submission: Submission, now_s: float) -> JobRow:
    row = JobRow(
        id=uuid4().hex,
        tenant_id=tenant_id,
        state="queued",
        priority=submission.priority,
        request=submission.document(),
        request_sha256=submission.sha256,
        workload=submission.workload,
        target=submission.target,
        cores=submission.cores,
        trials=submission.trials,
        seconds=submission.seconds,
        target_latency_s=submission.target_latency_s,
        stop_if_gain_below=submission.stop_if_gain_below,
        created_s=now_s,
        updated_s=now_s,
        events=0,
    )
    tx.add(row)
    tx.flush()
    add_state_event(tx, row, now_s)
    return row


def _set_state(
    tx: Session, tenant_id: int, job_id: str, state: State, now_s: float, reason: str = ""
) -> JobRow:
    row = find(tx, tenant_id, job_id, lock=True)
    if row.state != state:  # asked twice is asked once
        move(row, state, now_s, reason)
        add_state_event(tx, row, now_s)
    return row


def _examples(tx: Session, job_id: str, kind: str) -> tuple[str, ...]:
    query = (
        select(RecordRow.body)
        .where(RecordRow.job_id == job_id, RecordRow.failure == kind)
        .order_by(RecordRow.seq)
        .limit(EXAMPLES)
    )
    outcomes = [decode(body).outcome for body in tx.scalars(query)]
    return tuple(outcome.message for outcome in outcomes if isinstance(outcome, Failed))
