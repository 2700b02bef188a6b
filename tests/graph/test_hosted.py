"""Operators that NumPy computes: allowed on request, typed, and copied as text."""

import math

import numpy as np
import pytest

from ansorpy.errors import GraphError
from ansorpy.graph import Dim
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
    assert builder.values["places"].shape == (2, Dim("nonzero", 0, 6))
    with pytest.raises(GraphError, match="extent 'nonzero' of its input 'places' is symbolic"):
        builder.add("Abs", ["places"], ["y"])


def test_a_hosted_node_of_known_operands_folds() -> None:
    builder = GraphBuilder()
    builder.constant("x", np.array([[0.0, 2.0], [3.0, 0.0]], np.float32))
    builder.add("NonZero", ["x"], ["places"])
    assert builder.weights["places"].array.tolist() == [[0, 1], [1, 0]]


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
