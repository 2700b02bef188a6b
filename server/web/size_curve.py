"""The curve of the time of a kernel over the sizes of a dim, as places in an SVG."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, floor, log10
from typing import Final

from ansorpy.server.schemas.job import SizeReply
from ansorpy.server.web.filters import latency

WIDTH: Final = 360  # units of the view box, about the pixels of a telephone: letters stay legible
HEIGHT: Final = 220
LEFT: Final = 58  # room for the labels of times
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 28
COLOURS: Final = 2  # kernels of neighbouring ranges differ
WIDE: Final = 8  # ratio of the ends of a range from which on both axes are logarithmic
MOST_TICKS: Final = 6
LABEL: Final = 26  # least distance of the labels of sizes

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class SizeDot:
    """A time in the picture, with its text."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class SizeLine:
    """The times of the kernel of a range, or of NumPy; `kind` is the class of its style."""

    name: str
    kind: str
    dots: tuple[SizeDot, ...]

    @property
    def points(self) -> str:
        """The places as an SVG polyline has them."""
        return " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in self.dots)


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis and its label."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Lines and ticks of a curve; `dim` names the sizes, `scale` tells how they are spaced."""

    dim: str
    scale: str
    lines: tuple[SizeLine, ...]
    sizes: tuple[Tick, ...]
    times: tuple[Tick, ...]


def size_curve(timed: Sequence[SizeReply]) -> SizeCurve | None:
    """Return the curve of the first dim; None with fewer than two sizes."""
    if len(timed) < 2:
        return None
    dim = next(iter(timed[0].sizes))
    sizes = [one.sizes[dim] for one in timed]
    numpy = [one for one in timed if one.numpy_s is not None]
    seconds = [one.best_s for one in timed] + [one.numpy_s or one.best_s for one in numpy]
    wide = max(sizes) >= WIDE * min(sizes)
    x = _scale(min(sizes), max(sizes), LEFT, WIDTH - RIGHT, wide)
    low, high = (min(seconds) / 1.2, max(seconds) * 1.2) if wide else (0.0, max(seconds) * 1.1)
    y = _scale(low, high, HEIGHT - BOTTOM, TOP, wide)

    def dots(of: Sequence[SizeReply], time_s: Callable[[SizeReply], float]) -> tuple[SizeDot, ...]:
        return tuple(
            SizeDot(x(one.sizes[dim]), y(time_s(one)), f"{_sizes(one)}: {latency(time_s(one))}")
            for one in of
        )

    ranges = [(name, list(of)) for name, of in groupby(timed, lambda one: one.kernel_for)]
    lines = [
        SizeLine(
            f"kernel for {name}", f"kernel-{number % COLOURS}", dots(of, lambda one: one.best_s)
        )
        for number, (name, of) in enumerate(ranges)
    ]
    if numpy:
        lines.append(SizeLine("NumPy", "numpy", dots(numpy, lambda one: one.numpy_s or 0.0)))
    ends = [of[place].sizes[dim] for _, of in ranges for place in (0, -1)]
    return SizeCurve(
        dim,
        "logarithmic" if wide else "linear",
        tuple(lines),
        tuple(_apart([Tick(x(size), str(size)) for size in dict.fromkeys(ends)])),
        tuple(Tick(y(s), latency(s)) for s in (_decades if wide else _steps)(low, high)),
    )


def _sizes(timed: SizeReply) -> str:
    return ", ".join(f"{name} = {size}" for name, size in timed.sizes.items())


def _scale(low: float, high: float, begin: float, end: float, logarithmic: bool) -> Scale:
    if logarithmic:
        flat = _scale(log10(low), log10(high), begin, end, False)
        return lambda value: flat(log10(value))
    return lambda value: begin + (value - low) / ((high - low) or 1.0) * (end - begin)


def _decades(low: float, high: float) -> list[float]:
    """Return round times: the densest of 1, 2, 5; 1, 3; and 1 times powers of 10 that fits."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [n * 10.0**power for power in decades for n in digits]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= MOST_TICKS:
            break
    return inside


def _steps(low: float, high: float) -> list[float]:
    """Return multiples of the least round step that are few enough."""
    power = 10.0 ** floor(log10((high - low) / MOST_TICKS))
    step = next(n * power for n in (1, 2, 5, 10) if (high - low) / (n * power) <= MOST_TICKS)
    return [k * step for k in range(1, floor(high / step) + 1)]


def _apart(ticks: Sequence[Tick]) -> Iterator[Tick]:
    """Yield ticks whose labels do not touch; the last one is always there."""
    last = ticks[-1]
    before = -LABEL * 1.0
    for tick in ticks[:-1]:
        if tick.at - before >= LABEL and last.at - tick.at >= LABEL:
            before = tick.at
            yield tick
    yield last
