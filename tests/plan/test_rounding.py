"""Rounding of floats in every plan: 16-bit sums in float32, shared values the same everywhere.

Machine code of every plan of a softmax takes minutes: `make test-all`.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from ansorpy import te, topi
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, Program, Scope, Tile
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.verify.inputs import decode, encode
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU, CUDA
from ansorpy.sketch import derive
from ansorpy.target import Target, cuda_target
from ansorpy.te.dag import Dag
from tests.codegen.running import run_llvm
from tests.night import night

TARGET = Target(cores=2)
# Every half of a row, and every part of it that a plan may sum by itself, exceeds float16.
TEXTS = {
    "product": "def f({t}(4,16) X, {t}(16,20) W) -> (Y) {{ Y(i,j) +=! X(i,k) * W(k,j) }}",
    "product and relu": "def f({t}(4,16) X, {t}(16,20) W) -> (Z)"
    " {{ Y(i,j) +=! X(i,k) * W(k,j)  Z(i,j) = fmax(Y(i,j), 0) }}",
    "rows": "def f({t}(3,512) X) -> (Y) {{ Y(i) +=! X(i,k) }}",
    "columns": "def f({t}(64,96) X) -> (Y) {{ Y(j) +=! X(k,j) }}",
    "two axes": "def f({t}(8,2,96) X) -> (Y) {{ Y(j) +=! X(i,j,k) }}",
}


def programs(dag: Dag, target: Target = TARGET, most: int = 1000) -> Iterator[Program]:
    """Yield a program of every plan that the space opens, at most `most` of a sketch."""
    rng = np.random.default_rng(0)
    for sketch in derive(dag, target, CUDA if target.kind == "cuda" else CPU).sketches:
        for plan in plans(sketch, target, most):
            for row in sample(plan, 1, rng):
                yield bind(plan, [int(value) for value in row], target)


def cancelling(shape: tuple[int, ...], axis: int) -> np.ndarray:
    """Return 30,000 in the first half along an axis, -30,000 in the second; the last is less."""
    values = np.full(shape, 30000.0)
    half = [slice(None)] * len(shape)
    half[axis] = slice(shape[axis] // 2, None)
    values[tuple(half)] *= -1
    last = [slice(None)] * len(shape)
    last[axis] = slice(-1, None)
    values[tuple(last)] = -29824.0
    return values


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", TEXTS)
def test_partial_sums_of_16_bits_are_float32_in_every_plan(name: str, dtype: str) -> None:
    (dag,) = parse(TEXTS[name].format(t=dtype))
    axes = {"columns": (0,), "two axes": (0, 2)}.get(name, (1,))
    inputs = {
        node.name: encode(
            cancelling(node.shape, axes[-1]) if node.name == "X" else np.ones(node.shape), dtype
        )
        for node in dag.placeholders
    }
    sums = decode(inputs["X"], dtype).sum(axis=axes)
    want = encode(np.maximum(sums, 0) if "relu" in name else sums, dtype)
    for program in programs(dag):
        (out,) = run(program, inputs).values()
        rows = want[:, None] if out.ndim == 2 else want
        assert np.array_equal(out, np.broadcast_to(rows, out.shape)), program


def test_partial_sums_of_blocks_of_threads_are_float32() -> None:
    (dag,) = parse(TEXTS["product"].format(t="float16"))
    found = list(programs(dag, cuda_target("sm_80"), 4))
    assert found
    for program in found:
        held = [part for phase in program.phases for part in walk_stmt(phase.body)]
        buffers = {b.name: b.dtype for b in program.buffers}
        buffers |= {part.buffer.name: part.buffer.dtype for part in held if isinstance(part, Alloc)}
        sums = [
            part.store.buffers[0]
            for part in held
            if isinstance(part, Tile) and part.store.combiner == "sum"
        ]
        assert sums
        assert {buffers[name] for name in sums} == {"float32"}
        assert buffers["Y"] == "float16"


def test_an_element_type_of_16_bits_stays_in_memory() -> None:
    (dag,) = parse(TEXTS["product and relu"].format(t="float16"))
    for program in programs(dag, most=8):
        for buffer in program.buffers:
            if buffer.scope in (Scope.INPUT, Scope.OUTPUT):
                assert buffer.dtype == "float16"


@pytest.mark.parametrize(
    ("operator", "scale"), [("softmax", "product"), ("log_softmax", "quotient")]
)
@pytest.mark.parametrize("most", night((2, 1000), [2]))
def test_softmax_of_large_scaled_rows_finds_the_largest_element_in_every_plan(
    operator: str, scale: str, most: int
) -> None:
    """x * s must be one number in the maximum and in exp(x * s - maximum)."""
    x, s = te.placeholder((3, 40), "X"), te.placeholder((1, 1), "S")
    scaled = x * s if scale == "product" else x / s
    dag = te.dag(getattr(topi, operator)(scaled, -1))
    rows = np.random.default_rng(0).standard_normal((3, 40)).astype("float32")
    factor = np.full((1, 1), 3e11 if scale == "product" else 3e-12, "float32")
    logits = rows * factor if scale == "product" else rows / factor
    apart = logits.astype(float) - logits.max(1, keepdims=True)
    want = apart if operator == "log_softmax" else 1.0 * (apart == 0)
    for program in programs(dag, most=most):
        (name,) = (b.name for b in program.buffers if b.scope is Scope.OUTPUT)
        got = run_llvm(program, {"X": rows, "S": factor})[name]
        np.testing.assert_allclose(got, want, rtol=1e-6)
