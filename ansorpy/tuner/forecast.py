"""The forecast of the gain of as many trials again, from the doublings of past jobs.

The curve of a job has the best time so far after every trial. A doubling compares the best time
after n trials with that after 2 n. The forecast is the median gain over the doublings of past jobs,
of jobs of similar length if there are enough. A fit of the gain on that of the doubling before is
worse than the median on held-out jobs (ADR-0163), so that there is no fit.

The error is that of forecasts for each past job from all other ones (leave one out).
"""

from collections.abc import Sequence
from math import isfinite
from statistics import median, quantiles
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.events import Forecast
from ansorpy.records import RecordStore
from ansorpy.records.store import Curve
from ansorpy.tuner.task import Task

FIRST: Final = 16  # trials before the first doubling: earlier, the search has hardly begun
JOBS: Final = 64  # past jobs that are looked at, the most recent ones
NEAR: Final = 2  # ratio of the trials of similar doublings, at most
LEAST: Final = 8  # similar doublings that suffice; with fewer, all doublings count

Doubling = tuple[int, float]  # trials before, and the share of the time that was saved


def past(store: RecordStore, tasks: Sequence[Task]) -> list[list[Doubling]]:
    """Return the doublings of each past job in a store that has some, without those of `tasks`."""
    curves = store.curves(JOBS, frozenset(task.key for task in tasks))
    return [found for found in map(doublings, curves) if found]


def forecast_of(task: Task, jobs: Sequence[Sequence[Doubling]]) -> Forecast | None:
    """Return the forecast of as many trials again; None unless the task has FIRST timed trials.

    Times of a measuring back end of another package have none.

    Args:
        jobs: doublings of each past job.
    """
    count = len(task.times_s)
    if task.estimated or task.measured_by or task.fixed or count < FIRST or task.best_s is None:
        return None
    if not jobs:
        return Forecast(count, None, None, None, 0)
    gains = similar(count, [one for job in jobs for one in job])
    upper = quantiles(gains, n=4)[2] if len(gains) > 1 else None
    return Forecast(count, median(gains), upper, held_out_error(jobs), len(jobs))


def forecast_of_sum(parts: Sequence[tuple[float, Forecast]]) -> Forecast | None:
    """Return the forecast of a sum of times, such as that of a model; None without parts.

    Gain and error are sums over the parts: the error is that of parts which all err in one
    direction, so that it is too large rather than too small.

    Args:
        parts: the share of each part in the sum, and its forecast. The rest of the sum stays.
    """
    if not parts:
        return None
    return Forecast(
        sum(one.trials for _, one in parts),
        _summed([(share, one.gain) for share, one in parts]),
        None,
        _summed([(share, one.error) for share, one in parts]),
        max(one.jobs for _, one in parts),
    )


def _summed(parts: Sequence[tuple[float, float | None]]) -> float | None:
    known = [share * value for share, value in parts if value is not None]
    return sum(known) if len(known) == len(parts) else None


def so_far(times_s: Curve) -> npt.NDArray[np.float64]:
    """Return the best time after every trial in seconds, shape (n,), infinite before the first."""
    return np.minimum.accumulate(np.array([*times_s], np.float64)) if times_s else np.zeros(0)


def doublings(times_s: Curve) -> list[Doubling]:
    """Return the doublings of a curve at FIRST, 2 FIRST, 4 FIRST ... trials."""
    best_s = so_far(times_s)
    found: list[Doubling] = []
    at = FIRST
    while 2 * at <= len(best_s):
        before_s, after_s = float(best_s[at - 1]), float(best_s[2 * at - 1])
        if isfinite(before_s):
            found.append((at, 1.0 - after_s / before_s))
        at *= 2
    return found


def similar(count: int, learned: Sequence[Doubling]) -> list[float]:
    """Return the gains of doublings near `count` trials, of all doublings if these are few."""
    near = [gain for at, gain in learned if count <= NEAR * at and at <= NEAR * count]
    return near if len(near) >= LEAST else [gain for _, gain in learned]


def held_out_error(jobs: Sequence[Sequence[Doubling]]) -> float | None:
    """Return the median absolute error of the forecast gain, each job held out once.

    None with fewer than two jobs.
    """
    if len(jobs) < 2:
        return None
    errors: list[float] = []
    for number, held in enumerate(jobs):
        rest = [one for other, job in enumerate(jobs) if other != number for one in job]
        errors += [abs(median(similar(at, rest)) - gain) for at, gain in held]
    return median(errors)
