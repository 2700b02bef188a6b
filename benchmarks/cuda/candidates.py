"""Candidates per second of CPU time of a whole tuning for a GPU with estimates, without a device.

    python -m benchmarks.cuda.candidates [--trials 256] [NAME ...]

A tuning derives sketches, proposes candidates, binds, writes and compiles them, estimates them, and
delivers a zip whose kernel has been verified under emulation. CPU time counts this process and its
children, so that the rate is per core. The files are
`benchmarks/results/cuda_candidates.json` and `.md`.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Final

import ansorpy
from ansorpy.codegen.simt.assemble import has_assembler
from ansorpy.records import MemoryStore
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.topi.workloads import Window
from benchmarks.common import RESULTS, Row, chosen, publish, say, table, write_lists

TARGET: Final = "cuda:sm_90"
TRIALS: Final = 256
GOAL: Final = 4.0  # candidates per second of CPU time
CASES: Final[Mapping[str, Callable[[], Dag]]] = {
    "matmul": lambda: workloads.matmul(512, 512, 512),
    "conv2d": lambda: workloads.conv2d(1, 64, 28, 28, 64, 3, Window(padding=1)),
    "softmax": lambda: workloads.softmax(1024, 1024),
}


def measured(name: str, dag: Dag, trials: int) -> Row:
    """Return candidates, failures and seconds of the tuning of an operator."""
    began_s, cpu_s = time.perf_counter(), spent_s()
    with tempfile.TemporaryDirectory() as folder:
        result = ansorpy.tune(dag, TARGET, trials=trials, store=MemoryStore(), out=folder)
    (task,) = result.tasks
    wall_s, cpu_s = time.perf_counter() - began_s, spent_s() - cpu_s
    return {
        "name": name,
        "candidates": task.trials,
        "failures": dict(task.failures),
        "delivered": task.kernel is not None,
        "ptxas": has_assembler(),
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "per_cpu_s": task.trials / cpu_s,
    }


def spent_s() -> float:
    """Return the CPU time of this process and its ended children."""
    return sum(os.times()[:4])


def page(rows: list[Row]) -> str:
    """Return the table as Markdown."""
    cells: Mapping[str, Callable[[Row], object]] = {
        "operator": lambda row: row["name"],
        "candidates": lambda row: row["candidates"],
        "failed": lambda row: ", ".join(f"{n} {why}" for why, n in row["failures"].items()) or "-",
        "ptxas": lambda row: "yes" if row["ptxas"] else "no",
        "wall time, s": lambda row: f"{row['wall_s']:.0f}",
        "CPU time, s": lambda row: f"{row['cpu_s']:.0f}",
        "candidates per CPU second": lambda row: f"{row['per_cpu_s']:.1f}",
    }
    return (
        "# Candidates per second of tunings for a GPU with estimates\n\n"
        "`python -m benchmarks.cuda.candidates`: whole tunings for sm_90, from the derivation to a"
        " zip verified under\nemulation, on a machine without a GPU. CPU time is that of all"
        f" processes. Without ptxas a candidate is written, not compiled. Goal: {GOAL:.0f} per CPU"
        " second.\n\n" + table(rows, cells)
    )


def main() -> int:
    """Write the result files; return 1 if the goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--trials", type=int, default=TRIALS, help="candidates of an operator")
    args = parser.parse_args()
    told: list[Row] = []
    for name in chosen(tuple(CASES), args.names or None):
        told.append(measured(name, CASES[name](), args.trials))
        say(str(told[-1]))
    if not args.names:
        results = RESULTS / "cuda_candidates.json"
        write_lists(results, {"operators": told})
        publish(results, page(told))
    return int(min(row["per_cpu_s"] for row in told) < GOAL)


if __name__ == "__main__":
    sys.exit(main())
