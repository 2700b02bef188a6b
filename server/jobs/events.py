"""What happens in a job, as rows that a stream can resume from.

    state      {"state", "reason"}
    derived    {"task", "sketches", "plans", "seconds"}: of promising plans, again when all are open
    round      {"task", "round", "trials", "best_s", "failures", "quality", "spent", "seconds",
                "latency_s"}
    improved   {"task", "best_s", "trials", "seconds"}
    kernel     {"task", "sha256", "best_s", "final", "seconds", "latency_s"}
    finished   {"stopped", "tasks", "latency_s"}

`trials` and `failures` are totals of the task, `round` counts its rounds, `seconds` is the time
that the job has worked so far, all leases together. `best_s` is a measured time: of a kernel its
fastest sample in its race, of a round that of the best so far. `latency_s` is the `best_s` of the
job at that moment: the weighted sum over its tasks.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from ansorpy.server.db.models import JobEventRow, JobRow

Kind = Literal["state", "derived", "round", "improved", "kernel", "finished"]
BATCH: Final = 500  # ids in one query; SQLite takes 999 values and more


def add_event(
    tx: Session, job: JobRow, kind: Kind, body: Mapping[str, Any], now_s: float
) -> JobEventRow:
    """Append an event to a job whose row is locked."""
    job.events += 1
    row = JobEventRow(
        job_id=job.id, seq=job.events, at_s=now_s, kind=kind, body=json.dumps(body, allow_nan=False)
    )
    tx.add(row)
    return row


def add_state_event(tx: Session, job: JobRow, now_s: float) -> None:
    """Append the state that the job has come to."""
    add_event(tx, job, "state", {"state": job.state, "reason": job.reason}, now_s)


def read_events(tx: Session, job_id: str, after: int, limit: int) -> Sequence[JobEventRow]:
    """Return events in order, those after number `after`."""
    query = (
        select(JobEventRow)
        .where(JobEventRow.job_id == job_id, JobEventRow.seq > after)
        .order_by(JobEventRow.seq)
        .limit(limit)
    )
    return tx.scalars(query).all()


def last_events(tx: Session, job_ids: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return the id, the state and the number of the last event of each job that is there."""
    found: list[tuple[str, str, int]] = []
    for begin in range(0, len(job_ids), BATCH):
        some = job_ids[begin : begin + BATCH]
        query = select(JobRow.id, JobRow.state, JobRow.events).where(JobRow.id.in_(some))
        found += [(job_id, state, events) for job_id, state, events in tx.execute(query)]
    return found
