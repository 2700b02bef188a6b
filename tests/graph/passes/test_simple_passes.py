"""Dead, fold, identity, gathers and equal: sites, obstacles, and equal bits on random graphs."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.graph import Graph, Weight
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.passes import simplify
from ansorpy.graph.passes.dead import dead
from ansorpy.graph.passes.equal import equal
from ansorpy.graph.passes.fold import fold
from ansorpy.graph.passes.gathers import gathers
from ansorpy.graph.passes.identity import identity
from tests.graph.passes.common import after, assert_same_bits, built, ops


def test_a_dead_node_and_its_constant_are_removed() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("w", np.ones(4, np.float32))
        on.add("Add", ["x", "w"], ["a"])
        on.add("Exp", ["a"], ["b"])
        return on.add("Relu", ["x"], ["c"])[0]

    graph = built(make)
    made = dead(graph)
    assert ops(made.graph) == ["Relu"]
    assert not made.graph.weights
    assert set(made.graph.values) == {"x", "c"}
    assert dead(made.graph).sites == 0
    assert_same_bits(graph, made.graph)


@pytest.mark.parametrize(("op", "name"), [("Split", ""), ("TopK", "b")])
def test_an_unread_output_has_no_name_unless_numpy_computes_it(op: str, name: str) -> None:
    builder = GraphBuilder(hosted=True)
    builder.input("x", (2, 4), "float32")
    builder.constant("k", np.array([2] if op == "TopK" else [1, 3], np.int64))
    builder.add(op, ["x", "k"], ["a", "b"], {"axis": 1})
    builder.output("y", "a")
    made = dead(builder.graph()).graph
    assert [node.outputs for node in made.nodes] == [("a", name)]
    assert made.values.keys() == {"x", "k", "a", *filter(None, [name])}


def known_input(graph: Graph, values: np.ndarray) -> Graph:
    """Return the graph with its input as a constant."""
    return replace(graph, inputs=(), weights={**graph.weights, "x": Weight.of(values)})


def test_known_operands_are_folded() -> None:
    def make(on: GraphBuilder) -> str:
        on.add("Relu", ["x"], ["a"])
        on.add("Add", ["a", "x"], ["b"])
        return "b"

    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    graph = known_input(built(make), x)
    made = fold(graph)
    assert made.sites == 2
    assert not made.graph.nodes
    np.testing.assert_array_equal(made.graph.weights["b"].array, np.maximum(x, 0) + x)
    assert_same_bits(graph, made.graph)


def test_weights_that_are_not_at_hand_are_not_folded() -> None:
    graph = built(lambda on: on.add("Relu", ["x"], ["a"])[0])
    away = replace(Weight.of(np.ones((2, 3, 4), np.float32)), load=None)
    assert fold(replace(graph, inputs=(), weights={"x": away})).sites == 0


def test_a_large_result_of_small_operands_is_not_folded() -> None:
    builder = GraphBuilder()
    builder.input("x", (700, 1), "float32")
    builder.input("y", (700,), "float32")
    builder.add("Add", ["x", "y"], ["z"])
    builder.output("z", "z")
    graph = builder.graph()
    weights = {
        "x": Weight.of(np.ones((700, 1), np.float32)), "y": Weight.of(np.ones(700, np.float32)),
    }  # fmt: skip
    assert fold(replace(graph, inputs=(), weights=weights)).sites == 0


@pytest.mark.parametrize(
    ("op", "number", "gone"),
    [
        ("Mul", 1.0, True), ("Mul", -1.0, False), ("Add", -0.0, True), ("Add", 0.0, False),
        ("Sub", 0.0, True), ("Sub", -0.0, False), ("Mul", 0.0, False), ("Add", 1.0, False),
    ],
)  # fmt: skip
def test_a_neutral_constant_is_dropped(op: str, number: float, gone: bool) -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("w", np.full((1, 4), number, np.float32))
        return on.add(op, ["x", "w"], ["a"])[0]

    graph = built(make)
    made = after(identity, graph)
    assert ops(made) == ([] if gone else [op])
    assert_same_bits(graph, made)


def test_a_neutral_constant_that_broadcasts_the_operand_stays() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("w", np.ones((5, 2, 3, 4), np.float32))
        return on.add("Mul", ["x", "w"], ["a"])[0]

    assert identity(built(make)).sites == 0


def test_idempotent_and_inverse_nodes_are_dropped() -> None:
    def make(on: GraphBuilder) -> list[str]:
        on.add("Relu", ["x"], ["a"])
        on.add("Relu", ["a"], ["b"])
        on.add("Neg", ["x"], ["c"])
        on.add("Neg", ["c"], ["d"])
        return ["b", "d"]

    graph = built(make)
    made = after(identity, graph)
    assert ops(made) == ["Relu"]
    assert [output.value for output in made.outputs] == ["a", "x"]
    assert_same_bits(graph, made)


PLACES = np.stack(np.unravel_index(np.arange(6), (2, 3)), -1)


@pytest.mark.parametrize(
    ("op", "axis", "places", "op_made"),
    [
        ("Gather", -2, np.arange(3).reshape(1, 3, 1), "Reshape"),
        ("Gather", 2, np.arange(4).reshape(2, 2), "Reshape"),
        ("GatherND", None, PLACES.reshape(1, 2, 1, 3, 2), "Reshape"),
        ("GatherND", None, PLACES[:, :1], "GatherND"),
        ("GatherND", None, PLACES.reshape(2, 3, 2).swapaxes(0, 1), "GatherND"),
        ("GatherND", None, PLACES - np.array([0, 3]), "GatherND"),
        ("Gather", 1, np.arange(2), "Gather"),
        ("Gather", 1, np.array([0, 2, 1]), "Gather"),
    ],
)
def test_a_gather_of_all_elements_in_order_is_a_view(
    op: str, axis: int | None, places: np.ndarray, op_made: str
) -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("places", places)
        return on.add(op, ["x", "places"], ["a"], {} if axis is None else {"axis": axis})[0]

    graph = built(make)
    made = after(gathers, graph)
    assert ops(made) == [op_made]
    assert_same_bits(graph, made)


def test_equal_nodes_are_computed_once() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("w", np.full(4, 2, np.float32))
        on.constant("v", np.full(4, 2, np.float32))
        on.add("Mul", ["x", "w"], ["a"])
        on.add("Mul", ["x", "v"], ["b"])
        on.add("Relu", ["a"], ["c"])
        on.add("Relu", ["b"], ["d"])
        return on.add("Add", ["c", "d"], ["e"])[0]

    graph = built(make)
    made = equal(graph)
    assert made.sites == 2
    assert ops(after(equal, graph)) == ["Mul", "Relu", "Add"]
    assert_same_bits(graph, made.graph)


def test_operands_in_another_order_are_another_node() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("w", np.full(4, 2, np.float32))
        on.add("Sub", ["x", "w"], ["a"])
        on.add("Sub", ["w", "x"], ["b"])
        return on.add("Mul", ["a", "b"], ["c"])[0]

    assert equal(built(make)).sites == 0


def test_the_manager_reports_the_passes_that_fired() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("w", np.ones(4, np.float32))
        on.add("Exp", ["x"], ["dead"])
        on.add("Mul", ["x", "w"], ["a"])
        on.add("Relu", ["a"], ["b"])
        on.add("Relu", ["x"], ["c"])
        return on.add("Add", ["b", "c"], ["d"])[0]

    made = simplify(built(make))
    assert list(map(str, made.fired)) == [
        "dead: 1 sites, 5 -> 4 nodes", "identity: 1 sites, 4 -> 3 nodes",
        "equal: 1 sites, 3 -> 2 nodes",
    ]  # fmt: skip
    assert made.settled
    assert made.sites == {"dead": 1, "identity": 1, "equal": 1}
    assert simplify(made.graph).fired == ()
