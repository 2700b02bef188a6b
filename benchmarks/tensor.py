"""int8 and bfloat16 matmul by one instruction against torch: `python -m benchmarks.tensor`.

Ours: int8 x int8 -> int32 and bfloat16 x bfloat16 -> float32, weights constant and packed ahead.
torch runs in a process of its own (`--torch` names a Python with torch); calls take turns. The
prepacked int8 linear of torch requantises to uint8, its bfloat16 products end as bfloat16: both
write less than ours.

Results go to results/tensor.json and tensor.md, row by row; existing rows are not measured again,
so that `--seconds` may divide the work into several runs.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ansorpy
from ansorpy import te
from ansorpy.measure.host import local_target
from ansorpy.records import MemoryStore
from benchmarks.common import RAW, RESULTS, Cell, Results, Row, publish, table
from benchmarks.contest import aligned
from benchmarks.machine import run_facts
from benchmarks.tensor_torch import fastest

KINDS = {"int8": ("int8", "int32", "avx512vnni"), "bfloat16": ("bfloat16", "float32", "avx512bf16")}
VISITS = 7


def matmul(n: int, dtype: str, into: str) -> te.Dag:
    """C = A B with constant B, widened before multiplying."""
    a = te.placeholder((n, n), "A", dtype)
    b = te.placeholder((n, n), "B", dtype, constant=True)
    k = te.reduce_axis((0, n), "k")
    return te.dag(
        te.compute(
            (n, n),
            lambda i, j: te.sum(te.cast(a[i, k], into) * te.cast(b[k, j], into), k),
            "C",
        ),
        name=f"mm_{dtype}_{n}",
    )


class Torch:
    """The process that runs torch; `names` is empty without torch."""

    def __init__(self, python: str, n: int, threads: int) -> None:
        script = Path(__file__).with_name("tensor_torch.py")
        self.names: list[str] = []
        self.version = ""
        self.process = subprocess.Popen(
            [python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._say({"n": n, "threads": threads})
        answer = self._line()
        if answer:
            self.names, self.version = answer["names"], answer["version"]

    def time(self, names: list[str]) -> dict[str, float]:
        """Return the seconds of each call in one visit."""
        self._say(names)
        return self._line()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _say(self, what: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {}


def row(n: int, kind: str, threads: int, options: argparse.Namespace) -> Row:
    """Return median times in seconds by name, measured in turns."""
    key: Row = {"n": n, "kind": kind, "threads": threads}
    dtype, into, feature = KINDS[kind]
    if feature not in local_target(threads).features:
        return {**key, "skipped": f"no {feature}"}
    result = ansorpy.tune(
        matmul(n, dtype, into),
        trials=options.trials, seed=options.seed, cores=threads, out=RAW / "tensor",
        store=MemoryStore(),  # no records of an earlier version
    )  # fmt: skip
    path = result.tasks[0].kernel
    if path is None:
        return {**key, "skipped": str(result.tasks[0].failures)}
    kernel, rng = ansorpy.load(path), np.random.default_rng(options.seed)
    span = (-128, 128) if kind == "int8" else (0x3F00, 0x3F80)  # bits of 0.5 to 1
    store = np.int8 if kind == "int8" else np.uint16
    call = kernel.prepare(*(aligned(rng.integers(*span, (n, n)).astype(store)) for _ in "ab"))
    torch = Torch(options.torch, n, threads)
    names = [name for name in torch.names if name.startswith(kind)]
    times: dict[str, list[float]] = {name: [] for name in ("ansorpy", *names)}
    for _ in range(VISITS):
        times["ansorpy"].append(fastest(call))
        for name, seconds in torch.time(names).items() if names else ():
            times[name].append(seconds)
    torch.close()
    instruction = feature in kernel.manifest["target"]["needs"]
    seconds_of = {name: median(visits) for name, visits in times.items()}
    return {**key, "torch": torch.version, "instruction": instruction, "seconds": seconds_of}


def page(rows: Sequence[Row], machine: Row) -> str:
    """Return the results as Markdown: a line per contestant, best first within a row."""
    columns: dict[str, Cell] = {
        "product": lambda one: f"{one['kind']} {one['n']}",
        "threads": lambda one: one["threads"],
        "who": lambda one: one["who"],
        "GOP/s": lambda one: one["rate"],
        "times ours": lambda one: one["ratio"],
    }
    lines = [line for one in rows for line in _lines(one)]
    return (
        f"# int8 and bfloat16 matmul against torch\n\n{machine['model']},"
        f" {machine['vector_bits']} bits; {rows[-1]['date'] if rows else ''}. Weights constant,"
        f" packed ahead; medians of {VISITS} visits in turns.\n\n{table(lines, columns)}\n"
    )


def _lines(row: Row) -> list[Row]:
    if "skipped" in row:
        return [{**row, "who": f"skipped: {row['skipped']}", "rate": "", "ratio": ""}]
    ours = row["seconds"]["ansorpy"]
    return [
        {**row, "who": who, "rate": f"{2e-9 * row['n'] ** 3 / s:.0f}", "ratio": f"{s / ours:.2f}"}
        for who, s in sorted(row["seconds"].items(), key=lambda pair: pair[1])
    ]


def main() -> None:
    """Measure the missing rows; write each row, and the page, when it is finished."""
    parser = argparse.ArgumentParser(description="int8 and bfloat16 matmul against torch")
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--sizes", type=int, nargs="*", default=[512, 1024])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=inf, help="begin no row after that")
    parser.add_argument("--fresh", action="store_true", help="forget the rows that are there")
    parser.add_argument("--out", type=Path, default=RESULTS / "tensor.json")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    facts = run_facts(max(options.threads), options.seed, trials=options.trials, visits=VISITS)
    results = Results(options.out, ("kind", "n", "threads"), facts, options.fresh)
    for threads, kind, n in product(options.threads, options.kinds, options.sizes):
        if time.monotonic() > end or results.find(kind=kind, n=n, threads=threads):
            continue
        results.add(row(n, kind, threads, options))
        publish(options.out, page(results.rows, facts["machine"]))
    print(page(results.rows, facts["machine"]))


if __name__ == "__main__":
    main()
