"""Sweep of operators: importer, passes and interpreter or kernels against two oracles.

    python -m benchmarks.models.sweep [--seconds S] [--seed N] [--kernels SHARE] [--why]
        [--opset N] [OPERATOR ...]

Random models of one operator, over opsets, attributes, dtypes and special values, are computed by
us, by ONNX Runtime and by onnx.reference. Disagreements are counted by kind; `sweep_judged.json`
says who is right, with the sentence of the operator's text that decides. The exit code is 1 if we
are wrong, or differ without a judgment from every oracle that answers; 2 without two oracles.
"""

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from ansorpy.artifact.harness import widened
from ansorpy.errors import AnsorError, SpecError
from ansorpy.expr.dtypes import FLOATS, LARGEST, UNDERFLOW, UNIT_ROUNDOFF
from ansorpy.graph.interp import Compute, reference, run
from ansorpy.graph.passes import simplify
from ansorpy.importers.onnx_file import graph_of_model
from ansorpy.model.answers import stored
from ansorpy.model.contestant import RUNTIMES
from ansorpy.model.oracles import oracles_of
from benchmarks.models.node_cases import Array
from benchmarks.models.node_tests import Kernels
from benchmarks.models.sweep_cases import SweepCase, case_of
from benchmarks.models.sweep_operators import OPERATORS

JUDGED: Final = Path(__file__).with_name("sweep_judged.json")
ROUNDINGS: Final = 64.0  # roundoffs of an element by which two right results may differ
OF_LARGEST: Final = 16.0  # roundoffs of the largest element, for sums that cancel
PIXELS: Final = 4.0
FUNCTIONS: Final = frozenset({  # with differences from 1, or of logarithms
    "Acosh", "Asinh", "Atanh", "Celu", "Elu", "Gelu", "LogSoftmax", "Mish", "ReduceLogSum",
    "ReduceLogSumExp", "Selu", "Sigmoid", "Softplus", "Swish",
})  # fmt: skip
SUMS: Final = frozenset({
    "AveragePool", "CumSum", "GlobalAveragePool", "ReduceMean", "ReduceSum", "Resize", "Sum",
})  # fmt: skip
REFUSED, UNKNOWN = "refused by us", "no oracle answers"
RIGHT: Final = ("agreed", "agreed with the only oracle")
OPEN: Final = "the text leaves it open"
NO_TEXT: Final = "open"  # in place of a program that is wrong


@dataclass(frozen=True)
class Judgment:
    """A disagreement that the text of an operator decides.

    Args:
        first, last: versions of the operator.
        tags: parts of the texts of the case, all of which it must have.
        wrong: "ONNX Runtime", "onnx.reference", or NO_TEXT if the text leaves the result open.
        text: the sentence that decides, in our words, with operator and versions.
    """

    operator: str
    first: int
    last: int
    tags: tuple[str, ...]
    wrong: str
    text: str

    def covers(self, case: SweepCase) -> bool:
        """Return True for a case that the judgment is about."""
        told = " ".join(case.tags)
        fits = self.operator == case.operator and self.first <= case.since <= self.last
        return fits and all(tag in told for tag in self.tags)


@dataclass(frozen=True)
class Found:
    """The comparison of a case; `fault` is True if no oracle agrees with us, and no text either."""

    kind: str
    fault: bool
    why: str = ""


def judgments(path: Path = JUDGED) -> tuple[Judgment, ...]:
    """Return the judged disagreements of a file."""
    return tuple(
        Judgment(**{**one, "tags": tuple(one["tags"])}) for one in json.loads(path.read_text())
    )


