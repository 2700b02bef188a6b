"""Roofline: operations per second against operations per byte, below the limits of the machine.

The arithmetic limit was measured before the race, with float32; for narrower types it is a bound.
Limits of caches and memory are estimates: rates of the analytic cost model, which are fitted to few
processors, at its clock.

Source: Williams, Waterman and Patterson, Roofline, CACM 52, 2009.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from ansorpy.artifact.rate import is_float32
from ansorpy.cost.explained import CLOCK_HZ
from ansorpy.cost.roofline import rates_of
from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.plot.canvas import BEST, GREY, OURS, THEIRS, plain_ticks
from ansorpy.plot.subject import Subject
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag
from ansorpy.te.dims import at_sizes, dims_of, timed_sizes, timed_weights

ROOM: Final = 4.0  # factor of the range of intensities beside the kernel and the ridges


@dataclass(frozen=True, slots=True)
class Roofline:
    """The rates of a kernel and of other programs, below the limits of a machine.

    Args:
        intensity: operations per byte of operands and results.
        peak_flop_per_s: the arithmetic limit; 0.0: not known.
        measured: the limit was measured, with float32; else it is a bound.
        bytes_per_s: estimates of the limits of caches and memory, by name.
        flop_per_s: by program, the kernel first.
    """

    intensity: float
    peak_flop_per_s: float
    measured: bool
    bytes_per_s: Mapping[str, float]
    flop_per_s: Mapping[str, float]

    @property
    def span(self) -> tuple[float, float]:
        """The limits of the intensities that a picture shows."""
        peak = self.peak_flop_per_s
        ridges = [peak / one for one in self.bytes_per_s.values()] if peak else []
        found = [self.intensity, *ridges]
        return min(found) / ROOM, max(found) * ROOM

    def slope(self, bytes_per_s: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the ends of the line of a limit: intensity and FLOP/s, below the peak."""
        low, high = self.span
        ends = [(x, x * bytes_per_s) for x in (low, high)]
        peak = self.peak_flop_per_s
        if peak and ends[1][1] > peak:
            ends = [(low, min(ends[0][1], peak)), (max(low, peak / bytes_per_s), peak)]
        return ends[0], ends[1]


def roofline_of(subject: Subject) -> Roofline:
    """Return the kernel and the other programs of its race, and the limits.

    Raises:
        SpecError: the kernel was not raced on a processor, or it has no floating-point operations.
    """
    race = next((one.race for one in reversed(subject.records) if one.race is not None), None)
    target = subject.target
    if race is None or target is None or target.kind != "cpu" or subject.result.best_s is None:
        raise SpecError(
            f"cannot draw a roofline of {subject.name} because no race on a processor is on record;"
            " expected a tuning with trials, on a processor"
        )
    dag = subject.dag
    flop = flop_count(dag)
    if not flop:
        raise SpecError(
            f"cannot draw a roofline of {subject.name} because it has no floating-point operations;"
            " expected a computation that has some"
        )
    rate = subject.result.rate
    effective = " (effective)" if rate and rate.effective else ""
    times_s = {"this kernel" + effective: subject.result.best_s, **subject.lines_s}
    return Roofline(
        flop / moved_bytes(dag),
        race.peak_flop_per_s,
        is_float32(dag),
        memory_limits(target),
        {name: flop / time_s for name, time_s in times_s.items()},
    )


def draw_roofline(subject: Subject, ax: Any) -> None:
    """Draw the kernel and the other programs of its race, and the limits.

    Raises:
        SpecError: as of `roofline_of`.
    """
    found, target = roofline_of(subject), subject.target
    assert target is not None
    gflops = {name: rate / 1e9 for name, rate in found.flop_per_s.items()}
    _limits(ax, found)
    _points(ax, found.intensity, gflops)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*found.span)
    most = max(found.peak_flop_per_s / 1e9, *gflops.values())
    ax.set_ylim(min(gflops.values()) / 2, most * 2)
    plain_ticks(ax.xaxis)
    plain_ticks(ax.yaxis)
    ax.set_xlabel("operations per byte of operands and results (FLOP/B)")
    ax.set_ylabel("GFLOP/s")
    ax.set_title(f"{subject.name}: roofline, {target.cores} thread{'s' * (target.cores > 1)}",
                 fontsize=10)  # fmt: skip
    ax.grid(visible=True, which="major", alpha=0.25)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)


def moved_bytes(dag: Dag) -> float:
    """Return the bytes of operands and results, each moved once.

    With dims, the weighted mean over the timed sizes, as `flop_count` counts operations.
    """
    if dims_of(dag):
        counts = [moved_bytes(at_sizes(dag, sizes)) for sizes in timed_sizes(dag)]
        return float(np.average(counts, weights=timed_weights(dag)))
    moved = sum(prod(one.shape) * SIZE_BYTES[one.dtype] for one in dag.placeholders)
    for node in dag.computes:
        if node.name in dag.outputs:
            moved += sum(prod(node.shape) * SIZE_BYTES[dtype] for dtype in node.dtypes)
    return moved


def memory_limits(target: Target) -> dict[str, float]:
    """Return estimates of bytes per second by the place of the data."""
    rates = rates_of(target)
    sharing = min(target.cores, rates.memory_cores)
    return {
        "L2 cache": CLOCK_HZ * target.cores / rates.l2_byte,
        "L3 cache": CLOCK_HZ * sharing / rates.l3_byte,
        "memory": CLOCK_HZ * sharing / rates.memory_byte,
    }


def _limits(ax: Any, roofline: Roofline) -> None:
    """Draw the arithmetic limit, if it is known, and a slope for each place of the data."""
    for style, (place, rate) in zip(("-.", "--", ":"), roofline.bytes_per_s.items(), strict=True):
        xs, ys = zip(*roofline.slope(rate), strict=True)
        ax.plot(xs, [y / 1e9 for y in ys], style, color=GREY, linewidth=1.1, zorder=1,
                label=f"{place} {rate / 1e9:.0f} GB/s (estimate)")  # fmt: skip
    if roofline.peak_flop_per_s:
        peak, source = roofline.peak_flop_per_s / 1e9, "measured" if roofline.measured else "bound"
        ax.axhline(peak, color="black", linewidth=1.1, zorder=1,
                   label=f"arithmetic {peak:.4g} GFLOP/s ({source})")  # fmt: skip


def _points(ax: Any, x: float, gflops: Mapping[str, float]) -> None:
    markers = ("*", "o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
    for place, (name, y) in enumerate(gflops.items()):
        colour = BEST if place == 0 else OURS if name == "untuned" else THEIRS
        ax.plot([x], [y], markers[place % len(markers)], color=colour, linestyle="none",
                markersize=14 if place == 0 else 7, markeredgecolor="white", markeredgewidth=0.6,
                zorder=5 if place == 0 else 4, label=f"{name} {y:.4g} GFLOP/s")  # fmt: skip
