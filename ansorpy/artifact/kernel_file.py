"""The texts of a delivered kernel: `kernel.py`, and `simd.py` with the helpers that it loads.

`kernel.py` holds the header, the generated kernel, its reference in float64 and the facts for the
harness. `simd.py` holds the SIMD compiler and the harness, the same in every zip of one version.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.artifact.harness import DimSpec, Raced, Runner, TensorSpec, Test
from ansorpy.artifact.npz import npz
from ansorpy.artifact.reference import reference_source
from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.simd_file import joined, simd_paths
from ansorpy.expr.dtypes import NARROW
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.verify.exactness import exact_magnitude
from ansorpy.measure.verify.inputs import Array, constants, decode, index_spans
from ansorpy.oracle.error_bounds import allowed
from ansorpy.oracle.reference import evaluate_bounded
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Compute, Dag, Placeholder
from ansorpy.te.dims import Dim, dims_of, spread_weights, timed_by_dim, widest

MARKER: Final = "# --- harness: the same in every kernel zip ---\n"
SPANS: Final = (
    (-1.0, 1.0),
    (0.5, 1.5),
)  # ranges of float inputs; the second suits roots and logarithms
SHARP: Final = 0.01  # tolerance over the largest element from which on the other range is tried
WORST_TOLERANCE: Final = 1e30  # no bound is known: only NaN and infinity are compared

_MAIN: Final = """
RUNNER = Runner(
    tensors=TENSORS,
    inputs=INPUTS,
    outputs=OUTPUTS,
    constants=load_constants(),
    launch=launch,
    ahead=ahead,
    reference=reference,
    test=TEST,
    flop=FLOP,
    raced=RACED,
    dims=DIMS,
)
run = RUNNER.run
prepare = RUNNER.prepare

if __name__ == "__main__":
    raise SystemExit(RUNNER.main())
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """Header of a kernel file, for people."""

    title: str
    lines: tuple[str, ...]  # target, latency, baselines
    schedule: str
    raced: Raced


def tensors(dag: Dag, buffers: Sequence[Buffer]) -> tuple[TensorSpec, ...]:
    """Return the buffers of a kernel with their roles."""
    roles = {
        Scope.INPUT: "input",
        Scope.CONSTANT: "constant",
        Scope.OUTPUT: "output",
        Scope.GLOBAL: "scratch",
        Scope.SIZES: "sizes",
    }
    weights = {node.name for node in dag.placeholders if node.constant}
    spans, dims = index_spans(dag), dims_by_tensor(dag)
    return tuple(
        TensorSpec(
            buffer.name,
            buffer.dtype,
            buffer.extents,
            "weight" if buffer.name in weights else roles[buffer.scope],
            spans.get(buffer.name),
            dims.get(buffer.name, ()),
        )
        for buffer in buffers
    )


def dims_by_tensor(dag: Dag) -> dict[str, tuple[str, ...]]:
    """Return, by input and output with dims, the name of each axis's dim, "" for a number."""
    found: dict[str, tuple[str, ...]] = {}
    names: dict[str, tuple[str, ...]] = {node.name: (node.name,) for node in dag.placeholders}
    names |= {name: outputs_of(dag, name) for name in dag.outputs}
    for node, buffers in names.items():
        shape = dag.node(node).shape
        if any(isinstance(extent, Dim) for extent in shape):
            dims = tuple(extent.name if isinstance(extent, Dim) else "" for extent in shape)
            found |= dict.fromkeys(buffers, dims)
    return found


def dim_specs(dag: Dag) -> tuple[DimSpec, ...]:
    """Return the dims of a kernel, with the sizes at which it is timed."""
    timed, weights = timed_by_dim(dag), spread_weights(dims_of(dag))
    return tuple(
        DimSpec(one.name, one.low, one.high, timed[one.name], one.step, weights)
        for one in dims_of(dag)
    )


def output_names(dag: Dag) -> tuple[str, ...]:
    """Return the names of the output buffers in the order of `evaluate`."""
    return tuple(buffer for name in dag.outputs for buffer in outputs_of(dag, name))


def outputs_of(dag: Dag, name: str) -> tuple[str, ...]:
    """Return the names of the buffers of an output."""
    count = len(_compute(dag, name).dtypes)
    return tuple(name + (f".{i}" if i else "") for i in range(count))


