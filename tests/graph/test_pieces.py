"""Groups in pieces: every value that a reader may compute again ends a piece."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.facts import NodeFactsOf
from ansorpy.graph.groups import Partition
from ansorpy.graph.interp import run
from ansorpy.graph.partition import partition
from ansorpy.graph.pieces import pieces
from tests.graph.random_graph import random_graph, random_inputs
from tests.graph.test_partition import run_groups


def in_pieces(graph: Graph) -> Partition:
    """Return the partition of a graph with every group in pieces."""
    made, facts_of = partition(graph), NodeFactsOf(graph)
    groups = tuple(piece for group in made.groups for piece in pieces(graph, group, facts_of))
    return replace(made, groups=groups)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_in_order_compute_the_graph(seed: int) -> None:
    graph = random_graph(seed)
    inputs = random_inputs(graph, seed)
    expected, found = run(graph, inputs), run_groups(in_pieces(graph), inputs)
    for name, array in expected.items():
        close = np.isclose(found[name], array, rtol=1e-4, atol=1e-4, equal_nan=True)
        assert close.mean() > 0.97, name


def test_a_piece_ends_at_values_that_are_read_again() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (4, 8), "float32")
    builder.add("Exp", [x], ["e"])
    builder.add("Neg", ["e"], ["n"])  # read by two nodes
    sums = builder.add("ReduceSum", ["n"], ["s"], {"keepdims": 1})[0]
    builder.add("Sqrt", [sums], ["r"])  # read at several points
    builder.add("Div", ["n", "r"], ["d"])
    builder.add("Abs", ["d"], ["y"])
    builder.output("y", "y")
    made = partition(builder.graph())
    assert [group.title for group in made.groups] == ["Exp+Neg+ReduceSum+Sqrt+Div+Abs"]
    titles = [group.title for group in in_pieces(builder.graph()).groups]
    assert titles == ["Exp+Neg", "ReduceSum+Sqrt", "Div+Abs"]


def test_nodes_that_take_each_element_once_stay_together() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 4, 8, 8), "float32")
    w = builder.constant("w", np.ones((4, 4, 1, 1), np.float32))
    builder.add("Conv", [x, w], ["c"])
    builder.add("Add", ["c", x], ["a"])
    builder.add("Relu", ["a"], ["y"])
    builder.output("y", "y")
    assert [group.title for group in in_pieces(builder.graph()).groups] == ["Conv+Add+Relu"]
