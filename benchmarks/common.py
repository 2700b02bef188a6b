"""Shared parts of the benchmarks: results that survive an interrupt, tables, ratios, progress."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

RESULTS: Final = Path(__file__).parent / "results"
LONG_S: Final = 600.0  # seconds from which durations are printed in minutes
RAW: Final = RESULTS / "raw"  # kernels and single measurements: large, not under version control

Row = dict[str, Any]
Cell = Callable[[Row], object]


class Results:
    """Rows of one benchmark in a JSON file; an existing row is not measured again.

    The file is rewritten whole at every row, by rename: it is valid whenever it is read. Every
    start of the program is one entry of `runs`; a row has the number of its run.
    """

    def __init__(
        self, path: Path, keys: Sequence[str], run: Mapping[str, Any], fresh: bool
    ) -> None:
        self.path, self.keys = path, tuple(keys)
        old = json.loads(path.read_text()) if path.exists() and not fresh else {}
        self.rows: list[Row] = old.get("rows", [])
        self.runs: list[Row | None] = [*old.get("runs", []), dict(run)]

    def find(self, **key: object) -> Row | None:
        """Return the row of a key, None if it is not measured yet."""
        self._complete(key)
        for row in self.rows:
            if all(row[name] == value for name, value in key.items()):
                return row
        return None

    def add(self, row: Row) -> None:
        """Add a row, or replace the row of the same key, and write the file."""
        key = {name: row[name] for name in self.keys}
        self.rows = [r for r in self.rows if any(r[name] != key[name] for name in self.keys)]
        self.rows.append({**row, "run": len(self.runs) - 1, "date": today()})
        used = {row["run"] for row in self.rows}
        runs = [run if at in used else None for at, run in enumerate(self.runs)]
        write_lists(self.path, {"runs": runs, "rows": self.rows})

    def _complete(self, key: Mapping[str, object]) -> None:
        if set(key) != set(self.keys):
            raise ValueError(f"{self.path.name}: key {sorted(key)}, not {sorted(self.keys)}")


def write_lists(path: Path, lists: Mapping[str, Sequence[object]]) -> None:
    """Write a JSON object of lists, one entry per line, by rename; infinities raise ValueError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = []
    for name, entries in lists.items():
        lines = ",\n".join(json.dumps(entry, allow_nan=False) for entry in entries)
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
    partial = path.with_suffix(".partial")
    partial.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    partial.replace(path)


def publish(results: Path, page: str) -> None:
    """Write the Markdown page that belongs to a result file."""
    results.with_suffix(".md").write_text(page)


@dataclass(frozen=True, slots=True)
class Spread:
    """Summary of samples: `iqr` is the interquartile range divided by the median."""

    median: float
    least: float
    most: float
    iqr: float
    samples: int

    @property
    def range(self) -> float:
        """Maximum minus minimum, divided by the median."""
        return (self.most - self.least) / self.median


def spread(values: Iterable[float]) -> Spread:
    """Summarise at least one finite number above 0."""
    found = sorted(values)
    middle = median(found)
    low, _, high = quantiles(found, n=4, method="inclusive") if len(found) > 1 else found * 3
    return Spread(middle, found[0], found[-1], (high - low) / middle, len(found))


def in_turns(
    calls: Sequence[Callable[[], object]], samples: int, sample_s: float
) -> list[list[float]]:
    """Return samples of the seconds of each call, which take turns.

    Args:
        sample_s: seconds of a sample, a mean over calls; at least one call.
    """
    loops = []
    for call in calls:
        call()
        begin_s = time.perf_counter()
        call()
        loops.append(max(1, round(sample_s / (time.perf_counter() - begin_s))))
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(samples):
        for call, count, times_s in zip(calls, loops, found, strict=True):
            begin_s = time.perf_counter()
            for _ in range(count):
                call()
            times_s.append((time.perf_counter() - begin_s) / count)
    return found


@contextmanager
def looping(count: int) -> Iterator[None]:
    """Run `count` processes that loop while the block runs; each keeps a processor busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def running_best(costs_s: Iterable[float]) -> list[float]:
    """Return the running minimum after every trial; inf until a trial succeeds."""
    best, found = inf, []
    for cost_s in costs_s:
        best = min(best, cost_s)
        found.append(best)
    return found


def at_budget(best_s: Sequence[float], trials: int) -> float:
    """Return the best after `trials`; an exhausted space keeps its last best."""
    return best_s[min(trials, len(best_s)) - 1] if best_s else inf


def finite(value: float) -> float | None:
    """Return the value for JSON: None for an infinite number."""
    return value if isfinite(value) else None


def duration(seconds: float | None) -> str:
    """Format a duration with three digits; long durations in minutes."""
    if seconds is None or not isfinite(seconds):
        return "-"
    if seconds >= LONG_S:
        return f"{seconds / 60:.3g} min"
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if float(f"{seconds * scale:.3g}") >= 1:  # 999.7 us is 1 ms, not 1e+03 us
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def percent(share: float | None) -> str:
    """Format a share in percent."""
    return "-" if share is None else f"{share:.0%}"


def times(ratio: float | None) -> str:
    """Format a speed-up."""
    return "-" if ratio is None else f"{ratio:.3g}x"


def table(rows: Sequence[Row], columns: Mapping[str, Cell]) -> str:
    """Return a Markdown table; the first column is aligned left, the others right."""
    lines = [
        "| " + " | ".join(columns) + " |",
        "|" + "|".join("---" if at == 0 else "---:" for at in range(len(columns))) + "|",
    ]
    for row in rows:
        lines.append("| " + " | ".join(_cell(cell(row)) for cell in columns.values()) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def arguments(
    description: str | None, name: str, trials: int | None = None
) -> argparse.ArgumentParser:
    """Return a parser with the common options; a benchmark that tunes has a number of trials."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these rows only")
    parser.add_argument("--fresh", action="store_true", help="forget the rows that are there")
    parser.add_argument("--out", type=Path, default=RESULTS / f"{name}.json", help="result file")
    if trials is not None:
        parser.add_argument("--trials", type=int, default=trials)
        parser.add_argument("--threads", type=int, default=1)
        parser.add_argument("--seed", type=int, default=0)
    return parser


def chosen(names: Iterable[str], only: Sequence[str] | None) -> list[str]:
    """Return the requested names in the order of the benchmark; all without `only`."""
    known = list(names)
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise SystemExit(f"no {', '.join(unknown)}: there are {', '.join(known)}")
    return [name for name in known if only is None or name in only]


def say(text: str) -> None:
    """Print progress on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def today() -> str:
    """Return date and time, local, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def commit() -> str:
    """Return the measured commit, with "+" if files differ from it; "" without git."""
    describe = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            describe, cwd=RESULTS.parent, capture_output=True, text=True, check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
