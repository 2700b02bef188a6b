"""Section `fit`: constants of `cost.simt` that fit the measured rows, and how well it ranks them.

The constants are found by coordinate descent on the squared logarithm of estimate over time;
the ranking is told before and after.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, log
from pathlib import Path
from typing import Any, Final

import numpy as np

from ansorpy.cost import simt
from ansorpy.cost.simt import LaunchFacts
from ansorpy.gpus import Gpu
from benchmarks.cuda.bench import Bench
from benchmarks.descent import descended

SOURCES: Final = ("matmul", "rows", "convolutions")
CONSTANTS: Final = (
    "SHARED_WAVE_CLOCKS", "L2_BYTES_PER_CLOCK", "LAUNCH_S", "STALL_CLOCKS",
)  # fmt: skip
FACTORS: Final = (0.5, 0.8, 0.9, 1.1, 1.25, 2.0)
TOP: Final = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured candidate of an operator."""

    operator: str
    facts: tuple[LaunchFacts, ...]
    seconds: float


def run(bench: Bench) -> None:
    """Fit the constants to the rows of earlier sections in the folder of results."""
    rows = [row for name in SOURCES for row in measured(bench.out / f"{name}.json")]
    if not rows:
        bench.add("fit", {"error": "no measured candidates in the folder of results"})
        return
    gpu = bench.facts.gpu
    before = {name: float(getattr(simt, name)) for name in CONSTANTS}
    after = fitted(rows, gpu, before)
    if bench.emulated:  # times of this processor: the fit runs, and its numbers mean nothing
        bench.add("constants", {"candidates": len(rows), "times": "emulated"})
        return
    bench.add("constants", {"before": before, "after": after, "candidates": len(rows)})
    for operator in sorted({row.operator for row in rows}):
        own = [row for row in rows if row.operator == operator]
        told = {
            when: ranking(own, gpu, constants)
            for when, constants in (("before", before), ("after", after))
        }
        bench.add(operator, {"candidates": len(own), **told})


def measured(path: Path) -> list[Measured]:
    """Return the own candidates of a section that have a time; none if it has not run."""
    if not path.exists():
        return []
    found = []
    for row in json.loads(path.read_text())["rows"]:
        if row.get("facts"):
            facts = tuple(LaunchFacts(**one) for one in row["facts"])
            found.append(Measured(row["name"], facts, seconds_of(row["warm"])))
    return found


def seconds_of(times: Mapping[str, Any]) -> float:
    """Return the median of a row; an emulated row has one only so that the fit runs."""
    return float(times["emulated_s"] if "times" in times else times["median_s"])


def fitted(rows: Sequence[Measured], gpu: Gpu, start: Mapping[str, float]) -> dict[str, float]:
    """Return constants with a smaller error than the given ones, if there are any."""
    return descended(start, lambda tried: error_of(rows, gpu, tried), FACTORS)


def error_of(rows: Sequence[Measured], gpu: Gpu, constants: Mapping[str, float]) -> float:
    """Return the mean squared logarithm of estimate over time."""
    with _constants(constants):
        errors = [
            log(found / row.seconds) ** 2
            for row in rows
            if (found := simt.seconds(row.facts, gpu)) is not None
        ]
    return sum(errors) / len(errors) if errors else inf


def ranking(
    rows: Sequence[Measured], gpu: Gpu, constants: Mapping[str, float]
) -> dict[str, float | None]:
    """Return Spearman's coefficient, and whether the best TOP estimates hold the fastest.

    `top_ratio` is the fastest time over the fastest among the best estimates: 1 if they hold it.
    """
    with _constants(constants):
        estimates = [simt.seconds(row.facts, gpu) or inf for row in rows]
    times = [row.seconds for row in rows]
    chosen = sorted(range(len(rows)), key=lambda k: estimates[k])[:TOP]
    ratio = min(times) / min(times[k] for k in chosen)
    return {"spearman": spearman(estimates, times), "top_ratio": ratio}


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return the correlation of ranks, equal values sharing their mean rank; None if undefined."""
    ranks = [_ranks(values) for values in (left, right)]
    if any(np.ptp(values) == 0 for values in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Sequence[float]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    array = np.asarray(values)
    below = (array[:, None] > array).sum(1)
    equal = (array[:, None] == array).sum(1)
    return np.asarray(below + (equal - 1) / 2.0, np.float64)


@contextmanager
def _constants(values: Mapping[str, float]) -> Any:
    """Give the model other constants for a while."""
    before = {name: getattr(simt, name) for name in values}
    try:
        for name, value in values.items():
            setattr(simt, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(simt, name, value)
