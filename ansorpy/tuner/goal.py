"""When a search is good enough, or no longer worth it."""

from collections.abc import Mapping, Sequence
from typing import Final

from ansorpy.tuner.task import Task

WINDOW: Final = 64  # trials over which a gain must show, at least
WINDOW_SHARE: Final = 0.25  # of all trials so far


class Goal:
    """Watches the weighted latency of all tasks.

    target_s     reached: nothing more to do
    min_gain     the last WINDOW_SHARE of the trials (at least WINDOW) lowered the latency by a
                 smaller share than this
    rest_s       of tasks that are not searched
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        target_s: float | None = None,
        min_gain: float | None = None,
        rest_s: float = 0.0,
    ) -> None:
        self._weights = weights
        self._target_s = target_s
        self._min_gain = min_gain
        self._rest_s = rest_s
        self.latencies: list[tuple[int, float]] = []  # trials, seconds; after every round

    def note(self, tasks: Sequence[Task]) -> None:
        """Take in where the tasks stand after a round."""
        latency_s = self.latency_s(tasks)
        if latency_s is not None:
            self.latencies.append((sum(task.trials for task in tasks), latency_s))

    def latency_s(self, tasks: Sequence[Task]) -> float | None:
        """Return the weighted sum of the best times; None while a task has none."""
        bests = [(self._weights.get(task.name, 1.0), task.best_s) for task in tasks]
        known = [weight * best_s for weight, best_s in bests if best_s is not None]
        return self._rest_s + sum(known) if len(known) == len(bests) else None

    @property
    def reached(self) -> bool:
        """Whether the latency is as good as was wanted."""
        return bool(
            self._target_s is not None
            and self.latencies
            and self.latencies[-1][1] <= self._target_s
        )

    @property
    def stale(self) -> bool:
        """Whether the last trials gained too little."""
        if self._min_gain is None or not self.latencies:
            return False
        trials, latency_s = self.latencies[-1]
        window = max(WINDOW, WINDOW_SHARE * trials)
        before = [old_s for at, old_s in self.latencies if at <= trials - window]
        return bool(before) and latency_s > before[-1] * (1.0 - self._min_gain)
