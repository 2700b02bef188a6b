"""Use cases of the lists of the dashboard: jobs with workload and result, kernels."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from ansorpy.server.db.engine import now, reading
from ansorpy.server.db.models import JobRow
from ansorpy.server.jobs import listing, machines, queries
from ansorpy.server.jobs.events import races
from ansorpy.server.jobs.latency import Latency
from ansorpy.server.jobs.listing import Order
from ansorpy.server.schemas.job import JobSummary
from ansorpy.server.service.serializers import asked, job_summary, task_latencies

OWN_BASELINE: Final = "untuned or NumPy"


@dataclass(frozen=True, slots=True)
class JobGain:
    """Time of another program over ours; `level` is the one of the verdict, "" while it runs."""

    ratio: float
    against: str
    level: str = ""


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job in a list of the dashboard."""

    job: JobSummary
    kind: Literal["kernel", "model", "graph"]
    workload: str  # dtypes and shapes of the first inputs
    same: str  # jobs with the same one have equal workloads
    threads: int
    phase: str
    gain: JobGain | None
    flop_per_s: float | None
    curve: tuple[float, ...]  # latencies of the search, which never rise
    seconds: float
    machine: str


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A delivered kernel in a list of the dashboard."""

    task: str
    sha256: str
    workload: str
    threads: int
    latency: Latency
    final: bool
    created_s: float
    machine: str
    job_id: str
    used_by: int  # jobs that delivered these bytes


@dataclass(frozen=True, slots=True)
class EntryPage:
    """A page of jobs, and the number of jobs in each state."""

    entries: Sequence[JobEntry]
    counts: Mapping[str, int]
    next: int | None  # position of the next page; None at the end
    now_s: float


@dataclass(frozen=True, slots=True)
class ListService:
    """Use cases of the lists of the dashboard; each is restricted to one tenant."""

    engine: Engine

    def jobs(
        self,
        tenant_id: int,
        *,
        states: Sequence[str] = (),
        word: str = "",
        order: Order = "newest",
        skip: int = 0,
        limit: int,
    ) -> EntryPage:
        """Return a page of jobs; the arguments are as for `listing.jobs`."""
        with reading(self.engine) as tx:
            rows = listing.jobs(
                tx, tenant_id, states=states, word=word, order=order, skip=skip, limit=limit + 1
            )
            return EntryPage(
                _entries(tx, rows[:limit]),
                listing.counts(tx, tenant_id, word),
                skip + limit if len(rows) > limit else None,
                now(tx),
            )

    def entries(self, tenant_id: int, job_ids: Sequence[str]) -> Sequence[JobEntry]:
        """Return some jobs, in the order of their ids.

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            return _entries(tx, [queries.find(tx, tenant_id, job_id) for job_id in job_ids])

    def kernels(
        self, tenant_id: int, word: str, before: int | None, limit: int
    ) -> tuple[Sequence[KernelEntry], int | None]:
        """Return a page of kernels, newest first, and `before` of the next page."""
        with reading(self.engine) as tx:
            rows, after = listing.kernels(tx, tenant_id, word, before, limit)
            processors = listing.processors(tx)
            return [
                KernelEntry(
                    row.task,
                    row.sha256,
                    dict(zip(asked(row.job).names, asked(row.job).shapes, strict=False)).get(
                        row.task, ""
                    ),
                    row.job.cores,
                    _kernel_latency(row),
                    row.final,
                    row.created_s,
                    processors.get(row.job.target, row.job.target),
                    row.job.id,
                    row.used_by,
                )
                for row in rows
            ], after


def _kernel_latency(row: listing.DeliveredKernel) -> Latency:
    """Return the latency of record of a final kernel, else the one of its delivery."""
    known = task_latencies(row.job, asked(row.job)).get(row.task)
    return known if row.final and known is not None else Latency(row.best_s, None)


def _entries(tx: Session, rows: Sequence[JobRow]) -> list[JobEntry]:
    processors, now_s = listing.processors(tx), now(tx)
    return [
        JobEntry(
            job=job_summary(row),
            kind="kernel" if row.model is None else "graph" if asked(row).is_graph else "model",
            workload=asked(row).workload,
            same=asked(row).same,
            threads=row.cores,
            phase=_phase(tx, row, now_s),
            gain=_gain(row),
            flop_per_s=_rate(row),
            curve=listing.curve(tx, row),
            seconds=row.seconds_done,
            machine=processors.get(row.target, row.target),
        )
        for row in rows
    ]


def _phase(tx: Session, row: JobRow, now_s: float) -> str:
    """Return the activity of a job, "" if its state says it."""
    if row.state == "queued":
        return machines.waiting_for(tx, row, now_s) or ""
    if row.state != "running":
        return ""
    if races(tx, row):
        return "final race"
    return "search" if row.trials_done else "first answers"


def _gain(row: JobRow) -> JobGain | None:
    """Return the ratio to the fastest library of its race, or to its own baseline before."""
    if row.model is not None:
        verdict = json.loads(row.model_facts or "{}").get("verdict")
        return None if verdict is None else _of_verdicts([(1.0, verdict)])
    weights = dict(zip(asked(row).names, asked(row).weights, strict=True))
    results = json.loads(row.results)
    verdicts = [(weights.get(one["name"], 1.0), one.get("verdict")) for one in results]
    if verdicts:
        return _of_verdicts(verdicts)
    progress = json.loads(row.progress)
    parts = [(weights[name], progress.get(name, {})) for name in weights]
    if not all(one.get("baseline_s") and one.get("best_s") for _, one in parts):
        return None
    times = (sum(weight * one[name] for weight, one in parts) for name in ("baseline_s", "best_s"))
    baseline_s, best_s = times
    return JobGain(baseline_s / best_s, OWN_BASELINE)


def _of_verdicts(verdicts: Sequence[tuple[float, Mapping[str, Any] | None]]) -> JobGain | None:
    """Return the sum of the fastest libraries over the sum of ours, if each task was compared."""
    told = [(weight, one) for weight, one in verdicts if one is not None and one["peer_s"]]
    if not told or len(told) < len(verdicts):
        return None
    peers = dict.fromkeys(str(one["peer"]) for _, one in told)
    levels = {str(one["level"]) for _, one in told}
    theirs_s = sum(weight * one["peer_s"] for weight, one in told)
    ours_s = sum(weight * one["ours_s"] for weight, one in told)
    level = levels.pop() if len(levels) == 1 else "amber" if "amber" in levels else "none"
    return JobGain(theirs_s / ours_s, ", ".join(peers), level)


def _rate(row: JobRow) -> float | None:
    """Return the operations of the definitions per second of a job with times."""
    if row.model is not None:
        return None
    facts = asked(row)
    latencies = task_latencies(row, facts)
    flop, total_s = 0.0, 0.0
    for name, weight, one in zip(facts.names, facts.weights, facts.flops, strict=True):
        best_s = latencies[name].best_s
        if best_s is None:
            return None
        flop, total_s = flop + weight * one, total_s + weight * best_s
    return flop / total_s if total_s else None
