"""Machine code of the fastest trials, which is timed once more in the end."""

from typing import Final

from ansorpy.measure.backend import Built
from ansorpy.measure.workers.worker_main import BuildJob

KEPT: Final = 32  # each some tens of kilobytes


class Kept:
    """What was built for the fastest trials of a task; the others are forgotten."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._built: dict[BuildJob, tuple[float, Built]] = {}

    def offer(self, job: BuildJob, built: Built, cost_s: float) -> None:
        """Keep this, and let go of the slowest where there are too many."""
        self._built.setdefault(job, (cost_s, built))
        if len(self._built) > self._limit:
            slowest, _ = max(self._built.items(), key=lambda one: one[1][0])
            del self._built[slowest]

    def of(self, job: BuildJob) -> Built | None:
        """Return what was built, None where it is not kept."""
        _, built = self._built.get(job, (0.0, None))
        return built
