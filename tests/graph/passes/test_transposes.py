"""Transposes merged, cancelled, moved down and taken into products; the algebra of movements."""

import numpy as np
import pytest

from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.passes import simplify
from ansorpy.graph.passes.movement import Movement
from ansorpy.graph.passes.products import products
from ansorpy.graph.passes.transposes import transposes
from tests.graph.passes.common import after, assert_same_bits, assert_within, built, ops


def moved(array: np.ndarray, by: Movement) -> np.ndarray:
    """Return the elements by the normal form: split, permute; the shape is left to the caller."""
    extents, order = by.blocks
    return array.reshape(extents or (-1,)).transpose(order or (0,)).reshape(-1)


@pytest.mark.parametrize("seed", range(60))
def test_the_normal_form_of_a_random_chain_moves_as_numpy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 6], rng.integers(1, 5)))
    array = np.arange(np.prod(shape)).reshape(shape)
    found, by = array, Movement.of(shape)
    for _ in range(5):
        if rng.random() < 0.5:
            perm = rng.permutation(found.ndim)
            found, by = found.transpose(perm), by.transposed([int(n) for n in perm])
            continue
        extents = list(found.shape)
        at = int(rng.integers(0, len(extents)))
        if rng.random() < 0.5 and at + 1 < len(extents):
            extents[at : at + 2] = [extents[at] * extents[at + 1]]
        else:
            part = int(rng.choice([n for n in range(1, extents[at] + 1) if extents[at] % n == 0]))
            extents[at : at + 1] = [part, extents[at] // part]
        reshaped = by.reshaped(extents)
        if reshaped is None:  # an axis would be cut across parts of other sizes
            continue
        found, by = found.reshape(extents), reshaped
    np.testing.assert_array_equal(moved(array, by), found.reshape(-1))
    assert tuple(int(np.prod([p[2] for p in axis], initial=1)) for axis in by.axes) == found.shape


def test_the_normal_form_drops_ones_and_merges_neighbours() -> None:
    by = Movement.of((2, 1, 3, 4, 5)).transposed((3, 4, 1, 0, 2))
    assert by.blocks == ((6, 20), (1, 0))
    assert Movement.of((2, 1, 3)).transposed((1, 0, 2)).blocks == ((6,), (0,))


def test_an_uneven_cut_is_refused() -> None:
    turned = Movement.of((2, 3)).transposed((1, 0))
    assert turned.reshaped((2, 3)) is None
    even = turned.reshaped((6,))
    assert even is not None
    assert even.blocks == ((2, 3), (1, 0))


def test_inverse_transposes_cancel() -> None:
    def make(on: GraphBuilder) -> str:
        on.add("Transpose", ["x"], ["a"], {"perm": (1, 2, 0)})
        on.add("Transpose", ["a"], ["b"], {"perm": (2, 0, 1)})
        return on.add("Relu", ["b"], ["c"])[0]

    graph = built(make)
    made = after(transposes, graph)
    assert ops(made) == ["Relu"]
    assert_same_bits(graph, made)


def test_two_transposes_are_one() -> None:
    def make(on: GraphBuilder) -> str:
        on.add("Transpose", ["x"], ["a"], {"perm": (1, 2, 0)})
        return on.add("Transpose", ["a"], ["b"], {"perm": (1, 2, 0)})[0]

    graph = built(make)
    made = after(transposes, graph)
    assert ops(made) == ["Transpose"]
    assert made.nodes[0].attrs["perm"] == (2, 0, 1)
    assert_same_bits(graph, made)


def test_transposes_cancel_through_a_reshape() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("four", np.array([2, 4, 1, 3], np.int64))
        on.add("Transpose", ["x"], ["a"], {"perm": (0, 2, 1)})
        on.add("Reshape", ["a", "four"], ["b"])
        return on.add("Transpose", ["b"], ["c"], {"perm": (0, 3, 1, 2)})[0]

    graph = built(make)
    made = after(transposes, graph)
    assert ops(made) == ["Reshape"]
    assert made.values["c"].shape == (2, 3, 4, 1)
    assert_same_bits(graph, made)


def test_transposes_merge_through_a_reshape_that_splits_an_axis() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("four", np.array([2, 2, 2, 3], np.int64))
        on.add("Transpose", ["x"], ["a"], {"perm": (0, 2, 1)})
        on.add("Reshape", ["a", "four"], ["b"])
        return on.add("Transpose", ["b"], ["c"], {"perm": (0, 2, 3, 1)})[0]

    graph = built(make)
    made = after(transposes, graph)
    assert ops(made).count("Transpose") == 1
    assert_same_bits(graph, made)


def test_a_transpose_moves_behind_element_by_element_nodes_and_cancels() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("row", np.arange(3, dtype=np.float32))
        on.constant("two", np.array(2, np.float32))
        on.add("Transpose", ["x"], ["a"], {"perm": (0, 2, 1)})
        on.add("Transpose", ["x"], ["k"], {"perm": (0, 2, 1)})
        on.add("Add", ["a", "row"], ["b"])
        on.add("Mul", ["two", "b"], ["c"])
        on.add("Sub", ["c", "k"], ["d"])
        on.add("Relu", ["d"], ["e"])
        return on.add("Transpose", ["e"], ["f"], {"perm": (0, 2, 1)})[0]

    graph = built(make)
    made = after(transposes, graph)
    assert ops(made) == ["Add", "Mul", "Sub", "Relu"]
    assert_same_bits(graph, made)


def test_a_transpose_that_another_node_reads_stays() -> None:
    def make(on: GraphBuilder) -> list[str]:
        on.add("Transpose", ["x"], ["a"], {"perm": (0, 2, 1)})
        on.add("Relu", ["a"], ["b"])
        return ["a", "b"]

    assert transposes(built(make)).sites == 0


def test_a_transpose_beside_a_computed_operand_stays() -> None:
    def make(on: GraphBuilder) -> str:
        on.input("z", (2, 4, 3), "float32")
        on.add("Transpose", ["x"], ["a"], {"perm": (0, 2, 1)})
        return on.add("Add", ["a", "z"], ["b"])[0]

    assert transposes(built(make)).sites == 0


@pytest.mark.parametrize("first", [True, False])
def test_a_product_reads_the_operand_of_a_transpose(first: bool) -> None:
    on = GraphBuilder()
    on.input("x", (4, 3), "float32")
    on.input("y", (4, 5) if first else (5, 4), "float32")
    on.add("Transpose", ["x"], ["a"], {"perm": (1, 0)})
    on.add("MatMul", ["a", "y"] if first else ["y", "x"], ["b"])
    on.add("Transpose", ["b"], ["c"], {"perm": (1, 0)})
    on.constant("w", np.ones((2, 3 if first else 5), np.float32))
    on.add("Gemm", ["w", "c"], ["d"], {"transB": 1})
    on.output("y", "d")
    graph = on.graph()
    made = simplify(graph).graph
    assert set(ops(made)) <= {"Gemm", "MatMul"}
    assert_within(graph, made, 2.0**-20)


def test_a_product_with_a_constant_takes_a_bias() -> None:
    on = GraphBuilder()
    on.input("x", (4, 3), "float32")
    on.constant("w", np.ones((3, 2), np.float32))
    on.constant("c", np.array([1, 2], np.float32))
    on.add("MatMul", ["x", "w"], ["a"])
    on.add("Add", ["c", "a"], ["b"])
    on.output("y", "b")
    made = simplify(on.graph()).graph
    assert ops(made) == ["Gemm"]
    assert_within(on.graph(), made, 2.0**-20)


def test_a_product_with_batch_axes_stays() -> None:
    def make(on: GraphBuilder) -> str:
        on.add("Transpose", ["x"], ["a"], {"perm": (0, 2, 1)})
        return on.add("MatMul", ["x", "a"], ["b"])[0]

    assert products(built(make)).sites == 0
