"""The latency of record of a task and of a job, and its source; nothing else derives it.

Replies, the list, pages, charts and downloads show these numbers. While a job can go on, its search
so far gives the number. An ended job has the number of its results, else of the newest kernels or
the newest bundle that it has delivered.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ansorpy.events import Timing
from ansorpy.server.db.models import JobRow
from ansorpy.server.jobs.states import ENDED

KERNEL: Final = "delivered"  # the fact of a task with the latency of its newest kernel
BUNDLE: Final = "latency"  # the fact of a model with the latency of its newest bundle


@dataclass(frozen=True, slots=True)
class Latency:
    """A time in seconds with its source; both are None without a time."""

    best_s: float | None = None
    timing: Timing | None = None

    def as_fact(self) -> dict[str, Any]:
        """Return the stored form."""
        return asdict(self)


NO_TIME: Final = Latency()


def of_task(
    progress: Mapping[str, Any], result: Mapping[str, Any] | None = None, ended: bool = False
) -> Latency:
    """Return the latency of a task.

    Args:
        progress: `best_s` is the time of its fastest trial, or of a library that was faster.
        result: None before the task has one.
        ended: the job has ended; without a result its newest kernel counts.
    """
    if result is not None:  # a result of an older version does not tell its source
        return Latency(result.get("best_s"), result.get("timing"))
    best_s, kernel = progress.get("best_s"), progress.get(KERNEL)
    if kernel is not None and (ended or best_s is None):
        return Latency(**kernel)
    return NO_TIME if best_s is None else Latency(best_s, "trial")


def least_s(a: float | None, b: float | None) -> float | None:
    """Return the lesser time; None counts as no time."""
    return min((one for one in (a, b) if one is not None), default=None)


def of_tasks(parts: Iterable[tuple[float, Latency]]) -> Latency:
    """Return the sum by weight, with the source `race` if each part has it; None if one misses."""
    total_s, sources = 0.0, set[Timing | None]()
    for weight, one in parts:
        if one.best_s is None:
            return NO_TIME
        total_s += weight * one.best_s
        sources.add(one.timing)
    if not sources:
        return NO_TIME
    return Latency(total_s, sources.pop() if len(sources) == 1 else "trial")


def of_job(row: JobRow, parts: Iterable[tuple[float, Latency]]) -> Latency:
    """Return the latency of a job.

    Args:
        parts: weight and latency of each task; not read of a model, whose bundle counts.
    """
    if row.model is None:
        return of_tasks(parts)
    told: Mapping[str, Any] = json.loads(row.model_facts or "{}")
    bundle = told.get(BUNDLE)
    if bundle is not None and (row.state in ENDED or bundle["timing"] == "race"):
        return Latency(**bundle)
    return NO_TIME if row.best_s is None else Latency(row.best_s, "estimate")
