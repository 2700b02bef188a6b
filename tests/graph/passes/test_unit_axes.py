"""Convolutions lose spatial axes of extent 1; equal values."""

import numpy as np
import pytest

from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Attribute
from ansorpy.graph.passes.unit_axes import unit_axes
from ansorpy.graph.passes.views import views
from tests.graph.passes.common import after, assert_within, ops


def conv(
    data: tuple[int, ...], kernel: tuple[int, ...], bias: bool = False, **attrs: Attribute
) -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", data, "float32")
    weights = np.random.default_rng(0).integers(-3, 4, kernel).astype(np.float32)
    operands = [x, builder.constant("w", weights)]
    if bias:
        operands.append(builder.constant("b", np.arange(kernel[0], dtype=np.float32)))
    builder.add("Conv", operands, ["c"], attrs)
    builder.add("Relu", ["c"], ["y"])
    builder.output("y", "y")
    return builder.graph()


@pytest.mark.parametrize(
    ("graph", "rank"),
    [
        (conv((1, 4, 9, 1), (6, 4, 5, 1), strides=(1, 1), pads=(0, 0, 0, 0)), 1),
        (conv((2, 4, 1, 9), (6, 4, 1, 3), bias=True, strides=(1, 2), pads=(0, 1, 0, 2)), 1),
        (conv((1, 4, 1, 5, 6), (6, 2, 1, 3, 3), group=2, dilations=(3, 1, 2)), 2),
        (conv((1, 4, 1, 1), (6, 4, 1, 1)), 1),
    ],
)
def test_axes_of_extent_one_go(graph: Graph, rank: int) -> None:
    made = after(views, after(unit_axes, graph))
    assert ops(made) == ["Reshape", "Conv", "Reshape", "Relu"]
    assert len(made.values[made.nodes[1].outputs[0]].shape) == rank + 2
    assert unit_axes(made).sites == 0
    assert_within(graph, made, 1e-6)


@pytest.mark.parametrize(
    "graph",
    [
        conv((1, 4, 9, 2), (6, 4, 5, 1)),
        conv((1, 4, 9, 1), (6, 4, 5, 3), pads=(0, 1, 0, 1)),
        conv((1, 4, 9), (6, 4, 5)),
        conv((1, 4, 1), (6, 4, 1)),
    ],
)
def test_other_convolutions_stay(graph: Graph) -> None:
    assert unit_axes(graph).sites == 0
