"""Queries and changes of jobs for the API; each is restricted to the jobs of one tenant.

Functions take a transaction (`ansorpy.server.db.engine.transaction`) and return rows. Times are
seconds since the epoch, from `ansorpy.server.db.engine.now`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal
from uuid import uuid4

from sqlalchemy import ColumnElement, Select, delete, func, or_, select, update
from sqlalchemy.orm import Session

from ansorpy.measure.outcome import Failed
from ansorpy.records import decode
from ansorpy.server.db.models import (
    TITLE_CHARS,
    BundleRow,
    IdempotencyRow,
    JobEventRow,
    JobRow,
    KernelRow,
    ModelRow,
    PackageRow,
    RecordRow,
    SearchRow,
    TenantRow,
    WorkerRow,
)
from ansorpy.server.jobs import models
from ansorpy.server.jobs.errors import KeyReusedError, NotFoundError, QuotaError, StateError
from ansorpy.server.jobs.events import add_state_event, read_events
from ansorpy.server.jobs.machines import digests_of
from ansorpy.server.jobs.reuse import newest_reusable
from ansorpy.server.jobs.states import ENDED, State, move
from ansorpy.server.jobs.submission import Submission
from ansorpy.target import GPU_NAMES, cuda_target
from ansorpy.tuner.tasks.trust import are_current

EXAMPLES: Final = 3  # messages per kind of failure
PACKAGES: Final = 500  # digests per statement; SQLite allows at least 999 parameters
RETRY_QUEUE_S: Final = 30  # Retry-After if the queue of a tenant is full

NO_JOB: Final = (
    "cannot find this job because no job of yours has this id; expected an id of /v1/jobs"
)

How = Literal["created", "repeated", "coalesced", "answered"]


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The job of a submission.

    created    a new job
    repeated   the job of an earlier request with the same Idempotency-Key
    coalesced  a queued or running job of the same workload with at least this budget
    answered   a succeeded job of the same workload with at least this budget
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
    """Queue a job, or return an existing job that makes it unnecessary.

    Raises:
        KeyReusedError: the key belongs to another request.
        QuotaError: the tenant has too many queued jobs.
    """
    # The lock serialises the submissions of a tenant, so that a repeated one finds the first.
    tenant = tx.get_one(TenantRow, tenant_id, with_for_update=True)
    digest = submission.sha256
    earlier = _job_of_key(tx, tenant_id, idempotency_key, digest)
    if earlier is not None:
        return SubmitResult(earlier, "repeated")
    result = None if submission.fresh else _find_reusable(tx, tenant_id, submission)
    if result is None:
        _check_queue(tx, tenant, max_queued)
        result = SubmitResult(_add_job(tx, tenant_id, submission, now_s), "created")
    _keep_key(tx, result.job, idempotency_key, digest, now_s)
    return result


def _job_of_key(tx: Session, tenant_id: int, key: str | None, digest: str) -> JobRow | None:
    """Return the job of an earlier request with a key, which has the same digest."""
    used = None if key is None else tx.get(IdempotencyRow, (tenant_id, key))
    if used is None:
        return None
    if used.request_sha256 != digest:
        raise KeyReusedError(
            "cannot use this Idempotency-Key because it belongs to another request;"
            " expected a new key"
        )
    return find(tx, tenant_id, used.job_id)


def _keep_key(tx: Session, job: JobRow, key: str | None, digest: str, now_s: float) -> None:
    if key is not None:
        tx.add(
            IdempotencyRow(
                tenant_id=job.tenant_id, key=key, request_sha256=digest, job_id=job.id,
                created_s=now_s,
            )
        )  # fmt: skip


def _check_queue(tx: Session, tenant: TenantRow, max_queued: int) -> None:
    """Raise QuotaError if a tenant, whose row is locked, cannot queue another job."""
    limit = max_queued if tenant.max_queued_jobs is None else tenant.max_queued_jobs
    if count(tx, tenant.id, "queued") >= limit:
        raise QuotaError(
            "cannot queue the job because of the quota of its tenant; expected at most"
            f" {limit} queued jobs",
            RETRY_QUEUE_S,
        )


def find(tx: Session, tenant_id: int, job_id: str, *, lock: bool = False) -> JobRow:
    """Return a job of the tenant.

    Raises:
        NotFoundError: the tenant has no such job.
    """
    query = select(JobRow).where(JobRow.id == job_id, JobRow.tenant_id == tenant_id)
    row = tx.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFoundError(NO_JOB)
    return row


def jobs_of_models(
    tx: Session, tenant_id: int, digests: Sequence[str], limit: int
) -> Sequence[JobRow]:
    """Return the newest jobs of some models, newest first."""
    return tx.scalars(newest_of_models(tenant_id, digests, limit)).all()


def newest_of_models(tenant_id: int, digests: Sequence[str], limit: int) -> Select[JobRow]:
    """Return the query of `jobs_of_models`."""
    query = select(JobRow).where(JobRow.tenant_id == tenant_id, JobRow.model.in_(digests))
    return query.order_by(JobRow.seq.desc()).limit(limit)


def list_jobs(
    tx: Session,
    tenant_id: int,
    *,
    state: State | None = None,
    before: int | None = None,
    limit: int = 50,
    prefix: str = "",
    word: str = "",
) -> tuple[Sequence[JobRow], int | None]:
    """Return a page of jobs, newest first, and `before` of the next page (None: last page).

    Args:
        before: position returned with the previous page.
        prefix: leading hex digits of the ids.
        word: part of the titles, or leading digits of the ids.
    """
    query = select(JobRow).where(JobRow.tenant_id == tenant_id)
    if state is not None:
        query = query.where(JobRow.state == state)
    if prefix:
        query = query.where(JobRow.id.between(prefix, prefix + "g"))  # ids are hex
    if word:
        query = query.where(has_word(word))
    if before is not None:
        query = query.where(JobRow.seq < before)
    rows = tx.scalars(query.order_by(JobRow.seq.desc()).limit(limit + 1)).all()
    page = rows[:limit]
    return page, page[-1].seq if len(rows) > limit else None


def has_word(word: str) -> ColumnElement[bool]:
    """Return the SQL condition that a job has a word in its title, or an id that begins so."""
    begins = JobRow.id.startswith(word.lower(), autoescape=True)
    return or_(JobRow.title.icontains(word, autoescape=True), begins)


def count(tx: Session, tenant_id: int, state: State) -> int:
    """Return the number of jobs of a tenant in a state."""
    query = select(func.count()).where(JobRow.tenant_id == tenant_id, JobRow.state == state)
    return tx.scalar(query) or 0


def cancel(tx: Session, tenant_id: int, job_id: str, now_s: float) -> JobRow:
    """Cancel a job; its delivered kernels stay.

    Raises:
        NotFoundError, StateError
    """
    return _set_state(tx, tenant_id, job_id, "cancelled", now_s)


def pause(tx: Session, tenant_id: int, job_id: str, now_s: float) -> JobRow:
    """Pause a job after its last stored round, until it is resumed.

    Raises:
        NotFoundError, StateError
    """
    return _set_state(tx, tenant_id, job_id, "paused", now_s, "by request")


def resume(
    tx: Session, tenant_id: int, job_id: str, now_s: float, max_queued: int = 1000
) -> JobRow:
    """Queue a paused job again; do nothing for a queued or running job.

    Raises:
        NotFoundError, StateError
        QuotaError: the tenant has too many queued jobs.
    """
    row = find(tx, tenant_id, job_id, lock=True)
    if row.state not in ("queued", "running"):
        if row.state == "paused":
            tenant = tx.get_one(TenantRow, tenant_id, with_for_update=True)
            _check_queue(tx, tenant, max_queued)
        move(row, "queued", now_s)
        add_state_event(tx, row, now_s)
    return row


def retry(
    tx: Session,
    tenant_id: int,
    job_id: str,
    now_s: float,
    *,
    idempotency_key: str | None = None,
    max_queued: int = 1000,
) -> JobRow:
    """Queue a new job of the request of a job that has ended; for a known key return its job.

    Raises:
        NotFoundError
        StateError: the job has not ended.
        KeyReusedError: the key belongs to another request.
        QuotaError: the tenant has too many queued jobs.
    """
    tenant = tx.get_one(TenantRow, tenant_id, with_for_update=True)
    row = find(tx, tenant_id, job_id)
    earlier = _job_of_key(tx, tenant_id, idempotency_key, row.request_sha256)
    if earlier is not None:
        return earlier
    if row.state not in ENDED:
        raise StateError(
            f"cannot run the job again because it is {row.state}; expected a job that has ended"
        )
    submission = Submission.of(row.request)
    if submission.model is not None and not submission.model.graph:
        models.find(tx, tenant_id, submission.model.sha256)
    _check_queue(tx, tenant, max_queued)
    made = _add_job(tx, tenant_id, submission, now_s)
    _keep_key(tx, made, idempotency_key, row.request_sha256, now_s)
    return made


def remove(tx: Session, tenant_id: int, job_id: str, now_s: float) -> list[str]:
    """Delete a job with its events, kernels and bundles; cancel it first if it has not ended.

    Its records stay: they start later searches of the same tasks.

    Returns:
        The digests of its bundles, whose files have perhaps no owner any more.

    Raises:
        NotFoundError
    """
    row = find(tx, tenant_id, job_id, lock=True)
    if row.state not in ENDED:
        move(row, "cancelled", now_s)  # ends the lease, so that its worker stores nothing more
        tx.flush()
    bundles = list(tx.scalars(select(BundleRow.sha256).where(BundleRow.job_id == job_id)))
    mine = select(KernelRow.sha256).where(KernelRow.job_id == job_id)
    packages = list(tx.scalars(mine))
    tx.execute(update(RecordRow).where(RecordRow.job_id == job_id).values(job_id=None))
    for kind in (KernelRow, BundleRow, SearchRow, JobEventRow, IdempotencyRow):
        tx.execute(delete(kind).where(kind.job_id == job_id))
    used = select(KernelRow.seq).where(KernelRow.sha256 == PackageRow.sha256).exists()
    for begin in range(0, len(packages), PACKAGES):
        some = packages[begin : begin + PACKAGES]
        tx.execute(delete(PackageRow).where(PackageRow.sha256.in_(some), ~used))
    tx.delete(row)
    return bundles


def events_after(
    tx: Session, tenant_id: int, job_id: str, seq: int, limit: int = 500
) -> Sequence[JobEventRow]:
    """Return the events of a job after number `seq`, in order.

    Raises:
        NotFoundError
    """
    return read_events(tx, find(tx, tenant_id, job_id).id, seq, limit)


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Number of failed trials of one kind, with the first messages."""

    kind: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job with its submission and failures, for explanations.

    The derivation of the sketches is not stored: `ansorpy.sketch.derive` repeats it from
    `submission.dags` in milliseconds.
    """

    job: JobRow
    submission: Submission
    failures: tuple[FailureCount, ...] = ()
    trials: int = 0  # measured so far; the pages tell failures as a share of them
    target: Mapping[str, Any] = field(default_factory=dict)  # facts of a worker of the job's target


def explain(tx: Session, tenant_id: int, job_id: str) -> JobDetails:
    """Return a job with its submission and its failures by kind.

    Raises:
        NotFoundError
    """
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
    return JobDetails(
        job, _submission(job.request), failures, job.trials_done, _facts_of_target(tx, job)
    )


_submission = lru_cache(maxsize=8)(Submission.of)  # the pages of a job are requested one by one


def _facts_of_target(tx: Session, job: JobRow) -> Mapping[str, Any]:
    """Return the facts of a worker of the job's target, or of the GPU that it names."""
    if job.target in GPU_NAMES:
        return {"target": cuda_target(job.target.partition(":")[2]).facts()}
    query = select(WorkerRow.facts).where(WorkerRow.target == job.target).limit(1)
    facts: Mapping[str, Any] = json.loads(tx.scalar(query) or "{}")
    return facts


