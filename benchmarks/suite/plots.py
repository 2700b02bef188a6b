"""The plots of the suite: ratios to the best peer, roofline, tuning curves."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Row
from benchmarks.figures import GREY, THEM, US, Bar, figure, name_lines, ratio_bars
from benchmarks.suite.cases import CASES
from benchmarks.suite.contestants import CONTESTANTS, OURS, OURS_RUNTIME, PEERS
from benchmarks.suite.duel import Duel
from benchmarks.suite.summary import best_of, ours_s, ratio

TITLE: Final = "times faster than the best peer (bars) and the others (dots)"
PANELS: Final = 5  # panels with curves, side by side
CROWD: Final = 10.0  # operations per byte; beyond, labels stand in a row above the roof


def ratios(path: Path, rows: Sequence[Row]) -> Path | None:
    """Draw our speed-up over the best peer, a panel per number of threads."""
    judged = [row for row in rows if (best := best_of(row)) and best.ratio is not None]
    if not judged:
        return None
    threads = sorted({row["threads"] for row in judged}, reverse=True)
    cases = [case for case in CASES if any(row["case"] == case for row in judged)]
    size = (4.6 * len(threads) + 1.4, 1.2 + 0.19 * len(cases))
    with figure(path, 1, len(threads), figsize=size, sharey=True) as (_, axes):
        for panel, count in zip(axes[0], threads, strict=True):
            some = [row for row in judged if row["threads"] == count]
            ratio_bars(panel, list(_bars(some, cases)), TITLE)
            panel.set_title(f"{count} thread{'s' if count > 1 else ''}", fontsize=9)
        name_lines(axes[0][0], [CASES[case].title for case in cases])
    return path


def _bars(rows: Sequence[Row], cases: Sequence[str]) -> Iterator[Bar]:
    """Yield a bar per row: the ratio to the best peer, and those to the other peers."""
    for row in rows:
        best = best_of(row)
        assert best is not None
        assert best.ratio is not None
        others = [found for peer in PEERS if (found := ratio(row, peer)) is not None]
        label = f"{best.ratio:.2f} {best.peer}"
        yield Bar(cases.index(row["case"]), best.ratio, label, others)


def roofline(path: Path, rows: Sequence[Row]) -> Path | None:
    """Draw rates against operations per byte: dots for ours, rings for the best peer of the row."""
    threads = sorted({row["threads"] for row in rows}, reverse=True)
    if not threads:
        return None
    size = (5.6 * len(threads), 4.8)
    with figure(path, 1, len(threads), figsize=size) as (_, axes):
        for panel, count in zip(axes[0], threads, strict=True):
            _roof(panel, [row for row in rows if row["threads"] == count])
            panel.set_title(f"{count} thread{'s' if count > 1 else ''}", fontsize=9)
        axes[0][0].set_ylabel("GFLOP/s of the formula")
    return path


def _roof(panel: Any, rows: Sequence[Row]) -> None:
    peak = max(row["fma_flop_per_s"] for row in rows) / 1e9
    slowest = min(row["copy_bytes_per_s"] for row in rows) / 1e9
    fastest = max(row["copy_bytes_per_s"] for row in rows) / 1e9
    reach = [row["flop"] / row["bytes"] for row in rows]
    left, right = min(reach) / 2, max(reach) * 2
    for name, rate, style in (("in cache", fastest, ":"), ("in memory", slowest, "-")):
        knee = max(peak / rate, left)
        panel.plot(
            [left, knee, max(right, knee)], [left * rate, knee * rate, peak], color=GREY,
            linestyle=style, linewidth=1, label=f"copy {name}: {rate:.0f} GB/s",
        )  # fmt: skip
    panel.plot([], [], color=GREY, linewidth=0, label=f"FMA peak: {peak:.0f} GFLOP/s")
    tops = {row["case"]: top for row in rows if (top := _dots(panel, row)) is not None}
    panel.scatter([], [], s=16, color=US, label="ansorpy")
    panel.scatter([], [], s=18, facecolors="none", edgecolors=THEM, label="best peer")
    panel.set_xscale("log")
    panel.set_yscale("log")
    _names(panel, {c: top for c, top in tops.items() if CASES[c].batch == 1}, peak, right)
    panel.set_ylim(top=peak * 8)
    panel.set_xlabel("operations per byte that must move")
    panel.legend(loc="lower right", frameon=False, fontsize=7)
    panel.grid(visible=True, which="major", alpha=0.25)


def _dots(panel: Any, row: Row) -> tuple[float, float] | None:
    """Draw our rate and the best peer's; return the upper point, None if there is neither."""
    reach, best = row["flop"] / row["bytes"], best_of(row)
    found = [s for s in (ours_s(row, OURS), ours_s(row, OURS_RUNTIME)) if s is not None]
    rates = []
    if best is not None:
        rates.append(row["flop"] / best.time_s / 1e9)
        panel.scatter(reach, rates[-1], s=18, facecolors="none", edgecolors=THEM, zorder=3)
    if found:
        rates.append(row["flop"] / min(found) / 1e9)
        panel.scatter(reach, rates[-1], s=16, color=US, zorder=4)
    panel.plot([reach] * len(rates), rates, color=GREY, linewidth=0.6, zorder=2)
    return (reach, max(rates)) if rates else None


