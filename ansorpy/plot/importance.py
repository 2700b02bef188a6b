"""Importance: by how much each size decides the time, by permutation on trees."""

from typing import Any, Final

import numpy as np

from ansorpy.cost.importance import permutation_importance
from ansorpy.errors import SpecError
from ansorpy.plot.canvas import OURS
from ansorpy.plot.sized import sized_trials
from ansorpy.plot.subject import Subject

LEAST: Final = 16  # trials from which on a quarter of them can be held out
SHOWN: Final = 12  # columns that are drawn, the most important ones


def draw_importance(subject: Subject, ax: Any) -> None:
    """Draw a bar per size: the rise of the error if its values are shuffled.

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
    order = np.argsort(-measured.shares)[:SHOWN][::-1]
    shares = 100 * np.maximum(measured.shares[order], 0.0)
    ax.barh(range(len(order)), shares, color=OURS, height=0.65)
    ax.set_yticks(range(len(order)), [trials.names[n] for n in order], fontsize=8)
    for place, share in enumerate(shares):
        ax.annotate(f"{share:.0f} %", (share, place), (4, 0), textcoords="offset points",
                    va="center", fontsize=8)  # fmt: skip
    ax.margins(x=0.12)
    ax.set_xlim(left=0)
    ax.set_xlabel("rise of the squared error if shuffled (% of the variance of log time)")
    explained = 100 * max(0.0, measured.explained)
    ax.set_title(
        f"{subject.name}: importance of sizes in {count} of {trials.of} trials,"
        f" {explained:.0f} % explained",
        fontsize=10,
    )
    ax.grid(visible=True, axis="x", alpha=0.25)
