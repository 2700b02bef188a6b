"""Graphs: construction, folding, checks, and the interpreter against NumPy."""

import numpy as np
import pytest

from ansorpy import te
from ansorpy.errors import GraphError
from ansorpy.graph import Graph, Node, Output, Symbol, ValueInfo, Weight
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.interp import evaluate, run
from ansorpy.graph.operator import Operands


def test_a_graph_of_nodes_runs_as_numpy_does() -> None:
    builder = GraphBuilder()
    builder.input("x", (2, 3), "float32")
    builder.constant("w", np.arange(3, dtype=np.float32))
    builder.constant("two", np.array(2, np.float32))
    builder.add("Add", ["x", "w"], ["a"])
    builder.add("Mul", ["a", "two"], ["b"])
    builder.add("Relu", ["b"], ["c"])
    builder.output("y", "c")
    graph = builder.graph()
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    expected = np.maximum((x + np.arange(3, dtype=np.float32)) * 2, 0)
    found = run(graph, {"x": x})["y"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_node_of_known_operands_folds_to_a_constant() -> None:
    builder = GraphBuilder()
    builder.constant("a", np.array([1, 2], np.int64))
    builder.constant("b", np.array([[3], [4]], np.int64))
    builder.add("Add", ["a", "b"], ["c"])
    assert builder.weights["c"].array.tolist() == [[4, 5], [5, 6]]
    assert builder.weights["c"].dtype == "int64"


def test_an_unknown_operator_is_named() -> None:
    builder = GraphBuilder()
    builder.input("x", (2,), "float32")
    with pytest.raises(GraphError, match=r"node 'n7' \(Frob\).*no kernel"):
        builder.add("Frob", ["x"], ["y"], name="n7")


def test_an_unknown_attribute_is_named() -> None:
    builder = GraphBuilder()
    builder.input("x", (2,), "float32")
    with pytest.raises(GraphError, match=r"\(Relu\) because attribute 'slope'"):
        builder.add("Relu", ["x"], ["y"], {"slope": 0.1})


def test_operands_that_do_not_fit_name_the_node() -> None:
    builder = GraphBuilder()
    builder.input("x", (2,), "float32")
    builder.input("y", (3,), "float32")
    with pytest.raises(GraphError, match=r"node 'sum' \(Add\)"):
        builder.add("Add", ["x", "y"], ["z"], name="sum")


def test_a_symbolic_extent_is_refused_with_its_name() -> None:
    builder = GraphBuilder()
    builder.input("x", (Symbol("batch", 1, 8), 3), "float32")
    with pytest.raises(GraphError, match="--bind batch=1"):
        builder.add("Relu", ["x"], ["y"])


def test_weights_are_known_by_their_bytes() -> None:
    one, two = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    assert Weight.of(one) == Weight.of(one.copy())
    assert Weight.of(one).digest != Weight.of(two).digest
    assert Weight.of(one).digest != Weight.of(one.astype(np.float64)).digest
    assert Weight.of(np.zeros((0, 3), np.float32)).elements == 0
    assert Weight.of(np.array(1.0, np.float32)).shape == ()


def test_a_value_that_is_read_before_it_is_defined_fails_the_check() -> None:
    values = {name: ValueInfo(name, (2,), "float32") for name in "xy"}
    graph = Graph((Node("Relu", ("z",), ("y",)),), ("x",), (Output("y", "y"),), values)
    with pytest.raises(GraphError, match="'z' is not defined before"):
        graph.check()


@pytest.mark.parametrize(
    ("dtype", "slope"), [("float64", float(np.float32(0.01))), ("float32", np.float32(0.01))]
)
def test_defaults_of_float_attributes_are_float32(dtype: str, slope: float) -> None:
    x = np.array([-1.0, -3.0], dtype)
    (found,) = evaluate(Node("LeakyRelu", ("x",), ("y",)), {"x": x}, {})
    np.testing.assert_array_equal(found, (x * slope).astype(dtype))


def test_a_known_number_of_bfloat16_is_no_bit_pattern() -> None:
    exponent = Weight.of(np.array([0xBF80], np.uint16), "bfloat16")  # -1
    x = np.array([0x4080, 0xC000], np.uint16)  # 4 and -2
    values = {name: ValueInfo(name, (n,), "bfloat16") for name, n in (("x", 2), ("e", 1))}
    graph = Graph((), ("x",), (), values, {"e": exponent})
    node = Node("Pow", ("x", "e"), ("y",))
    (found,) = evaluate(node, {"x": x, "e": exponent.array}, graph.weights, graph)
    np.testing.assert_array_equal(found, [0x3E80, 0xBF00])  # 0.25 and -0.5
    number = Operands(
        node, lambda name: te.placeholder((2,), name, "bfloat16"), graph.weights
    ).number(1)
    assert number == -1
