"""A race that is held again while the machine is slow."""

from collections.abc import Callable, Mapping
from math import inf
from statistics import median
from typing import Final

from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.verdict import BUSY

RACES: Final = 3  # races at most, on a busy machine


def calm_race(
    hold: Callable[[], dict[str, Times | Failed]],
    costs_s: Mapping[str, float | None],
    late: Callable[[], bool],
) -> tuple[dict[str, Times | Failed], float]:
    """Hold a race, again while the machine is slow, RACES times at most; return the calmest.

    Args:
        costs_s: of the finalists by name, in seconds: their times in trials on a quiet machine.
        late: once it says so, no race is repeated.

    Returns:
        The times of the race, and the slowdown of the machine during it.
    """
    best: tuple[dict[str, Times | Failed], float] = {}, inf
    for _ in range(RACES):
        times = hold()
        slowdown = slowdown_of(times, costs_s)
        if slowdown < best[1]:
            best = times, slowdown
        if best[1] <= BUSY or late():
            break
    return best


def slowdown_of(times: Mapping[str, Times | Failed], costs_s: Mapping[str, float | None]) -> float:
    """Return how many times as long finalists took in a race as in trials: the median.

    A cost is corrected for the machine (ADR-0074), a time of a race is not. 1.0 without a finalist
    of both; never below, because costs are the luckiest of many.
    """
    ratios = [
        found.median_s / cost_s
        for name, cost_s in costs_s.items()
        if cost_s and isinstance(found := times.get(name), Times)
    ]
    return max(1.0, median(ratios)) if ratios else 1.0