def _compute(dag: Dag, name: str) -> Compute:
    node = dag.node(name)
    assert isinstance(node, Compute)
    return node


def make_test(dag: Dag, meaning: Dag | None = None) -> Test:
    """Return the tolerances of the self-test on its own inputs.

    A kernel that was reformulated to compute another `meaning` has the error bounds of that Dag,
    and need not be exact on integers unless that Dag is.
    """
    dag, meaning = widest(dag), None if meaning is None else widest(meaning)
    tests: list[tuple[bool, float, Test]] = []
    magnitude = min(exact_magnitude(dag), exact_magnitude(meaning or dag))
    for low, high in SPANS:
        # Both Dags have nearly equal values: the difference is far below the bounds of either.
        tolerances, share = _tolerances(meaning or dag, low, high)
        test = Test(low, high, tolerances, magnitude)
        unknown = max(tolerances) >= WORST_TOLERANCE
        if share < SHARP and not unknown:
            return test
        tests.append((unknown, share, test))
    return min(tests, key=lambda one: one[:2])[2]


def _tolerances(dag: Dag, low: float, high: float) -> tuple[tuple[float, ...], float]:
    """Return a tolerance per output, and the largest of 16 bits over its largest element."""
    spans = index_spans(dag)
    listed = [
        TensorSpec(node.name, node.dtype, node.shape, "input", spans.get(node.name))
        for node in dag.nodes
        if isinstance(node, Placeholder)
    ]
    runner = Runner(
        listed, [tensor.name for tensor in listed], (), {}, _nothing, _nothing, _no_reference,
        Test(low, high, (), 0), 0,
    )  # fmt: skip
    drawn = runner.random_inputs(np.random.default_rng(0))
    values = {t.name: decode(array, t.dtype) for t, array in zip(listed, drawn, strict=True)}
    bounded = evaluate_bounded(dag, values)
    limits, share = list[float](), 0.0
    for node in (dag.node(name) for name in dag.outputs):
        assert isinstance(node, Compute)
        for one, dtype in zip(bounded[node.name], node.dtypes, strict=True):
            limit = float(np.max(allowed(one, dtype)[np.isfinite(one.value)], initial=0.0))
            hopeless = not np.isfinite(limit) or not np.all(np.isfinite(one.value))
            limits.append(WORST_TOLERANCE if hopeless else limit)
            largest = float(np.abs(one.value).max(initial=0.0, where=np.isfinite(one.value)))
            if dtype in NARROW:
                share = max(share, limit / largest if largest else np.inf)
    return tuple(limits), share


def _nothing(*_: Array) -> None:
    """Stand in for a kernel that is not called."""


def _no_reference(_inputs: list[Array], _constants: list[Array]) -> tuple[Array, ...]:
    return ()


def kernel_text(dag: Dag, kernel: Kernel, facts: Facts, test: Test) -> str:
    """Return `kernel.py`, which needs numba, numpy and the `simd.py` beside it."""
    fixed = constants(dag)
    outputs = {buffer.name for buffer in kernel.buffers if buffer.scope is Scope.OUTPUT}
    missing = [name for name in output_names(dag) if name not in outputs]
    assert not missing, f"no buffers for the outputs {missing}; there are {sorted(outputs)}"
    parts = [
        _docstring(dag, facts),
        kernel.source.rstrip(),
        "# " + "-" * 30 + " the reference: float64, one loop per axis\nimport math",
        reference_source(dag).rstrip(),
        "\n".join(
            [
                "# " + "-" * 30 + " facts for the harness in simd.py",
                "Raced, Runner = simd.Raced, simd.Runner",
                "TensorSpec, Test = simd.TensorSpec, simd.Test",
                _listing("TENSORS", [repr(tensor) for tensor in tensors(dag, kernel.buffers)]),
                f"INPUTS = {tuple(node.name for node in dag.placeholders)!r}",
                f"OUTPUTS = {output_names(dag)!r}",
                f"CONSTANTS = {tuple(fixed)!r}",
                f"TEST = {test!r}",
                f"FLOP = {flop_count(dag)}",
                f"RACED = {facts.raced!r}",
                f"DIMS = ({''.join(f'simd.{one!r}, ' for one in dim_specs(dag))})",
            ]
        ),
        _LOAD.strip("\n"),
        _MAIN.strip("\n"),
    ]
    return "\n\n\n".join(parts) + "\n"


