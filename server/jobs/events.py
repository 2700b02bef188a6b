"""Events of a job, as numbered rows from which a stream can resume.

    state      {"state", "reason"}
    derived    {"task", "sketches", "plans", "seconds"}: first for the promising plans, then for
               all; no "sketches" of a schedule or a template
    baseline   {"task", "baseline_s", "naive_s", "numpy_s", "numpy_note", "seconds"}: before the
               first trial; the final race measures them again
    preflight  {"task", "by", "need_bytes", "free_bytes", "seconds"}: a kernel is right
    too_short  {"asked_s", "least_s", "tasks", "ends", "text", "seconds"}: these seconds count
    no_trials  {"enough_s", "trials", "text", "seconds"}: the seconds allowed no trial
    slots      {"news", "text", "seconds"}: the slots of a cluster changed, or one is not used
    round      {"task", "round", "trials", "best_s", "failures", "quality", "spent", "seconds",
                "latency_s"}
    improved   {"task", "best_s", "trials", "seconds"}
    racing     {"task", "seconds"}: the final race of a task begins
    kernel     {"task", "sha256", "best_s", "timing", "final", "seconds", "latency_s"}
    finished   {"stopped", "tasks", "latency_s"}

Further events of a job that tunes a model:

    divided    {"nodes_before", "nodes", "passes", "parts", "hosted", "trials", "tasks"}
    answered   {"task", "best_s", "seconds"}: a first answer
    estimate   {"latency_s", "answered", "tasks", "trials", "seconds"}; the latency is null until
               all tasks have a time
    racing     {"names", "seconds"}: the last bundle is raced against these runtimes
    bundle     {"sha256", "size_bytes", "latency_s", "timing", "error", "bound", "reference",
                "seconds"}

`trials` and `failures` are totals of the task; `round` counts its rounds; `seconds` is the tuning
time of the job so far, summed over all leases. `best_s` is a measured time: of a kernel its fastest
sample in its race (`timing` is `race`), or as a library that was not raced (`trial`); of a round
the fastest sample of the task in trials so far. `latency_s` is the weighted sum over all tasks: in
a round the sum of the search, which never rises; with a kernel the sum of the newest kernels.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from ansorpy.server.db.models import JobEventRow, JobRow

Kind = Literal[
    "state", "derived", "baseline", "preflight", "too_short", "no_trials", "slots", "round",
    "improved", "racing", "kernel", "finished", "divided", "answered", "estimate", "bundle",
]  # fmt: skip
BATCH: Final = 500  # ids per query; SQLite allows at least 999 parameters


@dataclass(frozen=True, slots=True)
class JobPhase:
    """A part of a job, and its length by the clock of the database."""

    name: str
    seconds: float


def add_event(
    tx: Session, job: JobRow, kind: Kind, body: Mapping[str, Any], now_s: float
) -> JobEventRow:
    """Append an event to a job; its row must be locked."""
    job.events += 1
    row = JobEventRow(
        job_id=job.id, seq=job.events, at_s=now_s, kind=kind, body=json.dumps(body, allow_nan=False)
    )
    tx.add(row)
    return row


def add_state_event(tx: Session, job: JobRow, now_s: float) -> None:
    """Append an event with the current state of the job."""
    add_event(tx, job, "state", {"state": job.state, "reason": job.reason}, now_s)


def read_events(tx: Session, job_id: str, after: int, limit: int) -> Sequence[JobEventRow]:
    """Return the events after number `after`, in order."""
    query = (
        select(JobEventRow)
        .where(JobEventRow.job_id == job_id, JobEventRow.seq > after)
        .order_by(JobEventRow.seq)
        .limit(limit)
    )
    return tx.scalars(query).all()


def notices(tx: Session, job_id: str) -> list[str]:
    """Return the sentences for people among the events of a job."""
    query = select(JobEventRow.body).where(
        JobEventRow.job_id == job_id, JobEventRow.kind.in_(("too_short", "no_trials"))
    )
    bodies = tx.scalars(query.order_by(JobEventRow.seq))
    return list(dict.fromkeys(str(json.loads(body)["text"]) for body in bodies))


def races(tx: Session, job: JobRow) -> bool:
    """Return whether the last event of a job is the begin of a race."""
    last = tx.get(JobEventRow, (job.id, job.events))
    return job.state == "running" and last is not None and last.kind == "racing"


def phases(tx: Session, job: JobRow, now_s: float) -> list[JobPhase]:
    """Return the phases of a job so far, in order; the last one of a running job goes on."""
    if job.started_s is None:
        return []

    def at_s(*conditions: ColumnElement[bool]) -> float | None:
        return tx.scalar(select(func.min(JobEventRow.at_s)).where(mine, *conditions))

    mine, kind = JobEventRow.job_id == job.id, JobEventRow.kind
    rounds = select(JobEventRow.seq, JobEventRow.at_s, JobEventRow.body).where(
        mine, kind == "round"
    )
    first = tx.execute(rounds.order_by(JobEventRow.seq).limit(1)).first()
    last = tx.scalar(select(func.max(JobEventRow.seq)).where(mine, kind == "round")) or 0
    begins: dict[str, float | None] = {
        "start": job.started_s,
        "search": first and first.at_s - sum(json.loads(first.body)["spent"].values()),
        "final race": at_s(kind == "racing", JobEventRow.seq > last),
    }
    known = [(name, begin_s) for name, begin_s in begins.items() if begin_s is not None]
    end_s = now_s if job.ended_s is None else job.ended_s
    ends_s = [begin_s for _, begin_s in known[1:]] + [end_s]
    return [
        JobPhase(name, max(0.0, end - begin_s))
        for (name, begin_s), end in zip(known, ends_s, strict=True)
    ]


def last_events(tx: Session, job_ids: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return (id, state, number of the last event) of each existing job of `job_ids`."""
    found: list[tuple[str, str, int]] = []
    for begin in range(0, len(job_ids), BATCH):
        some = job_ids[begin : begin + BATCH]
        query = select(JobRow.id, JobRow.state, JobRow.events).where(JobRow.id.in_(some))
        found += [(job_id, state, events) for job_id, state, events in tx.execute(query)]
    return found
