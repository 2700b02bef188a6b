"""Every query of the service, named by what it is for. Times are seconds since the epoch."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Engine, ScalarResult, func, select, update
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session

from ansorpy.measure.outcome import Measured
from ansorpy.records import Record, decode, encode
from server.db.engine import transaction
from server.db.models import JobRow, KernelRow, RecordRow

# Which state may follow which; `queued` after `running` is a job whose worker was lost.
MOVES: Final[Mapping[str, tuple[str, ...]]] = {
    "queued": ("running",),
    "running": ("done", "failed", "queued"),
    "done": (),
    "failed": (),
}
POISON: Final = "the worker was lost {attempt} times while it ran this job (last owner {owner})"


class SqlStore:
    """The record store (`ansorpy.records.Store`) on a database."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def append(self, records: Sequence[Record]) -> None:
        """Commit the records that are new, in one transaction."""
        unique = {record.id: record for record in records}
        with transaction(self.engine) as tx:
            known = set(tx.scalars(select(RecordRow.id).where(RecordRow.id.in_(unique))))
            tx.add_all(_record_row(r) for id_, r in unique.items() if id_ not in known)

    def all(self, key: str) -> tuple[Record, ...]:
        """Return the records of one task, oldest first."""
        query = select(RecordRow.body).where(RecordRow.key == key).order_by(RecordRow.seq)
        with transaction(self.engine) as tx:
            return tuple(map(decode, tx.scalars(query)))

    def best(self, key: str) -> Record | None:
        """Return the fastest measured trial of one task, or None."""
        query = (
            select(RecordRow.body)
            .where(RecordRow.key == key, RecordRow.cost_s.is_not(None))
            .order_by(RecordRow.cost_s, RecordRow.seq)
            .limit(1)
        )
        with transaction(self.engine) as tx:
            body = tx.scalar(query)
        return None if body is None else decode(body)

    def count(self, key: str | None = None) -> int:
        """Return the number of records, of one task or of all."""
        query = select(func.count()).select_from(RecordRow)
        if key is not None:
            query = query.where(RecordRow.key == key)
        with transaction(self.engine) as tx:
            return tx.scalar(query) or 0

    def export(self) -> Iterator[Record]:
        """Yield every record, oldest first, a page per transaction."""
        last, page = 0, 1000
        while True:
            query = select(RecordRow).where(RecordRow.seq > last).order_by(RecordRow.seq)
            with transaction(self.engine) as tx:
                rows = tx.scalars(query.limit(page)).all()
            yield from (decode(row.body) for row in rows)
            if len(rows) < page:
                return
            last = rows[-1].seq