def kernels_of(tx: Session, tenant_id: int, job_id: str) -> Sequence[KernelRow]:
    """Return the newest kernel of every task that has one.

    Raises:
        NotFoundError
    """
    job = find(tx, tenant_id, job_id)
    newest = (
        select(func.max(KernelRow.seq)).where(KernelRow.job_id == job.id).group_by(KernelRow.task)
    )
    query = select(KernelRow).where(KernelRow.seq.in_(newest)).order_by(KernelRow.task)
    return tx.scalars(query).all()


def bundle_of(tx: Session, tenant_id: int, job_id: str) -> BundleRow | None:
    """Return the newest bundle of a job, None if there is none.

    Raises:
        NotFoundError
    """
    job = find(tx, tenant_id, job_id)
    query = select(BundleRow).where(BundleRow.job_id == job.id)
    return tx.scalar(query.order_by(BundleRow.seq.desc()).limit(1))


def bundle(tx: Session, tenant_id: int, sha256: str) -> BundleRow:
    """Return a bundle that a job of this tenant delivered.

    Raises:
        NotFoundError
    """
    query = (
        select(BundleRow)
        .join(JobRow, JobRow.id == BundleRow.job_id)
        .where(BundleRow.sha256 == sha256, JobRow.tenant_id == tenant_id)
        .limit(1)
    )
    row = tx.scalar(query)
    if row is None:
        raise NotFoundError(
            "cannot find this bundle because no job of yours delivered it, or a newer one replaced"
            " it; expected a digest of a delivered bundle"
        )
    return row


