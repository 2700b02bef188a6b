"""Parallel coordinates: a line per trial through its sizes, coloured by its time."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.errors import SpecError
from ansorpy.plot.canvas import BEST, plain_ticks, unit_of
from ansorpy.plot.sized import sized_trials
from ansorpy.plot.subject import Subject

COLUMNS: Final = 14  # sizes that are drawn; more do not fit
GAP: Final = 0.05  # least distance of two values beside an axis, as a share of its height
COLOURS: Final = "viridis"

FloatArray = npt.NDArray[np.float64]


def draw_parallel(subject: Subject, ax: Any) -> None:
    """Draw the trials of one form of the loops; the fastest ones lie on top.

    Raises:
        SpecError: fewer than two sizes vary.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    trials = sized_trials(subject).varied()
    if len(trials.names) < 2:
        raise SpecError(
            f"cannot plot the sizes of {subject.name} because {len(trials.names)} of them vary in"
            " its trials; expected 2"
        )
    names, values = trials.names[:COLUMNS], trials.values[:, :COLUMNS]
    heights = np.column_stack([places(values[:, n]) for n in range(len(names))])
    unit, unit_s = unit_of(float(trials.times_s.min()))
    times = trials.times_s / unit_s
    norm = LogNorm(times.min(), max(times.max(), 1.01 * times.min()))
    colours = ScalarMappable(norm, COLOURS)
    order = np.argsort(-times)
    for place, n in enumerate(order):
        last = place == len(order) - 1
        ax.plot(range(len(names)), heights[n], color=BEST if last else colours.to_rgba(times[n]),
                linewidth=2.6 if last else 1.0, alpha=1.0 if last else 0.6)  # fmt: skip
    _axes(ax, names, values)
    bar = ax.figure.colorbar(colours, ax=ax, pad=0.03)
    bar.set_label(f"time of a call ({unit}, logarithmic)", fontsize=9)
    plain_ticks(bar.ax.yaxis)
    ax.set_title(
        f"{subject.name}: sizes of {len(times)} of {trials.of} trials; orange: the fastest,"
        f" {times.min():.4g} {unit}",
        fontsize=10,
    )


def places(column: npt.NDArray[np.int64]) -> FloatArray:
    """Return heights from 0 to 1: logarithmic, because sizes are factors of extents."""
    logs = np.log2(1.0 + column)
    heights: FloatArray = (logs - logs.min()) / np.ptp(logs)
    return heights


def _axes(ax: Any, names: tuple[str, ...], values: npt.NDArray[np.int64]) -> None:
    for n in range(len(names)):
        ax.axvline(n, color="black", linewidth=0.8, zorder=3)
        heights = dict(zip(values[:, n].tolist(), places(values[:, n]).tolist(), strict=True))
        for tick, height in ticks_of(heights).items():
            ax.annotate(str(tick), (n, height), (3, 0), textcoords="offset points",
                        va="center", fontsize=7, zorder=4,
                        bbox={"facecolor": "white", "alpha": 0.75, "pad": 0.6, "linewidth": 0},
                        )  # fmt: skip
    ax.set_xticks(range(len(names)), names, rotation=25, ha="right", fontsize=8)
    ax.set_yticks([])
    ax.set_xlim(-0.15, len(names) - 0.6)
    ax.set_ylim(-0.04, 1.04)
    for side in ("top", "left", "right", "bottom"):
        ax.spines[side].set_visible(False)


def ticks_of(heights: Mapping[int, float]) -> dict[int, float]:
    """Return the values that are written: the largest, and others with room between them."""
    kept = {max(heights): 1.0}
    for value in sorted(heights):
        if all(abs(heights[value] - other) >= GAP for other in kept.values()):
            kept[value] = heights[value]
    return kept