def _record_row(record: Record) -> RecordRow:
    complete = (
        isinstance(record.outcome, Measured) and not record.outcome.aborted and record.race is None
    )
    return RecordRow(
        id=record.id,
        key=record.key,
        cost_s=record.cost_s if complete else None,
        body=encode(record),
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that this worker may run until `token` is overtaken."""

    job_id: str
    token: int
    request: Mapping[str, Any]


def add_job(tx: Session, request: Mapping[str, Any], now_s: float) -> JobRow:
    """Insert a queued job."""
    row = JobRow(
        id=uuid4().hex,
        state="queued",
        request=json.dumps(request),
        created_s=now_s,
        updated_s=now_s,
    )
    tx.add(row)
    tx.flush()
    return row


def find_job(tx: Session, job_id: str) -> JobRow | None:
    """Return the job, or None."""
    return tx.scalar(select(JobRow).where(JobRow.id == job_id))


def count_queued(tx: Session) -> int:
    """Return how many jobs wait."""
    query = select(func.count()).select_from(JobRow).where(JobRow.state == "queued")
    return tx.scalar(query) or 0


def claim_job(tx: Session, owner: str, now_s: float, lease_s: float) -> Claim | None:
    """Take the oldest job that waits; None where there is none."""
    waiting = select(JobRow.seq).where(JobRow.state == "queued").order_by(JobRow.seq).limit(1)
    statement = (
        update(JobRow)
        .where(JobRow.seq == waiting.with_for_update(skip_locked=True).scalar_subquery())
        .values(
            state="running",
            attempt=JobRow.attempt + 1,
            lease_owner=owner,
            lease_token=JobRow.lease_token + 1,
            lease_until_s=now_s + lease_s,
            updated_s=now_s,
        )
        .returning(JobRow.id, JobRow.lease_token, JobRow.request)
        .execution_options(synchronize_session=False)
    )
    row = tx.execute(statement).first()
    return None if row is None else Claim(row.id, row.lease_token, json.loads(row.request))


def heartbeat(
    tx: Session, claim: Claim, now_s: float, lease_s: float, progress: Mapping[str, Any] | None
) -> bool:
    """Extend the lease and note the progress; False where another worker owns the job now."""
    values: dict[str, Any] = {"lease_until_s": now_s + lease_s, "updated_s": now_s}
    if progress is not None:
        values["progress"] = json.dumps(progress)
    return _fenced_update(tx, claim, values)


def finish_job(
    tx: Session,
    claim: Claim,
    now_s: float,
    results: Sequence[Mapping[str, Any]],
    kernels: Mapping[str, tuple[str, int]],
) -> bool:
    """Mark the job done with its results; `kernels` is task -> (sha256, size in bytes)."""
    values = {"state": "done", "results": json.dumps(results), "updated_s": now_s, "error": ""}
    if not _fenced_update(tx, claim, values):
        return False
    tx.add_all(
        KernelRow(job_id=claim.job_id, task=task, sha256=digest, size_bytes=size_bytes)
        for task, (digest, size_bytes) in kernels.items()
    )
    return True


def fail_job(tx: Session, claim: Claim, now_s: float, error: str) -> bool:
    """Mark the job failed, with the reason."""
    return _fenced_update(tx, claim, {"state": "failed", "error": error, "updated_s": now_s})


def release_job(tx: Session, claim: Claim, now_s: float) -> bool:
    """Give the job back unharmed (the worker shuts down): the attempt does not count."""
    values = {"state": "queued", "attempt": JobRow.attempt - 1, "updated_s": now_s}
    return _fenced_update(tx, claim, values)


def recover_jobs(tx: Session, now_s: float, max_attempts: int, owner: str | None = None) -> int:
    """Requeue the jobs of a lost worker: of `owner`, or those whose lease ran out.

    A job that lost its worker `max_attempts` times is poison: it fails, with the reason.

    Returns:
        How many jobs were touched.
    """
    lost = JobRow.lease_owner == owner if owner is not None else JobRow.lease_until_s < now_s
    rows: ScalarResult[JobRow] = tx.scalars(select(JobRow).where(JobRow.state == "running", lost))
    touched = 0
    for row in rows:
        poison = row.attempt >= max_attempts
        row.error = POISON.format(attempt=row.attempt, owner=row.lease_owner) if poison else ""
        row.state = "failed" if poison else "queued"
        assert row.state in MOVES["running"]
        row.lease_token += 1  # the lost worker, should it wake up, can write no more
        row.updated_s = now_s
        touched += 1
    return touched


def find_kernel(tx: Session, job_id: str, task: str) -> KernelRow | None:
    """Return where the zip of one task lies, or None."""
    return tx.get(KernelRow, (job_id, task))


def _fenced_update(tx: Session, claim: Claim, values: Mapping[str, Any]) -> bool:
    assert values.get("state", "done") in MOVES["running"]
    statement = (
        update(JobRow)
        .where(
            JobRow.id == claim.job_id,
            JobRow.lease_token == claim.token,
            JobRow.state == "running",
        )
        .values(**values)
        .execution_options(synchronize_session=False)
    )
    result = tx.execute(statement)
    assert isinstance(result, CursorResult)
    return result.rowcount == 1
