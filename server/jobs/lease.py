"""Leases of jobs: claim, extend, end and recover.

A claim has a fencing token. Expiry, cancel and pause increment the token of the job. Each write of
a worker locks the row of the job, compares the token, and extends the lease, in one transaction.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from ansorpy.server.db.models import JobRow, KernelRow, PackageRow, TenantRow
from ansorpy.server.jobs.claim_order import next_job
from ansorpy.server.jobs.events import add_event, add_state_event
from ansorpy.server.jobs.latency import Latency
from ansorpy.server.jobs.states import move, touch

NO_LIMIT: Final = 1 << 30  # stands for unlimited running jobs or cores
# Lease lengths from now to the end of a valid lease. More than 1 means that the clock was set back;
# the half covers corrections that a worker loop ignores (`ansorpy.server.worker.lease_clock`).
LONGEST: Final = 1.5
POISON: Final = (
    "poison: the worker was lost {lost} times without a stored round in between (last worker"
    " {owner}){note}"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A job leased to a worker, valid while `token` is the token of the job."""

    job_id: str
    tenant_id: int
    token: int
    owner: str
    request: str


def claim(
    tx: Session,
    owner: str,
    now_s: float,
    lease_s: float,
    *,
    target: str = "",
    names: Sequence[str] = (),
    estimates: Sequence[str] = (),
    cores: int | None = None,
    max_running: int | None = None,
) -> Claim | None:
    """Claim the first queued job that this worker can run, or return None.

    The order is: highest priority, then fewest running jobs of the tenant, then oldest.

    Args:
        target: digest of the worker's target; jobs for other targets do not match.
        names: further names of the target.
        estimates: names of GPUs that the worker estimates; their jobs keep that name.
        cores: cores of the worker; jobs of more threads do not match.
        max_running: running jobs of a tenant that has no limit of its own.
    """
    targets = tuple(dict.fromkeys(("", target, *names, *estimates)))
    most = NO_LIMIT if max_running is None else max_running
    row = _lock_next(tx, targets, NO_LIMIT if cores is None else cores, most)
    if row is None:
        return None
    move(row, "running", now_s)
    row.attempts += 1
    if row.target not in estimates:
        row.target = target or row.target
    row.started_s = now_s if row.started_s is None else row.started_s
    row.lease_owner, row.lease_token = owner, row.lease_token + 1
    _extend(row, now_s, lease_s)
    add_state_event(tx, row, now_s)
    return Claim(row.id, row.tenant_id, row.lease_token, owner, row.request)


def _lock_next(
    tx: Session, targets: tuple[str, ...], cores: int, max_running: int
) -> JobRow | None:
    """Lock the next job, skipping jobs that other workers have locked."""
    passed: tuple[int, ...] = ()
    while True:
        seq = tx.scalar(next_job(targets, cores, max_running, passed))
        if seq is None:
            return None
        query = select(JobRow).where(JobRow.seq == seq, JobRow.state == "queued")
        row = tx.scalar(query.with_for_update(skip_locked=True))
        if row is not None and _may_run(tx, row.tenant_id, max_running):
            return row
        passed = (*passed, seq)


def _may_run(tx: Session, tenant_id: int, max_running: int) -> bool:
    """Return whether a tenant may run another job.

    Claims of other workers that `next_job` did not see are counted here: the row of a tenant with
    a limit is locked until the claim is stored.
    """
    limit = func.coalesce(TenantRow.max_running_jobs, max_running)
    query = select(limit).where(TenantRow.id == tenant_id, limit != NO_LIMIT)
    most = tx.scalar(query.with_for_update())
    running = select(func.count()).where(JobRow.tenant_id == tenant_id, JobRow.state == "running")
    return most is None or (tx.scalar(running) or 0) < most


def lock_leased(tx: Session, claimed: Claim, now_s: float, lease_s: float) -> JobRow | None:
    """Lock the job and extend its lease; return None if the claim is no longer valid.

    Every write of a worker begins with this call, in the same transaction.
    """
    query = select(JobRow).where(
        JobRow.id == claimed.job_id, JobRow.lease_token == claimed.token, JobRow.state == "running"
    )
    row = tx.scalar(query.with_for_update())
    if row is not None:
        _extend(row, now_s, lease_s)
    return row


