"""Operators that NumPy computes: allowed on request, typed, and copied as text."""

import math

import numpy as np
import pytest

from ansorpy.errors import GraphError
from ansorpy.graph import Graph, Symbol
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.hosted.text import function_text
from ansorpy.graph.interp import run
from ansorpy.graph.operator import OPERATORS


def top_k(hosted: bool) -> GraphBuilder:
    builder = GraphBuilder(hosted=hosted)
    builder.input("x", (2, 5), "float32")
    builder.constant("k", np.array([3]))
    builder.add("TopK", ["x", "k"], ["values"], {"axis": -1}, "best")
    builder.output("y", "values")
    return builder


def test_an_operator_without_a_kernel_is_refused_unless_it_is_allowed() -> None:
    with pytest.raises(GraphError, match=r"node 'best' \(TopK\).*no kernel; expected --hosted"):
        top_k(hosted=False)


def test_a_hosted_node_has_a_name_for_every_output() -> None:
    graph = top_k(hosted=True).graph()
    assert graph.nodes[0].outputs == ("values", "values.out1")
    assert graph.values["values.out1"].dtype == "int64"
    x = np.array([[1, 5, 2, 5, 0], [0, 0, 0, 0, 0]], np.float32)
    assert run(graph, {"x": x})["y"].tolist() == [[5, 5, 2], [0, 0, 0]]


def test_a_shape_that_depends_on_data_is_symbolic_and_has_no_readers() -> None:
    builder = GraphBuilder(hosted=True)
    builder.input("x", (2, 3), "float32")
    builder.add("NonZero", ["x"], ["places"])
    assert builder.values["places"].shape == (2, Symbol("nonzero", 0, 6))
    with pytest.raises(GraphError, match="'places' is symbolic; expected a model that ends"):
        builder.add("Abs", ["places"], ["y"])


def test_a_hosted_node_of_known_operands_folds() -> None:
    builder = GraphBuilder()
    builder.constant("x", np.array([[0.0, 2.0], [3.0, 0.0]], np.float32))
    builder.add("NonZero", ["x"], ["places"])
    assert builder.weights["places"].array.tolist() == [[0, 1], [1, 0]]


def narrow(op: str, operand: np.ndarray | None = None, outputs: int = 1, **attrs: int) -> Graph:
    """Return a graph of one node that reads x of bfloat16."""
    builder = GraphBuilder(hosted=True)
    builder.input("x", X.shape, "bfloat16")
    names = ["x"] if operand is None else ["x", builder.constant("k", operand)]
    for name in builder.add(op, names, [f"y{n}" for n in range(outputs)], attrs):
        builder.output(name, name)
    return builder.graph()


X = np.array([[1.5, -1.5, 0.0, -0.0, 3.0, -7.0, 2.0, 1.0]], np.float32)
BITS = (X.view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("largest", [0, 1])
def test_elements_of_bfloat16_are_ranked_by_value(largest: int) -> None:
    graph = narrow("TopK", np.array([3]), 2, largest=largest)
    found = run(graph, {"x": BITS})
    order = np.argsort(-X if largest else X, 1, kind="stable")[:, :3]
    assert graph.values["y0"].dtype == "bfloat16"
    assert found["y1"].tolist() == order.tolist()
    assert found["y0"].tolist() == np.take_along_axis(BITS, order, 1).tolist()


def test_a_zero_of_bfloat16_is_zero_with_either_sign() -> None:
    assert run(narrow("NonZero"), {"x": BITS})["y0"].tolist() == [[0] * 6, [0, 1, 4, 5, 6, 7]]


def test_products_of_bfloat16_are_those_of_its_values() -> None:
    found = run(narrow("CumProd", np.array(1)), {"x": BITS})["y0"]
    wanted = np.cumprod(X, 1)
    assert ((found.astype(np.uint32) << 16).view(np.float32) == wanted).all()


def test_parts_of_bfloat16_keep_their_bits() -> None:
    found = run(narrow("Compress", np.arange(8) > 4, axis=1), {"x": BITS})["y0"]
    assert found.tolist() == BITS[:, 5:].tolist()


HOSTED = sorted(name for name, one in OPERATORS.items() if one.hosted is not None)


@pytest.mark.parametrize("name", HOSTED)
def test_the_text_of_a_function_stands_by_itself(name: str) -> None:
    twin = OPERATORS[name].hosted
    assert twin is not None
    scope = {"np": np, "math": math}
    exec(function_text(twin.function), scope)
    made = scope[twin.function.__name__]
    assert callable(made)
    code = made.__code__
    unknown = set(code.co_names) - set(dir(np)) - {"np", "math"} - set(dir(__builtins__))
    globals_read = {name for name in unknown if name in twin.function.__globals__}
    assert not globals_read


def test_text_computes_as_the_function_does() -> None:
    twin = OPERATORS["LSTM"].hosted
    assert twin is not None
    scope = {"np": np, "math": math}
    exec(function_text(twin.function), scope)
    rng = np.random.default_rng(0)
    shapes = ((4, 2, 3), (2, 20, 3), (2, 20, 5), (2, 40))
    reads = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    again = scope["rnn"](reads, gates=4, direction="bidirectional")  # type: ignore[operator]
    for one, other in zip(twin.function(reads, gates=4, direction="bidirectional"), again,
                          strict=True):  # fmt: skip
        assert np.array_equal(one, other)
