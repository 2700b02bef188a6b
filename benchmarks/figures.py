"""Figures of the benchmarks: SVG files that are equal for equal rows, and bars of ratios."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

US, THEM, GREY = "#0072b2", "#d55e00", "#9a9a9a"  # distinct for colour-blind readers
MOST: Final = 4.0  # the largest ratio that is drawn to scale


@contextmanager
def figure(path: Path, *grid: int, **more: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes; it is written to `path` afterwards."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"font.size": 8, "svg.hashsalt": "suite", "axes.spines.top": False})
    made, axes = pyplot.subplots(*grid, squeeze=False, layout="constrained", **more)
    yield made, axes
    made.savefig(path, metadata={"Date": None})
    pyplot.close(made)


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio in a line of a panel; `others` are drawn as grey dots beside it."""

    at: int
    ratio: float
    label: str
    others: Sequence[float] = ()


def ratio_bars(panel: Any, bars: Sequence[Bar], title: str) -> None:
    """Draw bars from 1: to the right if we are faster; `title` names the ratios."""
    for bar in bars:
        shown = [value for value in bar.others if value <= MOST]
        panel.scatter(shown, [bar.at] * len(shown), s=7, color=GREY, zorder=2, linewidths=0)
        panel.barh(bar.at, bar.ratio - 1, left=1, height=0.7, zorder=3,
                   color=US if bar.ratio >= 1 else THEM)  # fmt: skip
        panel.text(
            min(max(bar.ratio, 1.0) * 1.02, MOST * 0.8), bar.at, bar.label, va="center",
            fontsize=6, zorder=4,
            bbox={"facecolor": "white", "alpha": 0.75, "pad": 0.4, "linewidth": 0},
        )  # fmt: skip
    panel.axvline(1, color="black", linewidth=0.8, zorder=5)
    panel.set_xscale("log", base=2)
    panel.set_xlim(0.45, MOST)
    ticks = [0.5, 0.7, 1, 1.4, 2, 2.8, 4]
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set_xlabel(title)
    panel.grid(visible=True, axis="x", alpha=0.3)


def name_lines(panel: Any, names: Sequence[str]) -> None:
    """Name the lines of a panel of bars, the first one at the top."""
    panel.set_yticks(range(len(names)), names, fontsize=7)
    panel.set_ylim(len(names) - 0.4, -0.6)
