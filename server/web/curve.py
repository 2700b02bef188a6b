"""Places in the SVG of a curve: scales, ticks, lines."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

WIDTH: Final = 360  # units of the view box, about the pixels of a telephone: letters stay legible
HEIGHT: Final = 220
LEFT: Final = 58  # room for the labels of times
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 28
MOST_TICKS: Final = 6
LABEL: Final = 26  # least distance of the labels of a horizontal axis

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class CurveDot:
    """A value in the picture, with its text."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class CurveLine:
    """The values of a line; `kind` is the class of its style."""

    name: str
    kind: str
    dots: tuple[CurveDot, ...]

    @property
    def points(self) -> str:
        """The places as an SVG polyline has them."""
        return " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in self.dots)


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis and its label."""

    at: float
    label: str


def scale(low: float, high: float, begin: float, end: float, logarithmic: bool) -> Scale:
    """Return the map of values from `low` to `high` to places from `begin` to `end`."""
    if logarithmic:
        flat = scale(log10(low), log10(high), begin, end, False)
        return lambda value: flat(log10(value))
    return lambda value: begin + (value - low) / ((high - low) or 1.0) * (end - begin)


def steps(low: float, high: float) -> list[float]:
    """Return multiples of the least round step that are few enough."""
    power = 10.0 ** floor(log10((high - low) / MOST_TICKS))
    step = next(n * power for n in (1, 2, 5, 10) if (high - low) / (n * power) <= MOST_TICKS)
    return [k * step for k in range(1, floor(high / step) + 1)]


def apart(ticks: Sequence[Tick]) -> Iterator[Tick]:
    """Yield ticks whose labels do not touch; the last one is always there."""
    last = ticks[-1]
    before = -LABEL * 1.0
    for tick in ticks[:-1]:
        if tick.at - before >= LABEL and last.at - tick.at >= LABEL:
            before = tick.at
            yield tick
    yield last


def decades(low: float, high: float) -> list[float]:
    """Return round times: the densest of 1, 2, 5; 1, 3; and 1 times powers of 10 that fits."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [n * 10.0**power for power in decades for n in digits]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= MOST_TICKS:
            break
    return inside
