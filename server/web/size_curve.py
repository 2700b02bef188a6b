"""The curve of the time of a kernel over the sizes of a dim, as places in an SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from ansorpy.server.schemas.job import SizeReply
from ansorpy.server.web.curve import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    CurveDot,
    CurveLine,
    Tick,
    apart,
    decades,
    scale,
    steps,
)
from ansorpy.server.web.filters import latency

COLOURS: Final = 2  # kernels of neighbouring ranges differ
WIDE: Final = 8  # ratio of the ends of a range from which on both axes are logarithmic


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Lines and ticks of a curve; `dim` names the sizes, `scale` tells how they are spaced."""

    dim: str
    scale: str
    lines: tuple[CurveLine, ...]
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
    x = scale(min(sizes), max(sizes), LEFT, WIDTH - RIGHT, wide)
    low, high = (min(seconds) / 1.2, max(seconds) * 1.2) if wide else (0.0, max(seconds) * 1.1)
    y = scale(low, high, HEIGHT - BOTTOM, TOP, wide)

    def dots(of: Sequence[SizeReply], time_s: Callable[[SizeReply], float]) -> tuple[CurveDot, ...]:
        return tuple(
            CurveDot(x(one.sizes[dim]), y(time_s(one)), f"{_sizes(one)}: {latency(time_s(one))}")
            for one in of
        )

    ranges = [(name, list(of)) for name, of in groupby(timed, lambda one: one.kernel_for)]
    lines = [
        CurveLine(
            f"kernel for {name}", f"kernel-{number % COLOURS}", dots(of, lambda one: one.best_s)
        )
        for number, (name, of) in enumerate(ranges)
    ]
    if numpy:
        lines.append(CurveLine("NumPy", "numpy", dots(numpy, lambda one: one.numpy_s or 0.0)))
    ends = [of[place].sizes[dim] for _, of in ranges for place in (0, -1)]
    return SizeCurve(
        dim,
        "logarithmic" if wide else "linear",
        tuple(lines),
        tuple(apart([Tick(x(size), str(size)) for size in dict.fromkeys(ends)])),
        tuple(Tick(y(s), latency(s)) for s in (decades if wide else steps)(low, high)),
    )


def _sizes(timed: SizeReply) -> str:
    return ", ".join(f"{name} = {size}" for name, size in timed.sizes.items())
