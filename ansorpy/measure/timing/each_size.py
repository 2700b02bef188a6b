"""Calls at several sizes of dims as one: its time is the weighted mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansorpy.measure.timing.side_by_side import SideBySide, spent


@dataclass(frozen=True, slots=True)
class EachSize:
    """One call at each size; a sample of it is the mean over the sizes by their weights."""

    calls: Sequence[Callable[[], object]]
    weights: Sequence[float]

    def __call__(self) -> None:
        """Call once at each size."""
        for call in self.calls:
            call()

    def mean_s(
        self, loops: int, clock: Callable[[], float], switches: Callable[[], int]
    ) -> tuple[float, int]:
        """Return the weighted mean of the seconds of a call, and the preemptions.

        Calls of equal weights take turns, `loops` times. Of others, and of copies side by side,
        each size has the number of calls that is due to its weight, at least 1.
        """
        together = any(isinstance(call, SideBySide) for call in self.calls)
        if len(set(self.weights)) == 1 and not together:
            seconds, preempted = spent(self, loops, clock, switches)
            return seconds / (loops * len(self.calls)), preempted
        mean_s, all_preempted, total = 0.0, 0, sum(self.weights)
        for call, weight in zip(self.calls, self.weights, strict=True):
            share = weight / total
            count = max(1, round(loops * len(self.calls) * share))
            seconds, preempted = spent(call, count, clock, switches)
            mean_s += share * seconds / count
            all_preempted += preempted
        return mean_s, all_preempted