_LOAD: Final = '''
def load_constants():
    """Return the constant tensors, from `constants.npz` beside this file."""
    if not CONSTANTS:
        return {}
    with np.load(Path(__file__).with_name("constants.npz"), allow_pickle=False) as stored:
        return {name: stored[f"c{i}"] for i, name in enumerate(CONSTANTS)}
'''


def constants_file(dag: Dag) -> dict[str, bytes]:
    """Return `constants.npz`, if there are any; names of users do not become file names."""
    arrays = {f"c{i}": array for i, array in enumerate(constants(dag).values())}
    return {"constants.npz": npz(arrays)} if arrays else {}


def _listing(name: str, items: Sequence[str]) -> str:
    return "\n".join([f"{name} = (", *(f"    {item}," for item in items), ")"])


def _docstring(dag: Dag, facts: Facts) -> str:
    takes = ", ".join(f"{node.name} {node.dtype}{list(node.shape)}" for node in dag.placeholders)
    gives = ", ".join(output_names(dag))
    lines = [
        facts.title,
        "",
        f"    run({takes})",
        f"    -> {gives}",
        "",
        *facts.lines,
        "",
        "    python kernel.py --selftest --bench",
        "",
        "Schedule:",
        *(f"    {line}" for line in facts.schedule.splitlines()),
    ]
    text = "\n".join(lines).replace("\\", "/").replace('"""', "'''")
    return f'"""{text}\n"""'


@lru_cache(maxsize=1)
def helpers_text() -> str:
    """Return `simd.py`: the SIMD compiler and the harness, the same in every zip of a version."""
    harness = Path(str(files("ansorpy.artifact").joinpath("harness.py")))
    return joined(_HELPERS_DOC, [*simd_paths(), harness])


_HELPERS_DOC: Final = """The helpers of kernel.py; the same in every zip of one version of ansorpy.

The SIMD compiler: `tile` makes an intrinsic of numba from one line of text; section `parser`
describes the text. The harness: `Runner` calls a kernel, tests it and times it."""


def caller_parts() -> tuple[str, str]:
    """Return the texts of the harness and of the calls of libraries, which need no numba."""
    harness = below("ansorpy.artifact", "harness.py", MARKER)
    calls = below("ansorpy.artifact", "library_calls.py", _CALLS_MARKER)
    return (
        "# " + "-" * 30 + " harness, the same in every zip\n" + harness.rstrip(),
        "# " + "-" * 30 + " calls of a library\n" + calls.rstrip(),
    )


def below(package: str, name: str, marker: str) -> str:
    """Return the text of a file of a package below a marker line."""
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return text.partition(marker)[2]


_CALLS_MARKER: Final = "# --- library calls: the same in every zip ---\n"
_NATIVE_MARKER: Final = "# --- native: the same in every kernel zip ---\n"
_NATIVE_DOC: Final = '''"""The exported library, called from Python: needs numpy, and no numba.

    import native
    native.run(...)                          as tuned
    native.open_library(folder, threads=4)   a Runner with another number of threads
    with native.LibraryPool(folder, 4) as pool:       threads that end with the block:
        native.open_library(folder, pool=pool).run(...)
    python native.py --selftest --bench
"""

import ctypes
import json
import os
import sys
import weakref
from pathlib import Path
from types import ModuleType
from typing import Self'''
_NATIVE_MAIN: Final = """\
RUNNER = open_library(Path(__file__).parent)
run = RUNNER.run
prepare = RUNNER.prepare

if __name__ == "__main__":
    raise SystemExit(RUNNER.main())
"""


def native_text() -> str:
    """Return `native.py`, the same text in every zip."""
    native = "# " + "-" * 30 + " native\n" + below("ansorpy.artifact", "native.py", _NATIVE_MARKER)
    return "\n\n\n".join([_NATIVE_DOC, *caller_parts(), native.rstrip(), _NATIVE_MAIN])