def _names(panel: Any, tops: Mapping[str, tuple[float, float]], peak: float, right: float) -> None:
    """Write names beside the dots; if dots crowd, in a row above, with a line to each."""
    crowd = sorted((x, y, case) for case, (x, y) in tops.items() if x >= CROWD)
    for case, (x, y) in tops.items():
        if x < CROWD:
            panel.annotate(
                case, (x, y), xytext=(4, -2), textcoords="offset points", fontsize=5.5,
                color="#444444",
            )  # fmt: skip
    for at, (x, y, case) in enumerate(crowd):
        share = (at + 0.5) / len(crowd)
        panel.annotate(
            case, (x, y), xytext=(CROWD / 2 * (2 * right / CROWD) ** share, peak * 1.7),
            fontsize=5.5, rotation=90, ha="center", va="bottom", color="#444444",
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.3},
        )  # fmt: skip


def curves(path: Path, duels: Sequence[Duel]) -> Path | None:
    """Draw the best time over seconds and over trials, two rows of panels per five cases."""
    if not duels:
        return None
    count = max(duel.threads for duel in duels)
    some = [duel for duel in duels if duel.threads == count]
    lines = -(-len(some) // PANELS)
    columns = min(PANELS, len(some))
    size = (2.5 * columns, 3.7 * lines)
    with figure(path, 2 * lines, columns, figsize=size) as (drawn, axes):
        for panel in axes.flat:
            panel.set_visible(False)
        for at, duel in enumerate(some):
            top, column = 2 * (at // PANELS), at % PANELS
            _curve(axes[top][column], duel, 0)
            _curve(axes[top + 1][column], duel, 1)
            axes[top][column].set_title(CASES[duel.case].title, fontsize=8)
            if column == 0:
                axes[top][column].set_ylabel("best, ms")
                axes[top + 1][column].set_ylabel("best, ms")
        handles, labels = axes[0][0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return path


def _curve(panel: Any, duel: Duel, by: int) -> None:
    """Draw both searches by seconds (0) or by trials (1)."""
    panel.set_visible(True)
    names = (("ansorpy", duel.ours, US), (CONTESTANTS["metaschedule"].title, duel.theirs, THEM))
    for label, points, colour in names:
        seen = [point for point in points if isfinite(point[2])]
        if by == 0:  # trials of a batch end together: its last point has their best
            seen = list({point[0]: point for point in seen}.values())
        panel.plot(
            [point[by] for point in seen], [point[2] * 1e3 for point in seen], color=colour,
            label=label, drawstyle="steps-post", linewidth=1.3, marker=".", markersize=3,
        )  # fmt: skip
    if duel.their_s is not None:
        panel.axhline(
            duel.their_s * 1e3, color=THEM, linestyle=":", linewidth=0.9,
            label="MetaSchedule's kernel, in the contest",
        )  # fmt: skip
    panel.set_yscale("log")
    _plain(panel.yaxis)
    panel.set_xlabel("seconds" if by == 0 else "trials")
    if by == 0:
        panel.set_xscale("log")
        _plain(panel.xaxis)
    panel.grid(visible=True, which="both", alpha=0.2)
    panel.tick_params(labelsize=6)


def _plain(axis: Any) -> None:
    """Label a logarithmic axis at 1, 2, 5, 10, ... with plain numbers."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(ticker.NullLocator())
