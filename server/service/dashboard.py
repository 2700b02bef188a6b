"""Use cases of the dashboard beyond the API: request, failures and best program of a job."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Engine, select

from ansorpy.errors import AnsorError
from ansorpy.loopir.printer import text as printed
from ansorpy.model.outline import OutlinedPart
from ansorpy.records import Record, decode
from ansorpy.replay import replay
from ansorpy.server.db.engine import now, reading
from ansorpy.server.db.models import RecordRow
from ansorpy.server.jobs import machines, queries
from ansorpy.server.jobs.errors import NotFoundError
from ansorpy.server.jobs.events import JobPhase, notices, phases, races
from ansorpy.server.jobs.latency import NO_TIME, Latency
from ansorpy.server.jobs.ranges import TaskSizes
from ansorpy.server.schemas.explain import FailureReply
from ansorpy.server.schemas.job import JobReply, JobSummary
from ansorpy.server.schemas.model import ModelPage
from ansorpy.server.service.explain import NO_TASK, contrast_of, failures_of, target_of
from ansorpy.server.service.serializers import asked, job_reply, job_summary, task_latencies
from ansorpy.state.text import replay as replay_steps
from ansorpy.target import GPU_NAMES, CpuTarget
from ansorpy.te.dag import Dag
from ansorpy.te.dims import Dim, in_range

MAX_LINES: Final = 2000  # lines of a loop nest on a page
JOBS_OF_MODEL: Final = 5  # jobs that are shown of a model
JOBS_OF_MODELS: Final = 200  # jobs that are read for a page of models


@dataclass(frozen=True, slots=True)
class Winner:
    """The best program of a task so far; `note` is the reason of missing fields."""

    task: str
    latency: Latency = NO_TIME
    final: bool = False
    sketch: str = ""  # loops with symbolic sizes
    loops: str = ""  # loops with numbers
    note: str = ""
    contrast: str = ""  # against the runner-up, once the task has ended


ESTIMATED: Final = (
    "No trial is timed: candidates are estimated, and a delivered kernel has passed its checks"
    " under emulation."
)

RANGES: Final = (
    "Each range of sizes has a kernel of its own: the best ones are joined to one program after the"
    " search."
)


@dataclass(frozen=True, slots=True)
class JobView:
    """The content of the page of a job."""

    job: JobReply
    now_s: float
    text: str  # the request in tensor-expression notation; "" if it was JSON
    failures: Sequence[FailureReply] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # facts of the target
    notices: Sequence[str] = ()  # sentences about the budget
    races: bool = False  # the final race runs
    phases: Sequence[JobPhase] = ()
    outline: Sequence[OutlinedPart] = ()  # parts of a model
    memory: Mapping[str, int] = field(default_factory=dict)  # bytes of its last bundle, by use


@dataclass(frozen=True, slots=True)
class DashboardService:
    """Use cases of the pages."""

    engine: Engine

    def now_s(self) -> float:
        """Return the time of the database clock."""
        with reading(self.engine) as tx:
            return now(tx)

    def jobs_of(self, tenant_id: int, models: ModelPage) -> dict[str, list[JobSummary]]:
        """Return the newest jobs of each model of a page, newest first, by its digest."""
        digests = [one.sha256 for one in models.models]
        found: dict[str, list[JobSummary]] = {digest: [] for digest in digests}
        with reading(self.engine) as tx:
            rows = queries.jobs_of_models(tx, tenant_id, digests, JOBS_OF_MODELS)
            for one in map(job_summary, rows):
                found[str(one.model)].append(one)
        return {digest: jobs[:JOBS_OF_MODEL] for digest, jobs in found.items()}

    def look(self, tenant_id: int, job_id: str) -> JobView:
        """Return the content of the page of a job.

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            known = queries.explain(tx, tenant_id, job_id)
            kernels = queries.kernels_of(tx, tenant_id, job_id)
            stored = json.loads(known.job.model_facts or "{}")
            return JobView(
                job=job_reply(
                    known.job,
                    kernels,
                    machines.waiting_for(tx, known.job, now(tx)),
                    queries.bundle_of(tx, tenant_id, job_id),
                ),
                now_s=now(tx),
                text=known.submission.text or "",
                failures=failures_of(known),
                facts=known.target.get("target", {}),
                notices=notices(tx, job_id),
                races=races(tx, known.job),
                phases=phases(tx, known.job, now(tx)),
                outline=[OutlinedPart(**part) for part in stored.get("outline", ())],
                memory=stored.get("memory", {}),
            )

    def sketch(self, tenant_id: int, job: JobReply) -> str:
        """Return the sketch of the best program of a job of one task, else ""."""
        if job.model is not None or len(job.tasks) != 1:
            return ""
        return self.winner(tenant_id, job.id, job.tasks[0].name).sketch

    def winner(self, tenant_id: int, job_id: str, task: str) -> Winner:
        """Return the best program of a task, replayed from its record.

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            known = queries.explain(tx, tenant_id, job_id)
            latency = task_latencies(known.job, asked(known.job)).get(task, NO_TIME)
            mine = select(RecordRow.body).where(RecordRow.job_id == job_id, RecordRow.task == task)
            if latency.timing == "race":  # a race has round 0
                best = mine.where(RecordRow.round == 0).order_by(RecordRow.seq.desc())
            else:
                timed = mine.where(RecordRow.round != 0, RecordRow.cost_s.is_not(None))
                best = timed.order_by(RecordRow.cost_s, RecordRow.seq)
            body = tx.scalar(best.limit(1))
        dag = next((dag for dag in known.submission.dags if dag.name == task), None)
        if dag is None:
            raise NotFoundError(NO_TASK)
        found = contrast_of(known.job.results, task)
        contrast = "" if found is None else found.text
        if body is None and known.job.target in GPU_NAMES:
            return Winner(task, note=ESTIMATED)
        if body is None:
            sizes = TaskSizes.of(dag, known.submission.kernels_per_dim)
            trials = sizes.searched(task, json.loads(known.job.progress)).get("trials")
            note = RANGES if trials else "No trial has been measured yet."
            return Winner(task, latency, note=note, contrast=contrast)
        record = decode(body)
        final = record.race is not None
        cores = known.submission.cores
        target = target_of(known.target, cores) or CpuTarget(cores=cores)
        try:
            sketch = _sketches(dag, record)
            loops = _shortened(printed(replay(dag, target, record)))
        except AnsorError as error:  # a record of another version of the rules
            note = f"This version cannot replay the record: {error}"
            return Winner(task, latency, final, note=note, contrast=contrast)
        return Winner(task, latency, final, sketch, loops, contrast=contrast)


def _sketches(dag: Dag, record: Record) -> str:
    """Return the sketch of a record; of a joined one the sketch of each range of sizes."""
    plan = json.loads(record.plan)
    if "parts" not in plan:
        return str(replay_steps(dag, plan["steps"]))
    found = []
    for *facts, part in plan["parts"]:
        ranged = in_range(dag, Dim(*facts))
        found.append(f"# {ranged.name}\n{replay_steps(ranged, part['steps'])}")
    return "\n\n".join(found)


def _shortened(text: str) -> str:
    lines: Sequence[str] = text.splitlines()
    if len(lines) <= MAX_LINES:
        return text
    return "\n".join([*lines[:MAX_LINES], f"... {len(lines) - MAX_LINES} lines more"])
