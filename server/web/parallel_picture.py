"""Parallel coordinates as places in an SVG: a line per trial through its sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ansorpy.plot.parallel import COLUMNS, places, ticks_of
from ansorpy.plot.sized import SizedTrials
from ansorpy.server.web.curve import Tick

WIDTH: Final = 960  # units of the view box
HEIGHT: Final = 300
SIDE: Final = 60  # left and right of the outer axes
TOP: Final = 16
BOTTOM: Final = 64  # room for the names, which are inclined
SHOWN: Final = 150  # lines, of the fastest trials: a page stays small
GROUPS: Final = 4  # colours


@dataclass(frozen=True, slots=True)
class SizeAxis:
    """The axis of a size: its place, and its written values."""

    name: str
    x: float
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class TrialLine:
    """The points of a trial; `group` is 0 for the fastest trials and rises with the time."""

    points: str
    group: int


@dataclass(frozen=True, slots=True)
class ParallelPicture:
    """Axes and lines, the fastest one last; `count` trials of `of` have these sizes."""

    axes: tuple[SizeAxis, ...]
    lines: tuple[TrialLine, ...]
    count: int
    of: int
    best_s: float


def parallel_picture(trials: SizedTrials) -> ParallelPicture | None:
    """Return the picture; None if fewer than two sizes vary."""
    names = trials.names[:COLUMNS]
    if len(names) < 2:
        return None
    values = trials.values[:, : len(names)]
    heights = np.column_stack([places(values[:, n]) for n in range(len(names))])
    xs = np.linspace(SIDE, WIDTH - SIDE, len(names))
    order = np.argsort(trials.times_s)[:SHOWN][::-1]  # the fastest lie on top
    groups = [int(GROUPS * place / len(order)) for place in range(len(order))][::-1]
    lines = [
        TrialLine(_points(xs.tolist(), heights[n].tolist()), group)
        for n, group in zip(order, groups, strict=True)
    ]
    axes = [
        SizeAxis(name, float(x), _ticks(values[:, n].tolist(), heights[:, n].tolist()))
        for n, (name, x) in enumerate(zip(names, xs, strict=True))
    ]
    best_s = float(trials.times_s.min())
    return ParallelPicture(tuple(axes), tuple(lines), len(trials.times_s), trials.of, best_s)


def _y(height: float) -> float:
    return HEIGHT - BOTTOM - height * (HEIGHT - BOTTOM - TOP)


def _points(xs: Sequence[float], heights: Sequence[float]) -> str:
    return " ".join(f"{x:.0f},{_y(y):.1f}" for x, y in zip(xs, heights, strict=True))


def _ticks(values: Sequence[int], heights: Sequence[float]) -> tuple[Tick, ...]:
    found = ticks_of(dict(zip(values, heights, strict=True)))
    return tuple(Tick(_y(height), str(value)) for value, height in found.items())
