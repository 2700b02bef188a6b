"""Machine code of the fastest trials, which is timed once more in the end."""

import heapq
from itertools import count
from typing import Final

from ansorpy.measure.backend import Built
from ansorpy.measure.child import BuildJob

KEPT: Final = 32  # each some tens of kilobytes


class Kept:
    """What was built for the fastest trials of a task; the others are forgotten."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._built: dict[BuildJob, Built] = {}
        self._slowest: list[tuple[float, int, BuildJob]] = []  # a heap by falling cost
        self._order = count()

    def offer(self, job: BuildJob, built: Built, cost_s: float) -> None:
        """Keep this, and let go of the slowest where there are too many."""
        if job in self._built:
            return
        self._built[job] = built
        heapq.heappush(self._slowest, (-cost_s, next(self._order), job))
        if len(self._built) > self._limit:
            del self._built[heapq.heappop(self._slowest)[2]]

    def of(self, job: BuildJob) -> Built | None:
        """Return what was built, None where it is not kept."""
        return self._built.get(job)
