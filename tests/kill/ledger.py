"""Rows seen in the database during the kills, compared with its final content."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine, func, select

from ansorpy.server.db.engine import reading
from ansorpy.server.db.models import JobEventRow, JobRow, RecordRow


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
    trials = Counter(job_id for job_id, _, _, round_ in records if round_ > 0)
    for job in jobs:
        if job.state != "succeeded":
            complaints.append(f"job {job.id} is {job.state}: {job.reason}")
        if not trials[job.id] == job.trials_done == job.trials:
            complaints.append(
                f"job {job.id}: {job.trials} trials asked, {trials[job.id]} stored,"
                f" {job.trials_done} told"
            )
        rounds = {round_ for job_id, _, _, round_ in records if job_id == job.id and round_ > 0}
        if rounds != set(range(1, job.rounds_done + 1)):
            complaints.append(f"job {job.id}: rounds {sorted(rounds)}")
        results = {task["name"]: task["trials"] for task in json.loads(job.results)}
        if sum(results.values()) != job.trials:
            complaints.append(f"job {job.id}: results speak of {results} trials")
    there = Counter((job_id, candidate) for job_id, _, candidate, _ in records)
    lost_events = witness.events - {(job, seq, body) for job, seq, body in events}
    if lost_events:
        complaints.append(f"{len(lost_events)} events are gone")
    return Verdict(
        jobs=Counter(job.state for job in jobs),
        trials=sum(trials.values()),
        seen=len(witness.records),
        lost=len(witness.records - {id_ for _, id_, _, _ in records}),
        doubled=sum(count - 1 for count in there.values()),
        complaints=complaints,
    )
