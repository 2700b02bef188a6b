"""Rows seen in the database during the kills, compared with its final content."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from sqlalchemy import Engine, func, select

from ansorpy.server.db import model_files
from ansorpy.server.db.engine import reading
from ansorpy.server.db.models import BundleRow, JobEventRow, JobRow, RecordRow


@dataclass(slots=True)
class Witness:
    """Collects every record and event that was ever committed."""

    engine: Engine
    records: set[str] = field(default_factory=set)
    events: set[tuple[str, int, str]] = field(default_factory=set)
    seen: int = 0  # the newest record

    def look(self) -> None:
        """Read the new rows."""
        new = select(RecordRow.seq, RecordRow.id).where(RecordRow.seq > self.seen - 1000)
        with reading(self.engine) as tx:
            rows = tx.execute(new).all()
            events = tx.execute(select(JobEventRow.job_id, JobEventRow.seq, JobEventRow.body)).all()
        self.records |= {id_ for _, id_ in rows}
        self.events |= {(job, seq, body) for job, seq, body in events}
        self.seen = max((seq for seq, _ in rows), default=self.seen)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts of the final comparison."""

    jobs: Mapping[str, int]  # by state
    trials: int
    seen: int
    lost: int
    doubled: int
    complaints: Sequence[str]


def judge(engine: Engine, witness: Witness, submitted: Sequence[str]) -> Verdict:
    """Compare the seen rows and the requests with the final content."""
    complaints: list[str] = []
    with reading(engine) as tx:
        jobs = tx.scalars(select(JobRow)).all()
        records = tx.execute(
            select(RecordRow.job_id, RecordRow.id, RecordRow.candidate, RecordRow.round)
        ).all()
        events = tx.execute(select(JobEventRow.job_id, JobEventRow.seq, JobEventRow.body)).all()
        for job_id, number in tx.execute(
            select(JobEventRow.job_id, func.max(JobEventRow.seq)).group_by(JobEventRow.job_id)
        ):
            if number != sum(job == job_id for job, _, _ in events):
                complaints.append(f"job {job_id}: its events are not 1 to {number}")
    if sorted(job.id for job in jobs) != sorted(submitted):
        complaints.append(f"{len(submitted)} jobs were acknowledged, {len(jobs)} are there")
    for job in jobs:
        own = [round_ for job_id, _, _, round_ in records if job_id == job.id and round_ > 0]
        complaints += _complaints(job, own)
        if job.model and _final_bundle(engine, job.id) is None:
            complaints.append(f"job {job.id}: its final bundle is not there whole")
    there = Counter((job_id, candidate) for job_id, _, candidate, _ in records)
    lost_events = witness.events - {(job, seq, body) for job, seq, body in events}
    if lost_events:
        complaints.append(f"{len(lost_events)} events are gone")
    return Verdict(
        jobs=Counter(job.state for job in jobs),
        trials=sum(round_ > 0 for _, _, _, round_ in records),
        seen=len(witness.records),
        lost=len(witness.records - {id_ for _, id_, _, _ in records}),
        doubled=sum(count - 1 for count in there.values()),
        complaints=complaints,
    )


def _complaints(job: JobRow, rounds: Sequence[int]) -> list[str]:
    """Return the mistakes of a job, given the round of each of its stored trials."""
    complaints: list[str] = []
    asked = min(job.trials, len(rounds)) if job.model else job.trials  # shares are whole
    if job.state != "succeeded":
        complaints.append(f"job {job.id} is {job.state}: {job.reason}")
    if not len(rounds) == job.trials_done == asked:
        complaints.append(
            f"job {job.id}: {job.trials} trials asked, {len(rounds)} stored, {job.trials_done} told"
        )
    if set(rounds) != set(range(1, job.rounds_done + 1)):
        complaints.append(f"job {job.id}: rounds {sorted(set(rounds))}")
    results = {task["name"]: task["trials"] for task in json.loads(job.results)}
    if sum(results.values()) != asked:
        complaints.append(f"job {job.id}: results speak of {results} trials")
    return complaints


def _final_bundle(engine: Engine, job_id: str) -> str | None:
    """Return the digest of the final bundle of a job, None unless its bytes have that digest."""
    with reading(engine) as tx:
        found = select(BundleRow.sha256).where(BundleRow.job_id == job_id, BundleRow.final)
        named = tx.scalar(found)
    if named is None:
        return None
    content = sha256()
    for part in model_files.chunks(engine, named):
        content.update(part)
    return named if content.hexdigest() == named else None
