"""The curve of the rate of trials over the last hours, as places in an SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor
from typing import Final

from ansorpy.server.schemas.service import RateReply
from ansorpy.server.web.curve import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MOST_TICKS,
    RIGHT,
    TOP,
    WIDTH,
    CurveDot,
    CurveLine,
    Tick,
    scale,
    steps,
)

BREAK_S: Final = 450.0  # a longer pause between two rates, which are of 300 s, ends a line
STEPS_S: Final = (300, 900, 1800, 3600, 7200)  # between the labels of moments


@dataclass(frozen=True, slots=True)
class RateCurve:
    """Lines and ticks of the rate; a time without reports is between two lines."""

    lines: tuple[CurveLine, ...]
    moments: tuple[Tick, ...]
    rates: tuple[Tick, ...]


def rate_curve(rates: Sequence[RateReply]) -> RateCurve | None:
    """Return the curve; None with fewer than two rates."""
    if len(rates) < 2:
        return None
    begin_s, end_s = rates[0].begin_s, rates[-1].begin_s
    most = 1.1 * max(rate.trials_per_minute for rate in rates) or 1.0
    x = scale(begin_s, end_s, LEFT, WIDTH - RIGHT, False)
    y = scale(0.0, most, HEIGHT - BOTTOM, TOP, False)
    lines: list[list[CurveDot]] = []
    for last, rate in zip([None, *rates], rates, strict=False):
        if last is None or rate.begin_s - last.begin_s > BREAK_S:
            lines.append([])
        text = f"{_clock(rate.begin_s)}: {rate.trials_per_minute:.0f} trials per minute"
        lines[-1].append(CurveDot(x(rate.begin_s), y(rate.trials_per_minute), text))
    step_s = next((s for s in STEPS_S if (end_s - begin_s) / s < MOST_TICKS), STEPS_S[-1])
    moments = range(ceil(begin_s / step_s), floor(end_s / step_s) + 1)
    return RateCurve(
        tuple(CurveLine("all slots", "kernel-0", tuple(dots)) for dots in lines),
        tuple(Tick(x(k * step_s), _clock(k * step_s)) for k in moments),
        tuple(Tick(y(rate), f"{rate:g}") for rate in (0.0, *steps(0.0, most))),
    )


def _clock(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%H:%M")
