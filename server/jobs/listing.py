"""Queries of the lists of the dashboard; each is restricted to the jobs of one tenant.

Functions take a transaction (`ansorpy.server.db.engine.transaction`) and return rows or values.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from ansorpy.server.db.models import JobEventRow, JobRow, KernelRow, WorkerRow
from ansorpy.server.jobs.queries import has_word
from ansorpy.server.jobs.states import MOVES

Order = Literal["newest", "oldest", "ended", "name", "latency", "time"]

POINTS: Final = 32  # rounds that are read for the curve of a job
ORDERS: Final = {
    "newest": JobRow.seq.desc(),
    "oldest": JobRow.seq,
    "ended": func.coalesce(JobRow.ended_s, 0.0).desc(),
    "name": func.lower(JobRow.title),
    "latency": func.coalesce(JobRow.best_s, 1e30),  # jobs without a time are last
    "time": JobRow.seconds_done.desc(),
}


def jobs(
    tx: Session,
    tenant_id: int,
    *,
    states: Sequence[str] = (),
    word: str = "",
    order: Order = "newest",
    skip: int = 0,
    limit: int,
) -> Sequence[JobRow]:
    """Return jobs in some states (none: in any), in an order, from position `skip` on.

    Args:
        word: part of the titles, or leading digits of the ids.
    """
    query = select(JobRow).where(JobRow.tenant_id == tenant_id)
    if word:
        query = query.where(has_word(word))
    if states:
        query = query.where(JobRow.state.in_(states))
    query = query.order_by(ORDERS[order], JobRow.seq.desc()).offset(skip).limit(limit)
    return tx.scalars(query).all()


def counts(tx: Session, tenant_id: int, word: str = "") -> dict[str, int]:
    """Return the number of jobs in each state."""
    query = select(JobRow.state, func.count()).where(JobRow.tenant_id == tenant_id)
    if word:
        query = query.where(has_word(word))
    found: dict[str, int] = dict.fromkeys(MOVES, 0)
    return found | dict(tx.execute(query.group_by(JobRow.state)).all())


def processors(tx: Session) -> dict[str, str]:
    """Return the names of the processors of known workers, by the digests of their targets."""
    named = {}
    for target, facts in tx.execute(select(WorkerRow.target, WorkerRow.facts)):
        told: Mapping[str, str] = json.loads(facts).get("target", {})
        named[target] = str(told.get("name") or told.get("cpu") or told.get("kind") or target)
    return named


def curve(tx: Session, job: JobRow) -> tuple[float, ...]:
    """Return at most POINTS latencies of the search of a job, in order; they never rise."""
    every = job.events // POINTS + 1
    rounds = select(JobEventRow.body).where(
        JobEventRow.job_id == job.id,
        JobEventRow.kind.in_(("round", "estimate")),
        JobEventRow.seq % every == 0,
    )
    found: list[float] = []
    for body in tx.scalars(rounds.order_by(JobEventRow.seq)):
        latency_s = json.loads(body).get("latency_s")
        if latency_s is not None:
            found.append(min([latency_s, *found[-1:]]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class DeliveredKernel:
    """The newest kernel of a task, and its job."""

    seq: int
    sha256: str
    task: str
    best_s: float | None
    final: bool
    created_s: float
    job: JobRow
    used_by: int  # jobs that delivered these bytes


def kernels(
    tx: Session, tenant_id: int, word: str = "", before: int | None = None, limit: int = 20
) -> tuple[list[DeliveredKernel], int | None]:
    """Return a page of kernels, newest first, and `before` of the next page (None: last page).

    Args:
        word: part of the names of tasks, or leading digits of the digests.
    """
    newest = (
        select(func.max(KernelRow.seq))
        .join(JobRow, JobRow.id == KernelRow.job_id)
        .where(JobRow.tenant_id == tenant_id)
        .group_by(KernelRow.job_id, KernelRow.task)
    )
    query = select(KernelRow, JobRow).join(JobRow, JobRow.id == KernelRow.job_id)
    query = query.where(KernelRow.seq.in_(newest))
    if word:
        begins = KernelRow.sha256.startswith(word.lower(), autoescape=True)
        query = query.where(or_(KernelRow.task.icontains(word, autoescape=True), begins))
    if before is not None:
        query = query.where(KernelRow.seq < before)
    rows = tx.execute(query.order_by(KernelRow.seq.desc()).limit(limit + 1)).all()
    digests = [kernel.sha256 for kernel, _ in rows]
    users = (
        select(KernelRow.sha256, func.count(KernelRow.job_id.distinct()))
        .join(JobRow, JobRow.id == KernelRow.job_id)
        .where(JobRow.tenant_id == tenant_id, KernelRow.sha256.in_(digests))
        .group_by(KernelRow.sha256)
    )
    uses: dict[str, int] = dict(tx.execute(users).all())
    page = [
        DeliveredKernel(
            kernel.seq, kernel.sha256, kernel.task, kernel.best_s, kernel.final, kernel.created_s,
            job, uses[kernel.sha256],
        )
        for kernel, job in rows[:limit]
    ]  # fmt: skip
    return page, page[-1].seq if len(rows) > limit else None