def _extend(row: JobRow, now_s: float, lease_s: float) -> None:
    row.lease_until_s, row.lease_s = now_s + lease_s, lease_s


def store_progress(row: JobRow, progress: Mapping[str, Any], now_s: float) -> None:
    """Store the progress of the tasks of a leased job."""
    row.progress = json.dumps(progress)
    row.trials_done = sum(facts.get("trials", 0) for facts in progress.values())
    touch(row, now_s)


def add_kernel(
    tx: Session,
    row: JobRow,
    task: str,
    package: PackageRow,
    latency: Latency,
    final: bool,
    now_s: float,
    whole_s: float | None,
) -> None:
    """Store a kernel of a leased job as the newest of its task, also if it was stored before.

    Args:
        whole_s: latency of the job with its newest kernels.
    """
    newest = tx.scalar(
        select(KernelRow)
        .where(KernelRow.job_id == row.id, KernelRow.task == task)
        .order_by(KernelRow.seq.desc())
        .limit(1)
    )
    if newest is not None and (newest.sha256, newest.final) == (package.sha256, final):
        return
    if tx.get(PackageRow, package.sha256) is None:
        tx.add(package)
        tx.flush()
    known = tx.scalar(
        select(KernelRow).where(
            KernelRow.job_id == row.id,
            KernelRow.task == task,
            KernelRow.sha256 == package.sha256,
        )
    )
    if known is not None:
        tx.delete(known)
        tx.flush()
    tx.add(
        KernelRow(
            job_id=row.id, task=task, sha256=package.sha256, best_s=latency.best_s, final=final,
            created_s=now_s,
        )
    )  # fmt: skip
    body = {
        "task": task, "sha256": package.sha256, **latency.as_fact(), "final": final,
        "seconds": row.seconds_done, "latency_s": whole_s,
    }  # fmt: skip
    add_event(tx, row, "kernel", body, now_s)


def finish(
    tx: Session, row: JobRow, results: Sequence[Mapping[str, Any]], stopped: str, now_s: float
) -> None:
    """Mark a leased job succeeded."""
    row.results = json.dumps(results)
    told = {"stopped": stopped, "tasks": list(results), "latency_s": row.best_s}
    add_event(tx, row, "finished", told, now_s)
    move(row, "succeeded", now_s)
    add_state_event(tx, row, now_s)


def fail(tx: Session, row: JobRow, reason: str, now_s: float) -> None:
    """Mark a leased job failed, with the reason."""
    move(row, "failed", now_s, reason)
    add_state_event(tx, row, now_s)


def release(tx: Session, row: JobRow, now_s: float) -> None:
    """Queue a leased job again without counting a loss, because its worker stops."""
    move(row, "queued", now_s)
    add_state_event(tx, row, now_s)


def pause_leased(tx: Session, row: JobRow, reason: str, now_s: float) -> None:
    """Pause a leased job that cannot continue, until it is resumed by request."""
    move(row, "paused", now_s, reason)
    add_state_event(tx, row, now_s)


def record_loss(tx: Session, row: JobRow, max_lost: int, now_s: float, note: str = "") -> None:
    """Take a locked, running job from its dead worker: queue it again, or fail it.

    A job fails as poison with its loss number `max_lost` since its last stored round.
    """
    row.lost += 1
    if row.lost < max_lost:
        move(row, "queued", now_s)
    else:
        told = f": {note}" if note else ""
        move(row, "failed", now_s, POISON.format(lost=row.lost, owner=row.lease_owner, note=told))
    add_state_event(tx, row, now_s)


def recover(tx: Session, now_s: float, max_lost: int, owner: str | None = None) -> int:
    """Record a loss for the running jobs of `owner`, or of all workers with an expired lease.

    Returns:
        The number of jobs.
    """
    gone = JobRow.lease_owner == owner if owner is not None else _has_ended(now_s)
    query = select(JobRow).where(and_(JobRow.state == "running", gone))
    rows = tx.scalars(query.with_for_update(skip_locked=True)).all()
    for row in rows:
        record_loss(tx, row, max_lost, now_s)
    return len(rows)


def _has_ended(now_s: float) -> ColumnElement[bool]:
    """Return the SQL condition that a lease expired, or began before the clock was set back."""
    ahead = JobRow.lease_until_s > now_s + LONGEST * JobRow.lease_s
    return or_(JobRow.lease_until_s < now_s, ahead)
