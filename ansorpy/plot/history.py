"""History: a dot per trial, the best time so far, the race, and the times of other programs."""

from typing import Any, Final

from ansorpy.errors import SpecError
from ansorpy.plot.canvas import BEST, GREY, OURS, THEIRS, label_lines, plain_ticks, unit_of
from ansorpy.plot.curve import TrialCurve, curve_of
from ansorpy.plot.subject import Subject

MARGIN: Final = 1.25  # factor between the limits of the axis and the times
MOST: Final = 6.0  # top of the axis, times the best: slower trials would hide the search


def draw_history(subject: Subject, ax: Any) -> None:
    """Draw the time of every trial by its number.

    Raises:
        SpecError: no trial has a time.
    """
    curve, result = curve_of(subject.trials), subject.result
    if not curve.timed:
        raise SpecError(
            f"cannot plot the history of {subject.name} because {subject.untimed}; expected a"
            " tuning with trials, of one range of sizes"
        )
    raced_s = result.best_s if result.timing == "race" else None
    best_s = min(curve.times_s) if raced_s is None else min(raced_s, *curve.times_s)
    unit, unit_s = unit_of(best_s)
    lines = {name: time_s / unit_s for name, time_s in subject.lines_s.items()}
    values = [*lines.values(), *(time_s / unit_s for time_s in curve.times_s)]
    least, most = _limits(best_s / unit_s, values)
    _trials(ax, curve, unit_s, most)
    if raced_s is not None:
        ax.scatter([curve.count + 1], [raced_s / unit_s], marker="*", s=150, color=BEST, zorder=5,
                   edgecolors="white", linewidths=0.6, label="kernel in the race")  # fmt: skip
    ax.set_yscale("log")
    ax.set_ylim(least, most)
    ax.set_xlim(0, curve.count + 2)
    plain_ticks(ax.yaxis)
    _failures(ax, curve)
    for y in lines.values():
        ax.axhline(y, color=THEIRS, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    ax.set_xlabel("trial")
    ax.set_ylabel(f"time of a call ({unit}, logarithmic)")
    ax.set_title(f"{subject.name}: {_summary(subject, curve)}", fontsize=10)
    ax.grid(visible=True, axis="y", alpha=0.25)
    ax.legend(loc="best", fontsize=8, framealpha=0.85)
    above = {name: " (above)" if y > most else "" for name, y in lines.items()}
    label_lines(
        ax, {f"{name} {y:.4g} {unit}{above[name]}": min(y, most) for name, y in lines.items()}
    )


def _trials(ax: Any, curve: TrialCurve, unit_s: float, most: float) -> None:
    """Draw trials as dots, those above the top as triangles at it, and the best so far."""
    dots = {n: time_s / unit_s for n, time_s in zip(curve.timed, curve.times_s, strict=True)}
    shown = {n: time for n, time in dots.items() if time <= most}
    ax.scatter(list(shown), list(shown.values()), s=14, color=GREY, alpha=0.75, linewidths=0,
               label="trial")  # fmt: skip
    if len(shown) < len(dots):
        slow = [n for n in dots if n not in shown]
        ax.plot(slow, [0.975] * len(slow), "^", color=GREY, markersize=5, markeredgewidth=0,
                transform=ax.get_xaxis_transform(), label="slower trial")  # fmt: skip
    best = [time_s / unit_s for time_s in curve.best_s]
    ax.step([*curve.timed, curve.count + 1], [*best, best[-1]], where="post", color=OURS,
            linewidth=1.6, label="best trial so far")  # fmt: skip


def _failures(ax: Any, curve: TrialCurve) -> None:
    """Draw a red tick at the foot for each trial without a time."""
    if curve.failed:
        ax.plot(curve.failed, [0.02] * len(curve.failed), "|", color="#c00000", markersize=9,
                transform=ax.get_xaxis_transform(), label="failed trial")  # fmt: skip


def _limits(best: float, values: list[float]) -> tuple[float, float]:
    most = min(MARGIN * max(values), MOST * best)
    return min(best, *values) / MARGIN, max(most, 2 * best)


def _summary(subject: Subject, curve: TrialCurve) -> str:
    ratio = None if subject.result.verdict is None else subject.result.verdict.ratio
    peer = None if subject.result.verdict is None else subject.result.verdict.peer
    failed = f", {len(curve.failed)} failed" if curve.failed else ""
    trials = f"{curve.count} trials{failed}"
    if ratio is None or peer is None:
        return trials
    verb = f"{ratio:.2f}x faster" if ratio >= 1 else f"{1 / ratio:.2f}x slower"
    return f"{trials}, {verb} than {peer.name}"
