"""Shortest row from which every verification case accepts a wrong output of 16 bits.

    python -m benchmarks.wrong_outputs

Rows of softmax, layer norm, RMS norm and mean are taken times 0, 1.5 and 1.05. A number is the
shortest length that is accepted; "-" means that every length is refused. The largest tolerance of
a delivered kernel is a share of its largest output. Exit code 1 if a wrong output is accepted.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from ansorpy import te, topi
from ansorpy.artifact.kernel_file import make_test
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.verify.cases import each_case
from ansorpy.measure.verify.check import compare_all
from ansorpy.measure.verify.inputs import encode
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import layer_norm, matmul, rms_norm, softmax

LENGTHS: Final = (16, 32, 64, 128, 197, 384, 768, 1024, 2048, 4096)
FACTORS: Final = (0.0, 1.5, 1.05)
DTYPES: Final = ("float16", "bfloat16")


def mean(rows: int, columns: int, dtype: str) -> Dag:
    """Return the mean of every row."""
    return te.dag(topi.mean(te.placeholder((rows, columns), "X", dtype), -1), "mean")


OPERATORS: Final[Mapping[str, Callable[..., Dag]]] = {
    "softmax": softmax, "layer_norm": layer_norm, "rms_norm": rms_norm, "mean": mean,
}  # fmt: skip


def accepts(dag: Dag, factor: float) -> bool:
    """Return whether every verification case accepts `factor` times the right outputs."""
    for case in each_case(dag, 0):
        wrong = {one.name: encode(one.value * factor, one.dtype) for one in case.expected}
        buffers = {
            one.name: Buffer(one.name, one.dtype, tuple(map(Const, one.value.shape)), Scope.OUTPUT)
            for one in case.expected
        }
        with np.errstate(all="ignore"):
            if compare_all(case, wrong.__getitem__, buffers) is not None:
                return False
    return True


def tolerance_share(dag: Dag) -> float:
    """Return the tolerance of the self-test of a delivered kernel over its largest output."""
    test = make_test(dag)
    rng = np.random.default_rng(0)
    drawn = {p.name: rng.uniform(test.low, test.high, p.shape) for p in dag.placeholders}
    (output,) = te.evaluate(dag, drawn)
    return float(test.tolerances[0] / np.abs(output).max())


def main() -> int:
    """Print the table."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    ).parse_args()
    held = 0
    sys.stdout.write(f"{'':22}" + "".join(f"{f'{f:g} x':>8}" for f in FACTORS) + " tolerance\n")
    for name, build in OPERATORS.items():
        for dtype in DTYPES:
            dags = {n: build(4, n, dtype=dtype) for n in LENGTHS}
            found = [next((n for n in LENGTHS if accepts(dags[n], f)), None) for f in FACTORS]
            held += sum(one is not None for one in found)
            share = max(map(tolerance_share, dags.values()))
            row = "".join(f"{one or '-':>8}" for one in found)
            sys.stdout.write(f"{name + ' ' + dtype:22}{row} {share:9.2%}\n")
            sys.stdout.flush()
    for dtype in DTYPES:
        share = tolerance_share(matmul(16, 4096, 16, dtype=dtype))
        sys.stdout.write(f"{'product of 4096 ' + dtype:46} {share:9.2%}\n")
    return int(held > 0)


if __name__ == "__main__":
    sys.exit(main())
