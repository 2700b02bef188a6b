"""Best of 64 trials with stored times: compares the proposals of two versions of the engine.

    python -m benchmarks.best_at_64 [--old CHECKOUT] [--only WORKLOAD ...] [--frozen]

Five workloads, five seeds, 64 trials each. The time of a candidate comes from a table, so that no
difference between two versions is noise of timing. A candidate that is not in the table is
measured on this machine and added; the summary tells how many there were. The key of a row is
stable across refactorings: a digest of workload key, steps, structural choices and sizes, in the
form of records. The exit code is 1 if the means of a workload differ by more than 1 %.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any, Final, Protocol

from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Measured
from ansorpy.measure.unbound import unbound
from ansorpy.replay import plan_from_text
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from benchmarks.common import chosen, duration, say, table
from benchmarks.workloads import FIVE, TITLES

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "benchmarks" / "trials"
TRIALS: Final = 64
SEEDS: Final = range(5)
LEVEL: Final = 0.01  # relative difference of the means that counts as level
DIGITS: Final = 5  # significant digits of a stored time, far below the noise of timing
_KEY: Final = 16  # characters of a key: 64 bits, for a few thousand rows

Candidate = tuple[str, tuple[int, ...]]  # text of the plan, row
Measure = Callable[[Sequence[Candidate], float], list[float | None]]  # candidates, best cost so far


def key_of(workload: str, candidate: Candidate) -> str:
    """Return the key of a candidate: a digest of workload key, plan as in records, and row."""
    plan, row = candidate
    text = json.dumps([workload, json.loads(plan), list(row)], separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:_KEY]


class TrialTable:
    """Costs in seconds by key, null for failures, with the target for which they were measured."""

    def __init__(self, path: Path, target: Target | None = None) -> None:
        self.path = path
        stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        fields = stored.get("target")
        if fields is not None:
            target = Target.of_facts(fields)
        self.target = target or local_target(1)
        self.costs_s: dict[str, float | None] = stored.get("costs_s", {})

    @property
    def best_s(self) -> float:
        """The least cost, infinite for an empty table."""
        return min((cost for cost in self.costs_s.values() if cost is not None), default=inf)

    def write(self) -> None:
        """Write the table, one row per line."""
        self.path.parent.mkdir(exist_ok=True)
        rows = (f'"{key}":{json.dumps(cost)}' for key, cost in sorted(self.costs_s.items()))
        head, body = json.dumps({"target": self.target.facts()})[:-1], ",\n".join(rows)
        self.path.write_text(f'{head},"costs_s":{{\n{body}\n}}}}\n')


@dataclass(frozen=True, slots=True)
class Replayed:
    """One search with stored times: costs in the order of the trials, inf for failures."""

    costs_s: tuple[float, ...]
    missing: int

    @property
    def best_s(self) -> float:
        """The least cost of the trials."""
        return min(self.costs_s)


class Source(Protocol):
    """Rounds of candidates of one search, each of which is answered by its costs."""

    workload: str

    def __iter__(self) -> Iterator[list[Candidate]]:
        """Yield the candidates of each round."""
        ...

    def answer(self, costs_s: Sequence[float | None]) -> None:
        """Take the costs of the round in seconds, None for failures."""
        ...


def replayed(search: Source, trials: TrialTable, measure: Measure) -> Replayed:
    """Answer the proposals of a search from a table; measure and add the missing rows."""
    costs_s: list[float] = []
    missing = 0
    for candidates in search:
        keys = [key_of(search.workload, each) for each in candidates]
        new = {k: c for k, c in zip(keys, candidates, strict=True) if k not in trials.costs_s}
        if new:
            found = measure(list(new.values()), trials.best_s)
            for key, cost_s in zip(new, found, strict=True):
                trials.costs_s[key] = None if cost_s is None else float(f"{cost_s:.{DIGITS}g}")
            trials.write()
            missing += len(new)
        answer = [trials.costs_s[key] for key in keys]
        costs_s += [inf if cost_s is None else cost_s for cost_s in answer]
        search.answer(answer)
    return Replayed(tuple(costs_s), missing)


class Proposals:
    """A process that proposes candidates with the engine of a checkout (`benchmarks.proposals`)."""

    def __init__(self, checkout: Path, workload: str, seed: int, target: Target) -> None:
        script = Path(__file__).with_name("proposals.py")
        wanted = json.dumps(target.facts())
        self._process = subprocess.Popen(
            [sys.executable, "-P", script, workload, str(seed), str(TRIALS), wanted],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
        )  # fmt: skip
        head = self._read()
        if Path(head["engine"]) != checkout:
            self.close()
            raise RuntimeError(f"cannot judge {checkout}: its engine is {head['engine']}")
        self.workload: str = head["workload"]

    def __iter__(self) -> Iterator[list[Candidate]]:
        """Yield the candidates of each round."""
        while (line := self._read()) is not None:
            yield [(plan, tuple(row)) for plan, row in line]

    def answer(self, costs_s: Sequence[float | None]) -> None:
        """Send the costs of the round."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(costs_s) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line and self._process.wait() != 0:
            raise RuntimeError(f"the proposals of {self._process.args!r} failed")
        return json.loads(line) if line else None


