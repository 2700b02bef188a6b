"""Page and plot of the latency of whole models."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.common import Row, duration, publish, table
from benchmarks.figures import Bar, figure, name_lines, ratio_bars
from benchmarks.models.ladder import LADDER

KEYS: Final = ("model", "threads", "allow")
TITLES: Final = {"ort": "ONNX Runtime", "openvino": "OpenVINO", "inductor": "torch.compile"}
HOW: Final = (
    "Milliseconds are medians over the visits of a runtime of its median call. A ratio is the"
    " median over the rounds of the other runtime's time divided by ours in the same round, with"
    " the least and the most; above 1 we are faster. Every runtime has a process of its own; while"
    " one is timed the others are stopped. `best` is the fastest of the others. Where Winograd is"
    " allowed its results round in another way: ratios are told apart. Every bundle is verified"
    " against ONNX Runtime without its optimiser."
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A speed-up: the median over the rounds, with the least and the most."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        """Return 1.12x (1.10 to 1.15)."""
        return f"{self.median:.2f}x ({self.least:.2f} to {self.most:.2f})"


def speed_up(row: Row, peer: str) -> Ratio | None:
    """Return the time of a peer divided by ours; None if either has no time."""
    ours, theirs = (row["runtimes"].get(name) for name in ("ansorpy", peer))
    if not ours or not theirs or ours["failed"] or theirs["failed"]:
        return None
    found = [b / a for a, b in zip(ours["visits_s"], theirs["visits_s"], strict=True)]
    return Ratio(median(found), min(found), max(found))


def best_of(row: Row) -> tuple[str, Ratio] | None:
    """Return the fastest peer of a row; None if a peer of the row has no time."""
    found = [(name, speed_up(row, name)) for name in TITLES if name in row["runtimes"]]
    timed = [(name, one) for name, one in found if one is not None]
    if not timed or len(timed) < len(found):
        return None
    return min(timed, key=lambda one: one[1].median)


def mean_of(rows: Sequence[Row], ratio: Callable[[Row], float | None]) -> str:
    """Return the geometric mean over the ladder, or how many of its models are there."""
    found = {row["model"]: one for row in rows if (one := ratio(row)) is not None}
    if set(found) < set(LADDER):
        return f"not told: {len(found)} of {len(LADDER)} models"
    low = min(found, key=lambda name: found[name])
    mean = prod(found.values()) ** (1 / len(found))
    return f"{mean:.2f}x, worst {found[low]:.2f}x ({low})"


def page(rows: Sequence[Row], runs: Sequence[Mapping[str, Any] | None], plot: str) -> str:
    """Return the Markdown page.

    Args:
        plot: the name of the file of the plot.
    """
    parts = [
        "# Whole models against other runtimes\n",
        *dict.fromkeys(map(_run, filter(None, runs))),
        f"\n{HOW}\n",
    ]
    parts.append(f"![Ratio to ONNX Runtime by model]({plot})\n")
    for threads in sorted({row["threads"] for row in rows}):
        for allow in sorted({row["allow"] for row in rows}):
            some = selected(rows, threads, allow)
            if some:
                parts.append(_section(some, threads, allow))
    return "\n".join(parts)


def selected(rows: Sequence[Row], threads: int, allow: str) -> list[Row]:
    """Return the rows of a number of threads in the order of the ladder."""
    order = list(LADDER)
    some = [row for row in rows if (row["threads"], row["allow"]) == (threads, allow)]
    return sorted(some, key=lambda row: order.index(row["model"]))


def _run(facts: Mapping[str, Any]) -> str:
    host, settings = facts["machine"], facts["settings"]
    versions = ", ".join(f"{name} {one}" for name, one in facts["versions"].items())
    return (
        f"- {facts['date'][:10]}, {host['model']} ({host['vector_bits']} bits, {host['cores']}"
        f" cores), commit {facts['commit'] or 'unknown'}, {settings['rounds']} rounds of"
        f" {settings['seconds'] / settings['rounds']:.1f} s; {versions}"
    )


def _section(rows: Sequence[Row], threads: int, allow: str) -> str:
    means = {
        TITLES["ort"]: mean_of(rows, lambda row: _median(speed_up(row, "ort"))),
        "the best": mean_of(
            rows, lambda row: _median(found[1] if (found := best_of(row)) else None)
        ),
    }
    told = "; ".join(f"against {name} {text}" for name, text in means.items())
    allowed = f", {allow} allowed" if allow else ""
    columns: dict[str, Callable[[Row], object]] = {
        "model": lambda row: row["model"],
        "trials": lambda row: f"{row['trials']} ({row['trials_per_task']} x {row['tasks']})",
        "tuning": lambda row: duration(row["tune_s"]),
        "calls": lambda row: row["calls"],
        "hosted": lambda row: len(row["hosted"]),
        "ansorpy, ms": lambda row: _ms(row, "ansorpy"),
    }
    for peer, title in TITLES.items():
        columns[f"{title}, ms"] = partial(_ms, runtime=peer)
    columns |= {
        "to ONNX Runtime": lambda row: speed_up(row, "ort") or "-",
        "to the best": lambda row: (
            f"{found[1]} {TITLES[found[0]]}" if (found := best_of(row)) else "-"
        ),
        "error": lambda row: f"{row['tuned_error']:.1e}",
    }
    count = f"{threads} thread{'s' if threads > 1 else ''}{allowed}"
    return f"## {count}\n\nGeometric mean: {told}.\n\n{table(rows, columns)}"


def _median(ratio: Ratio | None) -> float | None:
    return None if ratio is None else ratio.median


def _ms(row: Row, runtime: str) -> str:
    found = row["runtimes"].get(runtime)
    if found is None:
        return "-"
    return "failed" if found["failed"] else f"{median(found['visits_s']) * 1e3:.3g}"


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw our speed-up over ONNX Runtime, a panel per number of threads and reformulations."""
    kinds = sorted({(row["threads"], row["allow"]) for row in rows})
    names = [name for name in LADDER if any(row["model"] == name for row in rows)]
    size = (4.6 * len(kinds) + 1.4, 1.4 + 0.24 * len(names))
    with figure(path, 1, len(kinds), figsize=size, sharey=True) as (_, axes):
        for panel, (threads, allow) in zip(axes[0], kinds, strict=True):
            bars = []
            for row in selected(rows, threads, allow):
                ratio = speed_up(row, "ort")
                others = [speed_up(row, peer) for peer in ("openvino", "inductor")]
                if ratio is not None:
                    dots = [one.median for one in others if one is not None]
                    at = names.index(row["model"])
                    bars.append(Bar(at, ratio.median, f"{ratio.median:.2f}", dots))
            ratio_bars(panel, bars, "times faster than ONNX Runtime (bars) and the others (dots)")
            allowed = f", {allow} allowed" if allow else ""
            panel.set_title(f"{threads} thread{'s' if threads > 1 else ''}{allowed}", fontsize=9)
        name_lines(axes[0][0], names)


def publish_latency(results: Path) -> None:
    """Write the page and the plot of a result file beside it."""
    found = json.loads(results.read_text())
    plot = results.with_name(f"{results.stem}-ratios.svg")
    draw(plot, found["rows"])
    publish(results, page(found["rows"], found["runs"], plot.name))
