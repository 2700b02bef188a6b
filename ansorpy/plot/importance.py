"""Importance: by how much each size decides the time, by permutation on trees."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ansorpy.cost.importance import permutation_importance
from ansorpy.errors import SpecError
from ansorpy.plot.canvas import OURS
from ansorpy.plot.sized import sized_trials
from ansorpy.plot.subject import Subject

LEAST: Final = 16  # trials from which on a quarter of them can be held out
SHOWN: Final = 12  # columns that are drawn, the most important ones


@dataclass(frozen=True)
class SizeImportance:
    """The importance of sizes, the greatest first, as shares of the variance of the log time.

    Args:
        shares: by size, 0 or more: the rise of the squared error if the size is shuffled.
        explained: the part of the variance that the trees explain, from 0 to 1.
        count: number of trials with equal names of sizes, among `of` trials with times.
    """

    shares: Mapping[str, float]
    explained: float
    count: int
    of: int


def importance_of(subject: Subject) -> SizeImportance:
    """Return the importance of at most SHOWN sizes.

    The trees estimate the logarithm of the time, on trials that they were not grown from.

    Raises:
        SpecError: too few trials, or all of them have equal sizes or times.
    """
    trials = sized_trials(subject).varied()
    count = len(trials.times_s)
    if count < LEAST or not trials.names or np.ptp(trials.times_s) == 0:
        raise SpecError(
            f"cannot rank the sizes of {subject.name} because {count} trials with a time and equal"
            f" loops are on record; expected {LEAST} that differ in sizes and times"
        )
    measured = permutation_importance(
        trials.values.astype(np.float32), np.log(trials.times_s), np.random.default_rng(0)
    )
    order = np.argsort(-measured.shares)[:SHOWN]
    shares = {trials.names[n]: max(0.0, float(measured.shares[n])) for n in order}
    return SizeImportance(shares, max(0.0, measured.explained), count, trials.of)


def draw_importance(subject: Subject, ax: Any) -> None:
    """Draw a bar per size: the rise of the error if its values are shuffled.

    Raises:
        SpecError: as of `importance_of`.
    """
    found = importance_of(subject)
    names, shares = list(found.shares)[::-1], [100 * one for one in found.shares.values()][::-1]
    ax.barh(range(len(names)), shares, color=OURS, height=0.65)
    ax.set_yticks(range(len(names)), names, fontsize=8)
    for place, share in enumerate(shares):
        ax.annotate(f"{share:.0f} %", (share, place), (4, 0), textcoords="offset points",
                    va="center", fontsize=8)  # fmt: skip
    ax.margins(x=0.12)
    ax.set_xlim(left=0)
    ax.set_xlabel("rise of the squared error if shuffled (% of the variance of log time)")
    ax.set_title(
        f"{subject.name}: importance of sizes in {found.count} of {found.of} trials,"
        f" {100 * found.explained:.0f} % explained",
        fontsize=10,
    )
    ax.grid(visible=True, axis="x", alpha=0.25)
