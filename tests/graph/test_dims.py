"""Graphs with dims: passes, groups and axes apart compute the same at every size."""

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

from ansorpy.errors import GraphError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Graph, Weight
from ansorpy.graph.interp import run
from ansorpy.graph.merge import sampled
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.graph.passes.movement import Movement
from ansorpy.graph.sizes import at_sizes
from ansorpy.graph.unjoin import JoinedExtent, regrouped
from ansorpy.graph.wire.write import sent
from ansorpy.te.dims import Dim, dims_in
from tests.graph.test_partition import run_groups

N, M = Dim("N", 1, 5), Dim("M", 2, 6)
SIZES = ({"N": 1, "M": 2}, {"N": 5, "M": 6}, {"N": 3, "M": 5})


def number(extent: int, sizes: dict[str, int]) -> int:
    return sizes[extent.name] if isinstance(extent, Dim) else extent


def recut(shape: Sequence[int], rng: np.random.Generator) -> tuple[int, ...]:
    """Return a shape of the same elements: numbers divided or joined, extents of 1 put or left."""
    cut: list[int] = []
    for extent in shape:
        if not isinstance(extent, Dim) and extent % 2 == 0 and rng.random() < 0.5:
            cut += [2, extent // 2]
        elif extent != 1 or rng.random() < 0.5:
            cut.append(extent)
        if rng.random() < 0.1:
            cut.append(1)
    joined: list[int] = []
    for extent in cut:
        if joined and not dims_in((joined[-1], extent)) and rng.random() < 0.4:
            joined[-1] *= extent
        else:
            joined.append(extent)
    return tuple(joined)


def random_moves(seed: int) -> Graph:
    """Return a graph of random transposes, reshapes and element-by-element nodes."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder()
    x = builder.input("x", (N, 4, M, 6), "float32")
    for step in range(6):
        shape, made = builder.values[x].fixed_shape, f"v{step}"
        kind = rng.choice(["Transpose", "Reshape", "Relu", "Mul"])
        if kind == "Transpose":
            perm = tuple(map(int, rng.permutation(len(shape))))
            builder.add("Transpose", [x], [made], {"perm": perm})
        elif kind == "Reshape":
            new = recut(shape, rng)
            vector = Weight.of(np.array(new, np.int64)).with_dims((len(new),), new)
            builder.add("Reshape", [x, builder.weight(f"s{step}", vector)], [made])
        elif kind == "Relu":
            builder.add("Relu", [x], [made])
        else:
            ones = [1 if isinstance(one, Dim) else one for one in shape]
            array = rng.standard_normal(ones).astype(np.float32)
            builder.add("Mul", [x, builder.constant(f"c{step}", array)], [made])
        x = made
    builder.output("y", x)
    return builder.graph()


@pytest.mark.parametrize("seed", range(40))
def test_passes_and_groups_keep_dims_and_values(seed: int) -> None:
    graph = random_moves(seed)
    simple = simplify(graph)
    assert simple.settled
    assert simple.graph.values[simple.graph.outputs[0].value].shape == graph.values["v5"].shape
    parted = partition(simple.graph)
    for sizes in SIZES:
        shape = [number(one, sizes) for one in (N, 4, M, 6)]
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        expected = run(at_sizes(graph, sizes), {"x": x})["y"]
        np.testing.assert_array_equal(run(simple.graph, {"x": x})["y"], expected)
        np.testing.assert_allclose(run_groups(parted, {"x": x})["y"], expected, rtol=1e-5)


@pytest.mark.parametrize("seed", range(60))
def test_a_joined_axis_has_the_parts_of_its_product(seed: int) -> None:
    rng = np.random.default_rng(seed)
    extents = [N, 4, M, 6] if seed % 2 else [2, N, M, 12]
    cut = [*recut(extents, rng)]
    wanted: list[int | JoinedExtent] = []
    while cut:
        taken = [cut.pop(0) for _ in range(min(len(cut), int(rng.integers(1, 4))))]
        dims = dims_in(taken)
        factor = prod(one for one in taken if not isinstance(one, Dim))
        plain = dims[0] if len(dims) == factor == 1 else factor
        joined = bool(dims) and (len(dims), factor) != (1, 1)
        wanted.append(JoinedExtent(dims, factor) if joined else plain)
    axes = regrouped(extents, tuple(wanted))
    assert axes is not None
    for sizes in SIZES:
        for axis, one in zip(axes, wanted, strict=True):
            size = prod(number(part, sizes) for part in axis)
            if isinstance(one, JoinedExtent):
                assert size == one.factor * prod(sizes[dim.name] for dim in one.dims)
            else:
                assert size == number(one, sizes)
        assert prod(number(part, sizes) for axis in axes for part in axis) == prod(
            number(one, sizes) for one in extents
        )


def test_a_joined_axis_that_cuts_a_dim_is_not_taken_apart() -> None:
    assert regrouped([N, 6], (2, JoinedExtent((N,), 3))) is None
    assert regrouped([N, M], (JoinedExtent((M,), 1), JoinedExtent((N,), 1))) is None
    assert regrouped([N, 6], (N, 5)) is None
    assert regrouped([6, N], (JoinedExtent((N,), 6),)) == ((6, N),)


def test_a_movement_does_not_cut_a_dim() -> None:
    moved = Movement.of((N, 6, M))
    assert moved.reshaped((N, 2, 3, M)) is not None
    for shape in ((2, 3, N, M), (M, 6, N), (N, 6, 2, 3)):
        assert moved.reshaped(shape) is None


def test_a_constant_with_dims_is_read_up_to_the_size() -> None:
    table = np.arange(30, dtype=np.float32).reshape(5, 6) / 10
    builder = GraphBuilder()
    builder.input("x", (N, M), "float32")
    builder.weight("table", Weight.of(table).with_dims((N, M)))
    builder.add("Exp", ["table"], ["powers"])
    builder.add("Mul", ["x", "powers"], ["y"])
    builder.output("y", "y")
    parted = partition(simplify(builder.graph()).graph)
    for n, m in ((1, 2), (5, 6), (3, 5)):
        x = np.ones((n, m), np.float32)
        for found in (run(parted.graph, {"x": x}), run_groups(parted, {"x": x})):
            np.testing.assert_allclose(found["y"], np.exp(table[:n, :m]), rtol=1e-6)


def test_a_model_is_imported_at_sizes_that_tell_dims_apart() -> None:
    assert sampled([N, M]) == (
        {"N": 5, "M": 6}, {"N": 1, "M": 6}, {"N": 3, "M": 6}, {"N": 5, "M": 2}, {"N": 5, "M": 5},
    )  # fmt: skip
    assert sampled([Dim("S", 8, 64, 8)]) == ({"S": 64}, {"S": 8}, {"S": 40})
    assert sampled([]) == ({},)
    with pytest.raises(GraphError, match="cannot take 5 dims of a model; expected at most 4"):
        sampled([Dim(name, 1, 2) for name in "ABCDE"])


def test_a_size_between_two_multiples_of_the_step_is_refused() -> None:
    builder = GraphBuilder()
    builder.input("x", (Dim("S", 4, 12, 4),), "float32")
    builder.add("Neg", ["x"], ["y"])
    builder.output("y", "y")
    graph = builder.graph()
    np.testing.assert_array_equal(run(graph, {"x": np.ones(8, np.float32)})["y"], -np.ones(8))
    with pytest.raises(GraphError, match=r"has shape \[6\]; expected \[S in 4..12 step 4\]"):
        run(graph, {"x": np.ones(6, np.float32)})


def two_inputs() -> Graph:
    builder = GraphBuilder()
    builder.input("x", (N, M), "float32")
    builder.input("y", (N, 1), "float32")
    builder.add("Add", ["x", "y"], ["z"])
    builder.output("z", "z")
    return builder.graph()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((6, 2), (6, 1), r"'x' is absent or has shape \[6, 2\]; expected \[N in 1..5, M in 2..6\]"),
        ((2, 1), (2, 1), "'x' is absent or has shape"),
        ((2, 2), (3, 1), r"'y' is absent or has shape \[3, 1\]; .* and one size of each dim"),
        ((2, 2, 1), (2, 1), "'x' is absent or has shape"),
        ((2, 2), (2, 2), "'y' is absent or has another shape"),
    ],
)
def test_inputs_of_wrong_sizes_are_refused(
    x: tuple[int, ...], y: tuple[int, ...], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        run(two_inputs(), {"x": np.zeros(x, np.float32), "y": np.zeros(y, np.float32)})


def test_dims_of_a_document_have_numbers_for_names() -> None:
    document = sent(two_inputs()).document
    shapes = [one.shape for one in document.inputs]
    assert [str(extent) for shape in shapes for extent in shape] == [
        "d0 in 1..5", "d1 in 2..6", "d0 in 1..5", "1",
    ]  # fmt: skip
    graph = document.graph()
    assert [graph.values[name].shape for name in graph.inputs] == shapes
