"""Data of the charts of the dashboard, from the events of a job."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Engine

from ansorpy.server.db.engine import reading
from ansorpy.server.jobs import queries

Chart = Literal["latency", "allocation", "quality", "failures"]
Row = Mapping[str, Any]

PAGE: Final = 500
COLUMNS: Final[Mapping[Chart, tuple[str, ...]]] = {
    "latency": ("round", "task", "trials", "seconds", "best_s", "latency_s", "measured_in"),
    "allocation": ("round", "task", "trials", "seconds", "task_trials"),
    "quality": (
        "round", "task", "trials", "candidates", "spearman", "kendall", "top_k_recall", "k", "peak",
    ),
    "failures": ("task", "kind", "count"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChartService:
    """Use case of the chart downloads."""

    engine: Engine

    def rows(self, tenant_id: int, job_id: str, chart: Chart) -> list[Row]:
        """Return the rows of a chart, with the fields COLUMNS[chart].

        In `latency`, `trials` and `round` count over the whole job, `best_s` belongs to the task,
        `latency_s` is the weighted sum over all tasks once each has a time, and `measured_in` is
        `race` for the time of a delivered kernel, else `trials`. A row without a task is an
        estimate of a whole model.

        Raises:
            NotFoundError
        """
        told = self._told(tenant_id, job_id)
        return list(_MAKE[chart](told if chart == "latency" else filter(_is_round, told)))

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
                    event.kind not in ("kernel", "estimate") or "latency_s" not in body
                ):  # from an older version
                    continue
                so_far = {"number": number, "all_trials": sum(trials.values())}
                yield {**body, **so_far, "kind": event.kind}
            if len(page) < PAGE:
                return
            after = page[-1].seq


def _is_round(row: Row) -> bool:
    return bool(row["kind"] == "round")


def _latency(told: Iterator[Row]) -> Iterator[Row]:
    for row in told:
        yield {
            "round": row["number"], "task": row.get("task"), "trials": row["all_trials"],
            "seconds": row["seconds"], "best_s": row.get("best_s"),
            "latency_s": row.get("latency_s"),
            "measured_in": "race" if row["kind"] == "kernel" else "trials",
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
    "latency": _latency,
    "allocation": _allocation,
    "quality": _quality,
    "failures": _failures,
}
