"""The best latency against the number of trials: a panel per workload, a band per search."""

from collections.abc import Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.common import at_budget

FloatArray = npt.NDArray[np.float64]

COLOURS: Final = ("#0072b2", "#d55e00")  # distinct for colour-blind readers


def bands(curves: Sequence[Sequence[float]]) -> tuple[list[float], list[float], list[float]]:
    """Return median, least and most over the seeds after every trial; inf becomes NaN."""
    count = max(map(len, curves))
    values = np.array([[at_budget(curve, n + 1) for n in range(count)] for curve in curves])
    middle = np.median(values, axis=0)

    def drawn(line: FloatArray) -> list[float]:
        return [float(value) if value < inf else nan for value in line]

    return drawn(middle), drawn(values.min(axis=0)), drawn(values.max(axis=0))


def draw(
    path: Path,
    curves: Mapping[str, Mapping[str, Sequence[Sequence[float]]]],
    titles: Mapping[str, str],
) -> None:
    """Write the plot: lines are medians over the seeds, bands reach from least to most."""
    if not curves:
        return
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(curves), figsize=(3.6 * len(curves), 3.4), squeeze=False, layout="constrained"
    )
    for panel, (workload, both) in zip(axes[0], curves.items(), strict=True):
        for colour, (strategy, lines) in zip(COLOURS, both.items(), strict=True):
            _band(panel, lines, strategy, colour)
        panel.set_title(titles[workload], fontsize=8)
        panel.set_yscale("log")
        panel.set_xlabel("trials")
        panel.grid(visible=True, which="both", alpha=0.25)
    axes[0][0].set_ylabel("best latency, ms")
    axes[0][0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _band(panel: Any, lines: Sequence[Sequence[float]], label: str, colour: str) -> None:
    middle, low, high = (np.array(line) * 1e3 for line in bands(lines))
    trials = np.arange(1, len(middle) + 1)
    panel.plot(trials, middle, color=colour, label=f"{label} ({len(lines)} seeds)")
    panel.fill_between(trials, low, high, color=colour, alpha=0.2, linewidth=0)
