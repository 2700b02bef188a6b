"""int8 and bfloat16 matmul by one instruction against torch: `python -m benchmarks.tensor`.

Ours: int8 x int8 -> int32 and bfloat16 x bfloat16 -> float32, weights constant and packed ahead.
torch runs in a process of its own (`--torch` names a Python that has it), everyone in turns. The
prepacked int8 linear of torch requantises to uint8, its bfloat16 products end as bfloat16: both
write less than ours.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ansorpy
from ansorpy import te
from ansorpy.measure.host import local_target
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
    """The other process; `names` is empty where there is no torch."""

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
        """Return the seconds of each in one visit."""
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


def row(n: int, kind: str, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return median times in seconds by name, everyone in turns."""
    dtype, into, feature = KINDS[kind]
    if feature not in local_target(threads).features:
        return {"n": n, "kind": kind, "threads": threads, "skipped": f"no {feature}"}
    result = ansorpy.tune(
        matmul(n, dtype, into), trials=options.trials, cores=threads, out=options.out
    )
    path = result.tasks[0].kernel
    if path is None:
        return {"n": n, "kind": kind, "threads": threads, "skipped": str(result.tasks[0].failures)}
    kernel, rng = ansorpy.load(path), np.random.default_rng(0)
    span = (-128, 128) if kind == "int8" else (0x3F00, 0x3F80)  # bits of 0.5 to 1
    store = np.int8 if kind == "int8" else np.uint16
    call = kernel.prepare(*(rng.integers(*span, (n, n)).astype(store) for _ in range(2)))
    torch = Torch(options.torch, n, threads)
    names = [name for name in torch.names if name.startswith(kind)]
    times: dict[str, list[float]] = {name: [] for name in ("ansorpy", *names)}
    for _ in range(VISITS):
        times["ansorpy"].append(fastest(call))
        for name, seconds in torch.time(names).items() if names else ():
            times[name].append(seconds)
    torch.close()
    source = kernel.manifest["target"]["needs"]
    return {
        "n": n, "kind": kind, "threads": threads, "torch": torch.version,
        "instruction": feature in source, "seconds": {k: median(v) for k, v in times.items()},
    }  # fmt: skip


def main() -> None:
    """Print one line per row, and write them as JSON where asked."""
    parser = argparse.ArgumentParser(description="int8 and bfloat16 matmul against torch")
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--sizes", type=int, nargs="*", default=[512, 1024])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tensor"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for threads in options.threads:
        for kind in options.kinds:
            for n in options.sizes:
                rows.append(one := row(n, kind, threads, options))
                head = f"{kind} {n}, {threads} thread(s)"
                if "skipped" in one:
                    print(f"{head}: skipped: {one['skipped']}", flush=True)
                    continue
                best = one["seconds"]["ansorpy"]
                for name, seconds in one["seconds"].items():
                    rate, ratio = 2e-9 * n**3 / seconds, seconds / best
                    print(f"{head}: {name}: {rate:.0f} GOP/s, {ratio:.2f}x our time", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