def package(tx: Session, tenant_id: int, sha256: str) -> PackageRow:
    """Return a package that a job of this tenant delivered.

    The deferred column `content` is loaded on first access, within the transaction.

    Raises:
        NotFoundError
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
        raise NotFoundError(
            "cannot find this kernel because no job of yours delivered it; expected a digest of a"
            " delivered package"
        )
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
    """Return a job of the tenant that makes a submission unnecessary, or None."""
    # An unclaimed job without a target can end up on a worker of another target.
    targets = digests_of(tx, submission.target) if submission.target else ()
    for state, how in _REUSE:
        newest = newest_reusable(tenant_id, submission, state, targets).scalar_subquery()
        row = tx.scalar(select(JobRow).where(JobRow.seq == newest))
        if row is not None and (how != "answered" or _is_current(tx, row, submission)):
            return SubmitResult(row, how)
    return None


def _is_current(tx: Session, row: JobRow, submission: Submission) -> bool:
    """Return whether this installation has the versions that made the kernels of a job."""
    query = (
        select(KernelRow.task, PackageRow.manifest)
        .join(KernelRow, KernelRow.sha256 == PackageRow.sha256)
        .where(KernelRow.job_id == row.id, KernelRow.final)
    )
    dags = {dag.name: dag for dag in submission.dags}
    bundles = select(BundleRow.versions).where(BundleRow.job_id == row.id, BundleRow.final)
    return all(
        are_current(json.loads(text).get("versions", {}), dags.get(task))
        for task, text in tx.execute(query)
    ) and all(are_current(json.loads(text)) for text in tx.scalars(bundles))


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
        request=submission.document,
        request_sha256=submission.sha256,
        workload=submission.workload,
        target=submission.target,
        cores=submission.cores,
        model=None if submission.model is None else submission.model.sha256,
        title=_title(tx, tenant_id, submission),
        trials=submission.most_trials,
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


def _title(tx: Session, tenant_id: int, submission: Submission) -> str:
    """Return the names of the tasks, or the file name of the model, which may be ""."""
    if submission.model is None:
        return ", ".join(dag.name for dag in submission.dags)[:TITLE_CHARS]
    query = select(ModelRow.name).where(
        ModelRow.tenant_id == tenant_id, ModelRow.sha256 == submission.model.sha256
    )
    return tx.scalar(query) or ""


def _set_state(
    tx: Session, tenant_id: int, job_id: str, state: State, now_s: float, reason: str = ""
) -> JobRow:
    row = find(tx, tenant_id, job_id, lock=True)
    if row.state != state:  # the change is idempotent
        move(row, state, now_s, reason)
        add_state_event(tx, row, now_s)
    return row


def _examples(tx: Session, job_id: str, kind: str) -> tuple[str, ...]:
    query = (
        select(RecordRow.body)
        .where(RecordRow.job_id == job_id, RecordRow.failure == kind)
        # By the round first: for the order of `seq` alone PostgreSQL reads the whole table.
        .order_by(RecordRow.round, RecordRow.seq)
        .limit(EXAMPLES)
    )
    outcomes = [decode(body).outcome for body in tx.scalars(query)]
    return tuple(outcome.message for outcome in outcomes if isinstance(outcome, Failed))
