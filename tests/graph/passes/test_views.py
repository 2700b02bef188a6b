"""Views become one Reshape or none; equal bits on random graphs."""

import numpy as np

from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.passes.views import views
from tests.graph.passes.common import after, assert_same_bits, built, ops


def test_a_chain_of_views_is_one_reshape() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("axes", np.array([0], np.int64))
        on.add("Flatten", ["x"], ["a"], {"axis": 1})
        on.add("Unsqueeze", ["a", "axes"], ["b"])
        on.add("Transpose", ["b"], ["c"], {"perm": (1, 0, 2)})
        return on.add("Relu", ["c"], ["d"])[0]

    graph = built(make)
    made = after(views, graph)
    assert ops(made) == ["Reshape", "Relu"]
    assert made.weights[made.nodes[0].inputs[1]].array.tolist() == [2, 1, 12]
    assert views(made).sites == 0
    assert_same_bits(graph, made)


def test_views_back_to_the_first_shape_are_the_operand() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("flat", np.array([-1], np.int64))
        on.constant("back", np.array([2, 0, 4], np.int64))
        on.constant("mid", np.array([2, 3, 4], np.int64))
        on.add("Reshape", ["x", "flat"], ["a"])
        on.add("Reshape", ["a", "mid"], ["b"])
        on.add("Reshape", ["b", "back"], ["c"])
        return on.add("Relu", ["c"], ["d"])[0]

    graph = built(make)
    made = after(views, graph)
    assert ops(made) == ["Relu"]
    assert_same_bits(graph, made)


def test_a_transpose_that_moves_elements_stays() -> None:
    graph = built(lambda on: on.add("Transpose", ["x"], ["a"], {"perm": (1, 0, 2)})[0])
    assert views(graph).sites == 0


def test_only_an_expand_without_repetition_is_a_view() -> None:
    def make(on: GraphBuilder) -> list[str]:
        on.constant("ones", np.array([1, 1, 1, 1], np.int64))
        on.constant("more", np.array([5, 1, 1, 1], np.int64))
        on.add("Expand", ["x", "ones"], ["a"])
        on.add("Expand", ["x", "more"], ["b"])
        return ["a", "b"]

    graph = built(make)
    made = after(views, graph)
    assert ops(made) == ["Reshape", "Expand"]
    assert_same_bits(graph, made)
