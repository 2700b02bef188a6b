"""The times of trials in their order, and the best time so far."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ansorpy.records import Record


@dataclass(frozen=True, slots=True)
class TrialCurve:
    """Trials by number, from 1: times in seconds, numbers of failures, and the best so far.

    `best_s` has a time for each number of `timed`; it never rises.
    """

    timed: tuple[int, ...]
    times_s: tuple[float, ...]
    failed: tuple[int, ...]
    count: int

    @property
    def best_s(self) -> tuple[float, ...]:
        """The best time after each trial with a time."""
        return tuple(accumulate(self.times_s, min))


def curve_of(trials: Sequence[Record]) -> TrialCurve:
    """Return the curve of trials, oldest first."""
    times_s = {n: one.best_s for n, one in enumerate(trials, 1) if one.best_s is not None}
    failed = tuple(n for n in range(1, len(trials) + 1) if n not in times_s)
    return TrialCurve(tuple(times_s), tuple(times_s.values()), failed, len(trials))
