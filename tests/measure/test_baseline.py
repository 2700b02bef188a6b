import numpy as np
import pytest

from ansorpy.measure import inputs
from ansorpy.measure.baseline import numpy_call
from ansorpy.te.dag import Dag
from ansorpy.te.library import LIBRARY
from ansorpy.te.reference import evaluate
from ansorpy.te.text import parse

HAVE = {
    "matmul": "def f(float(5,7) A, float(7,3) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
    "transposed": "def f(float(7,5) A, float(3,7) B) -> (C) { C(j,i) +=! A(k,i) * B(j,k) }",
    "batched": "def f(float(2,5,7) A, float(2,7,3) B) -> (C) { C(b,i,j) +=! A(b,i,k) * B(b,k,j) }",
    "relu": "def f(float(5,7) A, float(7) B) -> (C) { C(i,j) = max(A(i,j) + B(j), 0.0) }",
    "row max": "def f(float(5,7) A) -> (C) { C(i) max=! A(i,k) }",
    "sum of squares": "def f(float(5,7) A) -> (C) { C(i) +=! A(i,k) * A(i,k) }",
}


@pytest.mark.parametrize("text", HAVE.values(), ids=HAVE)
def test_numpy_agrees_with_the_reference(text: str) -> None:
    (dag,) = parse(text)
    agrees(dag)


@pytest.mark.parametrize(
    "text",
    ["def f(float(9) A, float(3) B) -> (C) { C(i) +=! A(i+k) * B(k) where i in 0:7 }"],
)
def test_shifted_reads_have_no_call(text: str) -> None:
    (dag,) = parse(text)
    assert numpy_call(dag) is None


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_the_library_agrees_where_numpy_has_a_call(name: str) -> None:
    dag = LIBRARY[name]()
    if numpy_call(dag) is not None and sum(node.points for node in dag.computes) < 1 << 24:
        agrees(dag)


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
