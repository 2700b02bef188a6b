"""The roofline of a task as places in an SVG: both axes are logarithmic."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ansorpy.plot.roofline import Roofline
from ansorpy.server.web.curve import CurveDot, CurveLine, Tick, decades, scale

WIDTH: Final = 640  # units of the view box
HEIGHT: Final = 300
LEFT: Final = 56
RIGHT: Final = 196  # room for the names of the programs
TOP: Final = 12
BOTTOM: Final = 44
LINE: Final = 15.0  # least distance of two names
SHOWN: Final = 4  # decades of rates at most: the naive loops may be far below


@dataclass(frozen=True, slots=True)
class Named:
    """A program: the place of its rate, and the height of its name."""

    name: str
    dot: CurveDot
    label_y: float
    below: bool  # the rate is less than the picture shows


@dataclass(frozen=True, slots=True)
class RooflinePicture:
    """Limits, programs and ticks."""

    limits: tuple[CurveLine, ...]
    programs: tuple[Named, ...]
    intensities: tuple[Tick, ...]
    rates: tuple[Tick, ...]


def roofline_picture(roofline: Roofline) -> RooflinePicture:
    """Return the picture; the kernel is the first program."""
    low, high = roofline.span
    rates = list(roofline.flop_per_s.values())
    most = 2 * max(roofline.peak_flop_per_s, *rates)
    least = min(rates[0] / 2, max(min(rates) / 2, most / 10.0**SHOWN))
    x = scale(low, high, LEFT, WIDTH - RIGHT, True)
    y = scale(least, most, HEIGHT - BOTTOM, TOP, True)

    def line(name: str, kind: str, ends: Sequence[tuple[float, float]]) -> CurveLine:
        (x0, y0), (x1, y1) = ends
        if y0 < least:  # from the foot of the picture
            x0, y0 = x0 * least / y0, least
        return CurveLine(name, kind, (CurveDot(x(x0), y(y0), name), CurveDot(x(x1), y(y1), name)))

    limits = [
        line(f"{place} {rate / 1e9:.0f} GB/s (estimate)", f"limit-{number}", roofline.slope(rate))
        for number, (place, rate) in enumerate(roofline.bytes_per_s.items())
    ]
    if roofline.peak_flop_per_s:
        peak, source = roofline.peak_flop_per_s, "measured" if roofline.measured else "bound"
        name = f"arithmetic {peak / 1e9:.4g} GFLOP/s ({source})"
        limits.append(line(name, "limit-peak", [(low, peak), (high, peak)]))
    places = [y(max(rate, least)) for rate in rates]
    programs = [
        Named(
            name,
            CurveDot(x(roofline.intensity), place, f"{name}: {rate / 1e9:.4g} GFLOP/s"),
            label_y,
            rate < least,
        )
        for (name, rate), place, label_y in zip(
            roofline.flop_per_s.items(), places, _spread(places), strict=True
        )
    ]
    return RooflinePicture(
        tuple(limits),
        tuple(programs),
        tuple(Tick(x(one), f"{one:g}") for one in decades(low, high)),
        tuple(Tick(y(one), f"{one / 1e9:g}") for one in decades(least, most)),
    )


def _spread(heights: Sequence[float]) -> list[float]:
    """Return heights of labels at least LINE apart, in their order, within the picture."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = [heights[n] for n in order]
    for n in range(1, len(placed)):
        placed[n] = max(placed[n], placed[n - 1] + LINE)
    foot = float(HEIGHT - BOTTOM)
    for n in reversed(range(len(placed))):
        placed[n] = min(placed[n], foot)
        foot = placed[n] - LINE
    assert all(b - a >= LINE * 0.99 for a, b in pairwise(placed))
    found = dict(zip(order, placed, strict=True))
    return [found[n] for n in range(len(heights))]
