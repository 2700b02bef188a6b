"""What the pages for people show beyond the API: the failures, the request and the winner."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Engine, select

from ansorpy.errors import AnsorError
from ansorpy.loopir.printer import text as printed
from ansorpy.records import Record, decode
from ansorpy.replay import replay
from ansorpy.server.db.engine import now, reading
from ansorpy.server.db.models import RecordRow
from ansorpy.server.jobs import machines, queries
from ansorpy.server.jobs.errors import NotFoundError
from ansorpy.server.schemas.explain import FailureReply
from ansorpy.server.schemas.job import JobReply
from ansorpy.server.service.explain import failures_of, target_of
from ansorpy.server.service.serializers import job_reply
from ansorpy.state.state import State
from ansorpy.state.text import replay as replay_steps
from ansorpy.target import Target

MAX_LINES: Final = 2000  # of a loop nest on a page


@dataclass(frozen=True, slots=True)
class Winner:
    """The best program of a task so far. `note` says why something is not there."""

    task: str
    best_s: float | None = None  # as measured
    final: bool = False
    sketch: str = ""  # its loops, sizes open
    loops: str = ""  # its loops, with numbers
    note: str = ""


@dataclass(frozen=True, slots=True)
class JobView:
    """One job at one moment."""

    job: JobReply
    now_s: float
    text: str  # the request in tensor-expression notation; "" where it came as JSON
    failures: Sequence[FailureReply] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # of the target


@dataclass(frozen=True, slots=True)
class DashboardService:
    """What the pages call."""

    engine: Engine

    def now_s(self) -> float:
        """Return the time by the clock of the database."""
        with reading(self.engine) as tx:
            return now(tx)

    def look(self, tenant_id: int, job_id: str) -> JobView:
        """Return all that the page of a job shows at first; UnknownError."""
        with reading(self.engine) as tx:
            known = queries.explain(tx, tenant_id, job_id)
            kernels = queries.kernels_of(tx, tenant_id, job_id)
            return JobView(
                job=job_reply(known.job, kernels, machines.waiting_for(tx, known.job, now(tx))),
                now_s=now(tx),
                text=known.submission.text or "",
                failures=failures_of(known),
                facts=known.target.get("target", {}),
            )

    def winner(self, tenant_id: int, job_id: str, task: str) -> Winner:
        """Return the best program of a task, made again from its record; UnknownError."""
        with reading(self.engine) as tx:
            known = queries.explain(tx, tenant_id, job_id)
            # The race that ends a task has round 0: it comes before any trial.
            best = (
                select(RecordRow.body)
                .where(RecordRow.job_id == job_id, RecordRow.task == task)
                .where(RecordRow.cost_s.is_not(None) | (RecordRow.round == 0))
                .order_by(RecordRow.round != 0, RecordRow.cost_s, RecordRow.seq)
                .limit(1)
            )
            body = tx.scalar(best)
        dag = next((dag for dag in known.submission.dags if dag.name == task), None)
        if dag is None:
            raise NotFoundError("the job has no such task")
        if body is None:
            return Winner(task, note="No trial has been measured yet.")
        record = decode(body)
        final, best_s = record.race is not None, record.best_s
        cores = known.submission.cores
        target = target_of(known.target, cores) or Target(cores=cores)
        try:
            sketch = _sketch(dag, record)
            loops = _shortened(printed(replay(dag, target, record)))
        except AnsorError as error:  # a record of another version of the rules
            note = f"The record cannot be replayed here: {error}"
            return Winner(task, best_s, final, note=note)
        return Winner(task, best_s, final, str(sketch), loops)


def _sketch(dag: Any, record: Record) -> State:
    return replay_steps(dag, json.loads(record.plan)["steps"])


def _shortened(text: str) -> str:
    lines: Sequence[str] = text.splitlines()
    if len(lines) <= MAX_LINES:
        return text
    return "\n".join([*lines[:MAX_LINES], f"... {len(lines) - MAX_LINES} lines more"])