def compared(case: SweepCase, compute: Compute, judged: Sequence[Judgment], folder: Path) -> Found:
    """Compute a case by all programs, and compare.

    Args:
        folder: an empty one.
    """
    try:
        dtypes, ours = _ours(case, compute)
    except SpecError as error:
        return Found(REFUSED, False, str(error))
    except AnsorError as error:
        return Found("failed by us", True, f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001  a defect of any kind is a finding
        return Found("failed by us", True, f"{type(error).__name__}: {error}")
    opinions = _opinions(case, folder, dtypes)
    if not opinions:
        return Found(UNKNOWN, False)
    near = _tolerance(case)
    differences = {name: _difference(ours, one, dtypes, near) for name, one in opinions.items()}
    why = "; ".join(f"{name}: {text}" for name, text in differences.items() if text)
    if not why:
        return Found(RIGHT[len(opinions) == 1], False)
    wrong = {one.wrong for one in judged if one.covers(case)}
    trusted = {name: text for name, text in differences.items() if name not in wrong}
    if not any(trusted.values()):
        return Found(f"{' and '.join(wrong & differences.keys())} wrong", False, why)
    if NO_TEXT in wrong:
        return Found(OPEN, False, why)
    with_us = [name for name, text in trusted.items() if not text]
    if with_us:
        return Found(f"only {with_us[0]} agrees with us", False, why)
    first, *others = (opinions[name] for name in trusted)
    if not others:
        return Found(f"{next(iter(trusted))} alone differs from us", True, why)
    agreed = not _difference(first, others[0], dtypes, near)
    return Found("both oracles differ from us" if agreed else "all differ", True, why)


def _ours(case: SweepCase, compute: Compute) -> tuple[list[str], list[Array]]:
    graph = simplify(graph_of_model(case.model, hosted=True)).graph
    inputs = {
        name: one.view(np.uint16) if one.dtype.name == "bfloat16" else one
        for name, one in case.inputs.items()
    }
    found = run(graph, {name: inputs[name] for name in graph.inputs}, compute)
    return [graph.values[one.value].dtype for one in graph.outputs], list(found.values())


def _opinions(case: SweepCase, folder: Path, dtypes: Sequence[str]) -> dict[str, list[Array]]:
    """Return the outputs of each oracle that can run a case, in storage form, by its name."""
    file = folder / "case.onnx"
    onnx.save_model(case.model, file)
    found: dict[str, list[Array]] = {}
    for oracle in oracles_of(file, folder, []):
        inputs = {
            name: one.astype(np.float32)
            if oracle.wide and one.dtype.name in ("float16", "bfloat16")
            else one
            for name, one in case.inputs.items()
        }
        entry = oracle.entries[0]
        try:
            (call,) = RUNTIMES[entry.runtime](entry.file, 1, "")([inputs])
            made = call()
        except Exception:  # noqa: BLE001  a runtime raises any kind
            continue
        outputs = zip(made, dtypes, strict=False)
        found[oracle.name.rsplit(" ", 1)[0]] = [
            stored(one, dtype) if oracle.wide else one for one, dtype in outputs
        ]
    for path in folder.iterdir():
        path.unlink()
    return found


def _tolerance(case: SweepCase) -> float:
    """Return the size of the numbers whose roundoffs a result may have, beside its own."""
    if case.operator in FUNCTIONS:
        return 1.0
    if case.operator in ("GroupNormalization", "InstanceNormalization"):
        return _of_instances(case)
    if case.operator not in SUMS:
        return 0.0
    floats = [one.astype(np.float64) for one in case.inputs.values() if one.dtype.kind not in "iub"]
    sizes = [np.max(np.abs(one), initial=0.0, where=np.isfinite(one)) for one in floats]
    # A float32 position has roundoffs of some pixels, which multiply a difference of two elements.
    return float(max(sizes, default=0.0)) * (PIXELS if case.operator == "Resize" else 1.0)


def _of_instances(case: SweepCase) -> float:
    """Return the largest element over the deviation of its instance, times the largest scale."""
    graph = case.model.graph
    known = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    known |= case.inputs
    node = graph.node[0]
    values, scale = (known[name].astype(np.float64) for name in node.input[:2])
    epsilon = next((one.f for one in node.attribute if one.name == "epsilon"), 1e-5)
    groups = next((one.i for one in node.attribute if one.name == "num_groups"), values.shape[1])
    instances = values.reshape(values.shape[0], groups, -1)
    deviations = np.sqrt(instances.var(axis=2) + epsilon)
    sizes = np.abs(instances).max(axis=2, initial=0.0) / deviations
    return float(sizes.max(initial=0.0) * np.abs(scale).max(initial=0.0))


def _difference(
    ours: Sequence[Array], theirs: Sequence[Array], dtypes: Sequence[str], size: float
) -> str:
    """Return how results differ, "" if they do not."""
    for number, (one, other, dtype) in enumerate(zip(ours, theirs, dtypes, strict=True)):
        stored = "uint16" if dtype == "bfloat16" else dtype
        if other.dtype != stored or one.dtype != stored or one.shape != other.shape:
            told = [f"{each.dtype}{list(each.shape)}" for each in (one, other)]
            return f"output {number} is {told[0]}, not {told[1]}"
        a, b = widened(one, dtype), widened(other, dtype)
        wrong = ~_is_near(a, b, dtype, size)
        if wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            place = [int(n) for n in at]
            return (
                f"{int(wrong.sum())} of {wrong.size} elements, at {place} {a[at]!r}, not {b[at]!r}"
            )
    return ""


def _is_near(a: Array, b: Array, dtype: str, size: float) -> Array:
    same = np.asarray((a == b) | ((a != a) & (b != b)))
    if dtype not in FLOATS:
        return same
    u, finite = UNIT_ROUNDOFF[dtype], np.isfinite(b)
    largest = max(size, float(np.max(np.abs(b), initial=0.0, where=finite)))
    with np.errstate(all="ignore"):
        bound = u * (ROUNDINGS * np.abs(b) + OF_LARGEST * largest) + 2 * UNDERFLOW[dtype]
        near = finite & np.isfinite(a) & (np.abs(a - b) <= bound)
        beyond = np.minimum(np.abs(a), np.abs(b)) >= LARGEST[dtype] * (1 - ROUNDINGS * u)
        return np.asarray(same | near | (beyond & (np.sign(a) == np.sign(b))))


@dataclass
class Sweep:
    """A sweep and its counts.

    Args:
        kernels: share of the cases that machine code of ours computes.
        opset: the only opset; 0: all.
    """

    seed: int
    kernels: float
    names: Sequence[str]
    opset: int = 0

    def __post_init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.by_operator: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.examples: dict[tuple[str, str], tuple[SweepCase, Found]] = {}
        self.faults: list[str] = []

    def run(self, seconds: float, most: int = 1 << 30) -> None:
        """Compare random cases of the operators in turns until the time or the number is over."""
        rng, judged = np.random.default_rng(self.seed), judgments()
        machine, end_s, told_s = Kernels(), time.monotonic() + seconds, time.monotonic()
        with tempfile.TemporaryDirectory(prefix="ansorpy-sweep-") as folder:
            for name in cycle(self.names):
                if time.monotonic() > end_s or self.counts.total() >= most:
                    break
                case = case_of(name, OPERATORS[name], rng, self.opset)
                by_kernels = bool(rng.random() < self.kernels)
                if case is None:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    compute = machine.compute if by_kernels else reference
                    found = compared(case, compute, judged, Path(folder))
                self._add(case, found, by_kernels)
                if time.monotonic() > told_s + 1 and sys.stderr.isatty():
                    told_s = time.monotonic()
                    print(f"\r{self.summary()}\033[K", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)

    def _add(self, case: SweepCase, finding: Found, by_kernels: bool) -> None:
        self.counts[finding.kind] += 1
        self.by_operator[case.operator][finding.kind] += 1
        self.examples.setdefault((case.operator, finding.kind), (case, finding))
        if finding.fault:
            how = "kernels" if by_kernels else "interpreter"
            self.faults.append(f"{case} ({how}): {finding.kind}: {finding.why}")

    def summary(self) -> str:
        """Return the counts on one line."""
        parts = [f"{count} {kind}" for kind, count in self.counts.most_common()]
        return f"{self.counts.total()} cases: {', '.join(parts)}; {len(self.faults)} faults of ours"

    def table(self) -> list[str]:
        """Return a line for each operator and kind of disagreement, with an example."""
        lines = []
        for name, counts in sorted(self.by_operator.items()):
            for kind, count in sorted(counts.items()):
                if kind in (*RIGHT, UNKNOWN):
                    continue
                case, found = self.examples[name, kind]
                told = " ".join(f"{case}: {found.why}".split())[:220]
                lines.append(f"{name:22} {count:4} {kind}: {told}")
        return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operators", nargs="*", help="names; all unless given")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--kernels", type=float, default=0.02, help="share of cases by machine code"
    )
    parser.add_argument("--opset", type=int, default=0, help="one opset; 0: 1 to 24")
    parser.add_argument("--why", action="store_true", help="print every fault")
    args = parser.parse_args(arguments)
    if find_spec("onnxruntime") is None:
        print("cannot sweep because onnxruntime is not installed; expected two oracles: it comes"
              " with the extra dev", file=sys.stderr)  # fmt: skip
        return 2
    for name in args.operators:
        if name not in OPERATORS:
            parser.error(f"cannot sweep {name!r}; expected {', '.join(sorted(OPERATORS))}")
    sweep = Sweep(args.seed, args.kernels, args.operators or list(OPERATORS), args.opset)
    sweep.run(args.seconds)
    print("\n".join(sweep.table()))
    if args.why:
        print("\n".join(sweep.faults))
    print(f"{sweep.summary()}; seed {args.seed}")
    return int(bool(sweep.faults))


if __name__ == "__main__":
    sys.exit(main())
