"""Our search against MetaSchedule, 64 trials each: curves, and times to reach a result."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from benchmarks.common import Row, finite, running_best
from benchmarks.suite.cases import DUEL
from benchmarks.suite.contestants import DUEL_TRIALS, METASCHEDULE, OURS_64, OURS_64_WINOGRAD
from benchmarks.suite.metaschedule import info_of, tuning_of
from benchmarks.suite.summary import time_s
from benchmarks.suite.tune import Wanted

Point = tuple[float, int, float]  # seconds since the request, trials so far, best seconds


@dataclass(frozen=True, slots=True)
class Duel:
    """One case at one number of threads."""

    case: str
    threads: int
    ours: tuple[Point, ...]
    theirs: tuple[Point, ...]
    our_tuning_s: float
    their_tuning_s: float
    our_s: float | None  # seconds of our kernel, from the contest
    their_s: float | None
    winograd_s: float | None = None  # seconds of our kernel with Winograd allowed

    @property
    def ratio(self) -> float | None:
        """Speed-up of our kernel over theirs."""
        if self.our_s is None or self.their_s is None:
            return None
        return self.their_s / self.our_s

    @property
    def ratio_with_winograd(self) -> float | None:
        """Speed-up with Winograd allowed, if its transforms apply."""
        if self.winograd_s is None or self.their_s is None:
            return self.ratio
        return self.their_s / self.winograd_s

    @property
    def goal_s(self) -> float:
        """Their result after all trials: from the contest or from their own curve, the faster."""
        return min(self.their_s or inf, self.theirs[-1][2] if self.theirs else inf)

    @property
    def reached_s(self) -> float | None:
        """Seconds of our search until their result, None if it was not reached."""
        return next((s for s, _, best_s in self.ours if best_s <= self.goal_s), None)

    @property
    def share(self) -> float | None:
        """`reached_s` as a share of their tuning time."""
        return None if self.reached_s is None else self.reached_s / self.their_tuning_s


def our_curve(facts: Mapping[str, Any], end_s: float | None = None) -> tuple[Point, ...]:
    """Return the curve of a tuning of ours (`suite.tune`): first answer, then trial by trial.

    Args:
        end_s: time of the kernel in the contest. Trials are timed relative to a reference
            kernel (ADR-0074), and share one wrong factor if its first samples were disturbed:
            they are scaled so that the curve ends here.
    """
    points = [(s, trials, inf if b is None else b) for s, trials, b in facts["curve"]]
    first_s = min((b for _, trials, b in points if not trials), default=inf)
    trials_s = [b for _, trials, b in points if trials and first_s != b < inf]
    scale = end_s / trials_s[-1] if end_s is not None and trials_s else 1.0
    return tuple(
        (s, trials, min(first_s, b if b == first_s else b * scale) if trials else b)
        for s, trials, b in points
    )


def their_curve(info: Mapping[str, Any]) -> tuple[Point, ...]:
    """Return the curve of MetaSchedule: one point per trial, at the end of its batch.

    A batch is built and run as a whole: the end of a single trial is unknown.
    """
    batches: Sequence[Mapping[str, Any]] = info["batches"]
    costs = [inf if cost is None else cost for batch in batches for cost in batch["costs_s"]]
    when = [batch["seconds"] for batch in batches for _ in batch["costs_s"]]
    best = running_best(costs)
    return tuple((s, at + 1, b) for at, (s, b) in enumerate(zip(when, best, strict=True)))


def collected(rows: Sequence[Row], seed: int) -> list[Row]:
    """Return the duels of merged rows, in the form of the result file."""
    found = []
    for row in rows:
        if row["case"] in DUEL:
            case, threads = row["case"], row["threads"]
            curve = Wanted(case, OURS_64, threads, DUEL_TRIALS, None, seed).curve
            info = info_of(tuning_of(case, threads, seed))
            if curve.exists() and info is not None and "batches" in info:
                found.append(_collected(row, json.loads(curve.read_text()), info))
    return found


def _collected(row: Row, facts: Mapping[str, Any], info: Mapping[str, Any]) -> Row:
    return {
        "case": row["case"],
        "threads": row["threads"],
        "ours": [[s, n, finite(b)] for s, n, b in our_curve(facts, time_s(row, OURS_64))],
        "theirs": [[s, n, finite(b)] for s, n, b in their_curve(info)],
        "our_tuning_s": facts["tune_s"],
        "their_tuning_s": info["seconds"],
        "our_s": time_s(row, OURS_64),
        "their_s": time_s(row, METASCHEDULE),
        "winograd_s": time_s(row, OURS_64_WINOGRAD),
    }


def read(row: Mapping[str, Any]) -> Duel:
    """Return a duel of the result file."""
    curves = {
        name: tuple((s, n, inf if b is None else b) for s, n, b in row[name])
        for name in ("ours", "theirs")
    }
    return Duel(**{**row, **curves})
