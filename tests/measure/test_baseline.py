from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy import te
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.timing.numpy_baseline import numpy_call
from ansorpy.measure.verify import inputs
from ansorpy.oracle.reference import evaluate
from ansorpy.te.dag import Dag
from ansorpy.topi.suites import LIBRARY

HAVE = {
    "matmul": "def f(float(5,7) A, float(7,3) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
    "transposed": "def f(float(7,5) A, float(3,7) B) -> (C) { C(j,i) +=! A(k,i) * B(j,k) }",
    "batched": "def f(float(2,5,7) A, float(2,7,3) B) -> (C) { C(b,i,j) +=! A(b,i,k) * B(b,k,j) }",
    "relu": "def f(float(5,7) A, float(7) B) -> (C) { C(i,j) = max(A(i,j) + B(j), 0.0) }",
    "row max": "def f(float(5,7) A) -> (C) { C(i) max=! A(i,k) }",
    "sum of squares": "def f(float(5,7) A) -> (C) { C(i) +=! A(i,k) * A(i,k) }",
    "rows of K": "def f(float(5,7) Q, float(9,7) K) -> (S) {"
    " S(i,j) +=! Q(i,d) * K(j,d) where j in 0:6 }",
    "prefix of k": "def f(float(5,9) A, float(7,3) B) -> (C) {"
    " C(i,j) +=! A(i,k) * B(k,j) where k in 0:7 }",
    "longer operand": "def f(float(9,4) A, float(5,4) B) -> (C) {"
    " C(i,j) = A(i,j) + B(i,j) where i in 0:5 }",
    "prefix of a sum": "def f(float(5,9) A) -> (C) { C(i) +=! A(i,k) where k in 0:7 }",
    "second third": "def f(float(5,12) QKV, float(4,3) W) -> (C) {"
    " C(i,j) +=! QKV(i,k+4) * W(k,j) }",
    "every second": "def f(float(5,12) A) -> (C) { C(i,j) = A(i,2*j+1) where j in 0:5 }",
    "one row": "def f(float(5,7) A, float(9) B) -> (C) { C(i) = A(3,i) * B(i) }",
}


@pytest.mark.parametrize("text", HAVE.values(), ids=HAVE)
def test_numpy_agrees_with_the_reference(text: str) -> None:
    (dag,) = parse(text)
    agrees(dag)


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(9) A, float(3) B) -> (C) { C(i) +=! A(i+k) * B(k) where i in 0:7 }",
        "def f(float(9,9) A) -> (C) { C(i) = A(i,i) }",
        "def f(float(9) A) -> (C) { C(i) = A(8-i) where i in 0:9 }",
        "def f(float(9) A) -> (C) { C(i) = i < 9 ? A(i) : 0.0 where i in 0:12 }",
        "def f(float(9) A) -> (C) { C(i) = i > 0 ? A(i-1) : 0.0 where i in 0:9 }",
    ],
    ids=["window", "diagonal", "backwards", "beyond the end", "before the start"],
)
def test_reads_that_are_no_slice_have_no_call(text: str) -> None:
    (dag,) = parse(text)
    assert numpy_call(dag) is None


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_the_operators_agree_with_numpy_if_it_has_a_call(name: str) -> None:
    dag = LIBRARY[name]()
    if numpy_call(dag) is not None and sum(node.points for node in dag.computes) < 1 << 24:
        agrees(dag)


@st.composite
def partial_reads(draw: st.DrawFn) -> Dag:
    """Return a product of two tensors read by offset and step, some axes of it reduced."""
    extents = dict(zip("ijk", draw(st.tuples(*[st.integers(1, 4)] * 3)), strict=True))
    over = draw(st.sampled_from(["", "k", "jk"]))
    out = [axis for axis in "ijk" if axis not in over]
    reduced = {axis: te.reduce_axis((0, extents[axis]), axis) for axis in over}
    reads = []
    for name in "AB":
        axes = draw(st.permutations(draw(st.sampled_from(["i", "ik", "jk", "ijk"]))))
        parts = [(a, draw(st.integers(1, 3)), draw(st.integers(0, 2))) for a in axes]
        spare = draw(st.integers(0, 2))
        shape = [c + s * (extents[a] - 1) + 1 + spare for a, s, c in parts]
        reads.append((te.placeholder(shape, name), parts))

    def body(*indices: te.Scalar) -> te.Scalar | te.Reduction:
        at = {**dict(zip(out, indices, strict=True)), **reduced}
        a, b = (tensor[tuple(at[x] * s + c for x, s, c in parts)] for tensor, parts in reads)
        return te.sum(a * b, axis=tuple(reduced.values())) if over else a * b

    made = te.compute([extents[axis] for axis in out], body, "C", axes=out)
    return te.dag(made, "f", inputs=[tensor for tensor, _ in reads])


@settings(max_examples=150)
@given(dag=partial_reads())
def test_numpy_reads_the_part_that_the_reference_reads(dag: Dag) -> None:
    function = numpy_call(dag)
    assert function is not None
    whole = {
        node.name: (np.arange(prod(node.shape)) % 97).astype(np.float32).reshape(node.shape)
        for node in dag.placeholders
    }
    for one, two in zip(function(whole), evaluate(dag, whole), strict=True):
        assert one.shape == two.shape
        assert np.array_equal(one, two)  # integers below 2**24: exact in float32


def agrees(dag: Dag) -> None:
    function = numpy_call(dag)
    assert function is not None
    given = inputs.positive_inputs(dag, np.random.default_rng(0))
    found = function(given)
    outputs = [node for node in dag.computes if node.name in dag.outputs]
    assert [one.dtype for one in found] == [d for node in outputs for d in node.dtypes]
    for one, two in zip(found, evaluate(dag, given), strict=True):
        assert one.shape == two.shape
        # float32 sums of a few thousand terms of one sign
        assert np.allclose(one, two, rtol=1e-4, atol=1e-5)
