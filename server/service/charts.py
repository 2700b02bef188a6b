"""Data of the charts of the dashboard, from the events of a job."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Engine

from ansorpy.events import Timing
from ansorpy.server.db.engine import reading
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.latency import least_s
from ansorpy.server.jobs.states import ENDED
from ansorpy.server.schemas.job import TaskReply
from ansorpy.server.service.serializers import job_latency
from ansorpy.server.service.trials import TrialService

Chart = Literal["latency", "allocation", "quality", "failures"]
Row = Mapping[str, Any]

PAGE: Final = 500
COLUMNS: Final[Mapping[Chart, tuple[str, ...]]] = {
    "latency": ("round", "task", "trials", "seconds", "best_s", "latency_s", "timing"),
    "allocation": ("round", "task", "trials", "seconds", "task_trials"),
    "quality": (
        "round", "task", "trials", "candidates", "spearman", "kendall", "top_k_recall", "k", "peak",
    ),
    "failures": ("task", "kind", "count"),
}  # fmt: skip
TRIAL_COLUMNS: Final = (
    "task", "trial", "round", "place", "seconds", "best_s", "slowdown", "outcome", "message",
    "variant", "sizes",
)  # fmt: skip
# Source of the times of each kind of event, unless it tells its own.
SOURCES: Final[Mapping[str, Timing]] = {
    "round": "trial", "kernel": "race", "estimate": "estimate", "bundle": "race",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChartService:
    """Use case of the chart downloads."""

    engine: Engine

    def rows(self, tenant_id: int, job_id: str, chart: Chart) -> list[Row]:
        """Return the rows of a chart, with the fields COLUMNS[chart].

        In `latency`, `trials` and `round` count over the whole job, `best_s` belongs to the task,
        `latency_s` is the weighted sum over all tasks once each has a time, and `timing` is the
        source of `best_s`, or of `latency_s` in a row without a task. The times of the search
        (`trial`, `estimate`) never rise: each is the least so far. A row with `race` is a delivered
        kernel or bundle. The last row of an ended job is its latency of record.

        Raises:
            NotFoundError
        """
        told = self._told(tenant_id, job_id)
        if chart != "latency":
            return list(_MAKE[chart](filter(_is_round, told)))
        return [*_latency(told), *self._last(tenant_id, job_id)]

    def trials(self, tenant_id: int, job_id: str, tasks: Iterable[TaskReply]) -> Iterator[Row]:
        """Yield the trials of tasks, with the fields TRIAL_COLUMNS.

        `seconds` is the tuning time at the end of the round of the trial, None of an earlier job;
        `sizes` is a text such as "C.i.1=2 C.j.1=4".

        Raises:
            NotFoundError
        """
        rounds = filter(_is_round, self._told(tenant_id, job_id))
        ends_s = {row["number"]: row["seconds"] for row in rounds}
        for task in tasks:
            for row in TrialService(self.engine).of_task(tenant_id, job_id, task).rows():
                yield {
                    "task": task.name, "trial": row.number, "round": row.round, "place": row.place,
                    "seconds": ends_s.get(row.round), "best_s": row.best_s,
                    "slowdown": row.slowdown, "outcome": row.outcome, "message": row.message,
                    "variant": row.variant,
                    "sizes": " ".join(f"{name}={size}" for name, size in row.sizes.items()),
                }  # fmt: skip

    def _last(self, tenant_id: int, job_id: str) -> Iterator[Row]:
        """Yield the latency of record of an ended job as a row, if it has a time."""
        with reading(self.engine) as tx:
            job = queries.find(tx, tenant_id, job_id)
            latency = job_latency(job)
        if job.state in ENDED and latency.best_s is not None:
            yield {
                "round": job.rounds_done, "task": None, "trials": job.trials_done,
                "seconds": job.seconds_done, "best_s": None, "latency_s": latency.best_s,
                "timing": latency.timing,
            }  # fmt: skip

    def _told(self, tenant_id: int, job_id: str) -> Iterator[Row]:
        """Yield rounds, races and estimates of a job, each with its rounds and trials so far."""
        number, after = 0, 0
        trials: dict[str, int] = {}
        while True:
            with reading(self.engine) as tx:
                page = queries.events_after(tx, tenant_id, job_id, after, PAGE)
            for event in page:
                body = json.loads(event.body)
                if event.kind == "round":
                    number += 1
                    trials[body["task"]] = body["trials"]
                elif (
                    event.kind not in SOURCES or "latency_s" not in body
                ):  # missing in older versions
                    continue
                elif event.kind == "bundle" and body.get("timing") != "race":
                    continue  # its estimate is in the event before
                so_far = {"number": number, "all_trials": sum(trials.values())}
                yield {**body, **so_far, "kind": event.kind}
            if len(page) < PAGE:
                return
            after = page[-1].seq


def _is_round(row: Row) -> bool:
    return bool(row["kind"] == "round")


def _latency(rows: Iterator[Row]) -> Iterator[Row]:
    least: dict[tuple[str, str | None], float | None] = {}  # by column and task
    for row in rows:
        task, best_s, latency_s = row.get("task"), row.get("best_s"), row.get("latency_s")
        timing = row.get("timing", SOURCES[row["kind"]])
        if timing != "race":
            own, whole = ("best_s", task), ("latency_s", None)
            best_s = least[own] = least_s(least.get(own), best_s)
            latency_s = least[whole] = least_s(least.get(whole), latency_s)
        yield {
            "round": row["number"], "task": task, "trials": row["all_trials"],
            "seconds": row["seconds"], "best_s": best_s, "latency_s": latency_s, "timing": timing,
        }  # fmt: skip


def _quality(rounds: Iterator[Row]) -> Iterator[Row]:
    for row in rounds:
        told = {name: row["quality"].get(name) for name in COLUMNS["quality"][3:]}
        yield {
            "round": row["number"], "task": row["task"], "trials": row["all_trials"], **told
        }  # fmt: skip


def _allocation(rounds: Iterator[Row]) -> Iterator[Row]:
    for row in rounds:
        yield {
            "round": row["number"], "task": row["task"], "trials": row["all_trials"],
            "seconds": row["seconds"], "task_trials": row["trials"],
        }  # fmt: skip


def _failures(rounds: Iterator[Row]) -> Iterator[Row]:
    last = {row["task"]: row["failures"] for row in rounds}
    for task, kinds in last.items():
        for kind, count in sorted(kinds.items()):
            yield {"task": task, "kind": kind, "count": count}


_MAKE: Final[Mapping[Chart, Callable[[Iterator[Row]], Iterator[Row]]]] = {
    "allocation": _allocation,
    "quality": _quality,
    "failures": _failures,
}