class Measuring:
    """Measures missing candidates of one workload; the pool of processes starts when needed."""

    def __init__(self, dag: Dag, target: Target, frozen: bool) -> None:
        self._dag, self._target, self._frozen = dag, target, frozen
        self._pool: LocalPool | None = None

    def __call__(self, candidates: Sequence[Candidate], best_s: float) -> list[float | None]:
        """Return costs in seconds, None for failures."""
        if self._frozen:
            raise SystemExit(f"{self._dag.name}: {len(candidates)} rows are not in the table")
        if self._pool is None:
            here = local_target(self._target.cores)
            if here != self._target:
                raise SystemExit(f"cannot measure for {self._target.cpu}: this is {here.cpu}")
            self._pool = LocalPool(self._dag, self._target).__enter__()
        unbounds = [
            unbound(plan_from_text(self._dag, self._target, text), row) for text, row in candidates
        ]
        outcomes = self._pool.measure(unbounds, best_s if best_s < inf else None)
        return [o.cost_s if isinstance(o, Measured) else None for o in outcomes]

    def close(self) -> None:
        """Stop the processes."""
        if self._pool is not None:
            self._pool.__exit__(None, None, None)


def main() -> int:
    """Replay every search and print the best costs; return 1 if two versions are not level."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", type=Path, help="checkout of another version of the engine")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help=", ".join(FIVE))
    parser.add_argument("--frozen", action="store_true", help="fail if a row is not in the table")
    args = parser.parse_args()
    versions = {"new": ROOT} | ({} if args.old is None else {"old": args.old.resolve()})
    rows: list[dict[str, Any]] = []
    for name in chosen(FIVE, args.only):
        trials = TrialTable(FOLDER / f"{name}.json")
        measure = Measuring(FIVE[name](), trials.target, args.frozen)
        row: dict[str, Any] = {"workload": TITLES[name], "missing": 0}
        try:
            for version, checkout in versions.items():
                found = []
                for seed in SEEDS:
                    search = Proposals(checkout, name, seed, trials.target)
                    try:
                        found.append(replayed(search, trials, measure))
                    finally:
                        search.close()
                    best = duration(found[-1].best_s)
                    say(f"{name} {version} seed {seed}: best {best}, {found[-1].missing} missing")
                row[version] = geometric_mean([each.best_s for each in found])
                row["missing"] += sum(each.missing for each in found)
        finally:
            measure.close()
        rows.append(row)
    columns: dict[str, Callable[[dict[str, Any]], object]] = {
        "workload": lambda row: row["workload"],
        "best, new": lambda row: duration(row["new"]),
        "rows measured now": lambda row: row["missing"],
    }
    if args.old is not None:
        columns["best, old"] = lambda row: duration(row["old"])
        columns["new / old"] = lambda row: f"{row['new'] / row['old']:.4f}"
    say(table(rows, columns))
    if args.old is None:
        return 0
    ratios = [row["new"] / row["old"] for row in rows]
    say(f"mean of new / old: {fmean(ratios):.4f}")
    return int(any(abs(ratio - 1) > LEVEL for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main())
