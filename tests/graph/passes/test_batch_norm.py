"""Scales and shifts of channels in the weights before them, within a bound on random graphs."""

import numpy as np
import pytest

from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.passes.batch_norm import batch_norm
from tests.graph.passes.common import after, assert_within, ops

# Share of the largest element: a product of at most 36 terms is computed in float64 by the
# interpreter, so each result has the rounding of weight, bias and result in float32; a shift that
# nearly cancels the scaled product makes the share some ten times as large.
BOUND = 64 * 2.0**-24


def graph_of(op: str, after_it: str, groups: int = 1, **attrs: int | float) -> Graph:
    """Return product, then a map of channels: "bn" or an arithmetic operator."""
    rng = np.random.default_rng(1)

    def weights(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    on = GraphBuilder()
    if op == "Gemm":
        on.input("x", (3, 4), "float32")
        on.constant("w", weights(6, 4) if attrs.get("transB") else weights(4, 6))
        on.constant("c", weights(6))
        on.add("Gemm", ["x", "w", "c"], ["a"], attrs)
    elif op == "Conv":
        on.input("x", (1, 4, 5, 5), "float32")
        on.constant("w", weights(6, 4 // groups, 3, 3))
        on.add("Conv", ["x", "w"], ["a"], {"kernel_shape": (3, 3), "group": groups})
    else:
        on.input("x", (1, 4, 5, 5), "float32")
        on.constant("w", weights(4, 6 // groups, 3, 3))
        on.constant("c", weights(6))
        on.add("ConvTranspose", ["x", "w", "c"], ["a"], {"kernel_shape": (3, 3), "group": groups})
    if after_it == "bn":
        for name in ("scale", "shift", "mean"):
            on.constant(name, weights(6))
        on.constant("variance", np.abs(weights(6)))
        on.add("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"])
    else:
        rest = () if op == "Gemm" else (1, 1)
        on.constant("k", weights(6, *rest) + 2)
        on.add(after_it, ["a", "k"], ["b"])
    on.output("y", "b")
    return on.graph()


@pytest.mark.parametrize("then", ["bn", "Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize(
    ("op", "groups", "attrs"),
    [
        ("Conv", 1, {}), ("Conv", 2, {}), ("ConvTranspose", 1, {}), ("ConvTranspose", 2, {}),
        ("Gemm", 1, {}), ("Gemm", 1, {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ],
)  # fmt: skip
def test_a_map_of_channels_goes_into_the_product(
    op: str, groups: int, attrs: dict[str, int | float], then: str
) -> None:
    graph = graph_of(op, then, groups, **attrs)
    made = after(batch_norm, graph)
    assert ops(made) == [op]
    assert_within(graph, made, BOUND)


def test_a_product_that_is_read_twice_keeps_its_weights() -> None:
    graph = graph_of("Conv", "bn")
    both = Graph(
        graph.nodes, graph.inputs, (*graph.outputs, type(graph.outputs[0])("z", "a")),
        graph.values, graph.weights,
    )  # fmt: skip
    made = after(batch_norm, both)
    assert ops(made) == ["Conv", "Mul", "Add"]
    assert_within(both, made, BOUND)


def test_weights_that_would_be_infinite_stay() -> None:
    on = GraphBuilder()
    on.input("x", (1, 2, 3, 3), "float32")
    on.constant("w", np.full((2, 2, 1, 1), 1e30, np.float32))
    on.constant("k", np.full((2, 1, 1), 1e30, np.float32))
    on.add("Conv", ["x", "w"], ["a"], {"kernel_shape": (1, 1)})
    on.add("Mul", ["a", "k"], ["b"])
    on.output("y", "b")
    assert batch_norm(on.graph()).sites == 0


def test_a_constant_that_varies_along_a_row_stays() -> None:
    on = GraphBuilder()
    on.input("x", (1, 2, 3, 3), "float32")
    on.constant("w", np.ones((2, 2, 1, 1), np.float32))
    on.constant("k", np.arange(3, dtype=np.float32))
    on.add("Conv", ["x", "w"], ["a"], {"kernel_shape": (1, 1)})
    on.add("Mul", ["a", "k"], ["b"])
    on.output("y", "b")
    assert batch_norm(on.graph()).sites == 0
