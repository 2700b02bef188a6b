"""Calls at several sizes of dims as one: its time is the weighted mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EachSize:
    """One call at each size; a sample of it is the mean over the sizes by their weights."""

    calls: Sequence[Callable[[], object]]
    weights: Sequence[float]

    def __call__(self) -> None:
        """Call once at each size."""
        for call in self.calls:
            call()

    def mean_s(self, loops: int, clock: Callable[[], float]) -> float:
        """Return the weighted mean of the seconds of a call, after `loops` calls per size.

        Calls of equal weights take turns. Of others, each size has the number of calls that is due
        to its weight, at least 1.
        """
        if len(set(self.weights)) == 1:
            start = clock()
            for _ in range(loops):
                self()
            return (clock() - start) / (loops * len(self.calls))
        mean_s, total = 0.0, sum(self.weights)
        for call, weight in zip(self.calls, self.weights, strict=True):
            share = weight / total
            count = max(1, round(loops * len(self.calls) * share))
            start = clock()
            for _ in range(count):
                call()
            mean_s += share * (clock() - start) / count
        return mean_s
