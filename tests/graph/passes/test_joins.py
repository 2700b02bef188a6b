"""Concats of Concats along one axis are one; equal bits on random graphs."""

import pytest

from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.passes import simplify
from ansorpy.graph.passes.joins import MOST, joins
from tests.graph.passes.common import after, assert_same_bits, built, ops


@pytest.mark.parametrize(
    ("inner", "outer", "left"), [(1, 1, 1), (1, -2, 1), (-1, 2, 1), (2, 1, 2), (1, 2, 2)]
)
def test_a_join_of_a_join_along_the_same_axis_is_one(inner: int, outer: int, left: int) -> None:
    def make(on: GraphBuilder) -> str:
        for name in "abc":
            on.add("Tanh", ["x"], [name])
        on.add("Concat", ["a", "b"], ["ab"], {"axis": inner})
        twice = on.add("Concat", ["c", "c"], ["cc"], {"axis": inner})[0]
        return on.add("Concat", ["ab", twice], ["d"], {"axis": outer})[0]

    graph = built(make)
    made = after(joins, graph)
    assert ops(made).count("Concat") == {1: 1, 2: 3}[left]
    assert joins(made).sites == 0
    assert_same_bits(graph, made)


def test_a_join_that_others_read_stays() -> None:
    def make(on: GraphBuilder) -> list[str]:
        on.add("Concat", ["x", "x"], ["a"], {"axis": 2})
        on.add("Concat", ["a", "x"], ["b"], {"axis": 2})
        return ["a", "b"]

    assert joins(built(make)).sites == 0


def test_a_tower_of_joins_has_a_bounded_number_of_operands() -> None:
    def make(on: GraphBuilder) -> str:
        at = "x"
        for n in range(3 * MOST):
            at = on.add("Concat", ["x", at], [f"c{n}"], {"axis": 1})[0]
        return at

    graph = built(make)
    made = simplify(graph).graph
    assert max(len(node.inputs) for node in made.nodes) <= MOST
    assert len(made.nodes) <= 4
    assert_same_bits(graph, made)
