"""Partition and lowering: groups in order compute the graph; which nodes join a group."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ansorpy import te
from ansorpy.graph import View
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Attribute
from ansorpy.graph.groups import Partition, group_of, halves
from ansorpy.graph.interp import evaluate, run
from ansorpy.graph.lower import lower
from ansorpy.graph.partition import MAX_COMPUTES, partition
from ansorpy.graph.sizes import sizes_of
from ansorpy.te.analysis import workload_key
from ansorpy.te.dims import Dim
from tests.graph.random_graph import random_graph, random_inputs

Array = NDArray[Any]


def run_groups(made: Partition, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a graph by the Dags of its groups, in order.

    Memory is laid out for the largest sizes of dims, and has NaN or 77 beyond the actual sizes.
    """
    graph = made.graph
    sizes = sizes_of(graph, inputs) if graph.dims else {}
    memory: dict[str, Array] = {}

    def whole(value: str) -> Array:
        """Return the elements of a value where they lie: in its memory, or in a view's memory."""
        shape = graph.values[value].fixed_shape
        if value in made.views:
            view = made.views[value]
            found = whole(view.of).reshape(-1)[view.at :][: prod(shape)].reshape(shape)
            assert np.shares_memory(found, whole(view.of))
            return found
        if value not in memory:
            dtype = np.dtype(graph.values[value].dtype)
            memory[value] = np.full(shape, np.nan if dtype.kind == "f" else 77, dtype)
        return memory[value]

    def at(value: str) -> Array:
        """Return the elements of a value at the sizes of the inputs."""
        extents = graph.values[value].fixed_shape
        ends = [sizes[one.name] if isinstance(one, Dim) else one for one in extents]
        return whole(value)[tuple(map(slice, ends))]

    memory |= {name: weight.array for name, weight in graph.weights.items()}
    for name, array in inputs.items():
        at(name)[...] = array
    for group in made.groups:
        if group.hosted:
            (node,) = group.nodes
            arrays = evaluate(node, {name: at(name) for name in node.inputs if name}, graph.weights)
            writes: Sequence[str] = node.outputs
        else:
            low = lower(graph, group.nodes, group.outputs)
            pairs = zip(low.dag.placeholders, low.reads, strict=True)
            arrays = te.evaluate(low.dag, {one.name: at(value) for one, value in pairs})
            writes = low.writes
        for value, array in zip(writes, arrays, strict=True):
            if value:
                at(value)[...] = array
    return {output.name: at(output.value) for output in graph.outputs}


@pytest.mark.parametrize("seed", range(60))
def test_groups_in_order_compute_the_graph(seed: int) -> None:
    graph = random_graph(seed)
    made = partition(graph)
    inputs = random_inputs(graph, seed)
    expected, found = run(graph, inputs), run_groups(made, inputs)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        # Values inside a group are not rounded to float32; a few elements may amplify that.
        close = np.isclose(found[name], array, rtol=1e-4, atol=1e-4, equal_nan=True)
        assert close.mean() > 0.97, name


@pytest.mark.parametrize("seed", range(60, 75))
def test_every_node_is_in_one_group_or_a_view(seed: int) -> None:
    made = partition(random_graph(seed))
    grouped = [value for group in made.groups for node in group.nodes for value in node.outputs]
    assert len(set(grouped)) == len(grouped)
    joined = {node.inputs for node in made.graph.nodes if node.op == "Concat"}
    assert set(grouped) & made.views.keys() <= {
        made.root(v) for inputs in joined for v in inputs
    } | {value for inputs in joined for value in inputs}
    produced = {*grouped, *made.views, *made.graph.inputs, *made.graph.weights}
    produced |= {view.of for view in made.views.values()}  # joined of its parts
    assert {output.value for output in made.graph.outputs} <= produced
    assert all(group.why for group in made.groups)


def conv_block(builder: GraphBuilder, x: str, at: int) -> str:
    """Add a convolution with a residual operand and an activation."""
    w = builder.constant(f"w{at}", np.full((4, 4, 3, 3), 0.01 * (at + 1), np.float32))
    builder.add("Conv", [x, w], [f"c{at}"], {"pads": (1, 1, 1, 1)})
    builder.add("Add", [f"c{at}", x], [f"a{at}"])
    return builder.add("Relu", [f"a{at}"], [f"r{at}"])[0]


def titles(made: Partition) -> list[str]:
    return [group.title for group in made.groups]


def test_a_convolution_takes_the_element_by_element_nodes_behind_it() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 4, 8, 8), "float32")
    builder.output("y", conv_block(builder, conv_block(builder, x, 0), 1))
    made = partition(builder.graph())
    assert titles(made) == ["Conv+Add+Relu", "Conv+Add+Relu"]
    assert "result of the model" in made.groups[1].why


def test_groups_that_differ_in_weights_only_have_one_workload_key() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 4, 8, 8), "float32")
    builder.output("y", conv_block(builder, conv_block(builder, x, 0), 1))
    graph = builder.graph()
    dags = [lower(graph, g.nodes, g.outputs).dag for g in partition(graph).groups]
    assert workload_key(dags[0]) == workload_key(dags[1])
    assert [one.name for one in dags[0].placeholders] == ["x0", "w0"]
    assert [one.constant for one in dags[0].placeholders] == [False, True]


def test_a_gate_of_the_result_itself_joins_the_convolution() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 4, 8, 8), "float32")
    w = builder.constant("w", np.ones((4, 4, 1, 1), np.float32))
    builder.add("Conv", [x, w], ["c"])
    builder.add("Sigmoid", ["c"], ["s"])
    builder.add("Mul", ["c", "s"], ["y"])
    builder.output("y", "y")
    assert titles(partition(builder.graph())) == ["Conv+Sigmoid+Mul"]


def test_a_view_is_no_group_and_ends_the_group_before_it() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (4, 6), "float32")
    builder.add("Relu", [x], ["a"])
    builder.add("Reshape", ["a", builder.constant("s", np.array([3, 8], np.int64))], ["b"])
    builder.add("Tanh", ["b"], ["y"])
    builder.output("y", "y")
    made = partition(builder.graph())
    assert titles(made) == ["Relu", "Tanh"]
    assert dict(made.views) == {"b": View("a")}


def test_a_transpose_in_front_of_a_matrix_product_joins_it() -> None:
    builder = GraphBuilder()
    x, y = (builder.input(name, (2, 8, 6), "float32") for name in "xy")
    builder.add("Transpose", [y], ["t"], {"perm": (0, 2, 1)})
    builder.add("MatMul", [x, "t"], ["z"])
    builder.output("z", "z")
    assert titles(partition(builder.graph())) == ["Transpose+MatMul"]


def test_a_transpose_that_is_read_twice_is_a_group_of_its_own() -> None:
    builder = GraphBuilder()
    x, y = (builder.input(name, (2, 8, 6), "float32") for name in "xy")
    builder.add("Transpose", [y], ["t"], {"perm": (0, 2, 1)})
    builder.add("MatMul", [x, "t"], ["z"])
    builder.output("z", "z")
    builder.output("t", "t")
    assert titles(partition(builder.graph())) == ["Transpose", "MatMul"]


def test_a_layer_norm_spelt_out_is_one_group() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (4, 16, 32), "float32")
    axes = builder.constant("axes", np.array([-1], np.int64))
    epsilon = builder.constant("e", np.array(1e-5, np.float32))
    builder.add("ReduceMean", [x, axes], ["m"], {"keepdims": 1})
    builder.add("Sub", [x, "m"], ["d"])
    builder.add("Mul", ["d", "d"], ["q"])
    builder.add("ReduceMean", ["q", axes], ["v"], {"keepdims": 1})
    builder.add("Add", ["v", epsilon], ["ve"])
    builder.add("Sqrt", ["ve"], ["s"])
    builder.add("Div", ["d", "s"], ["n"])
    builder.add("Mul", ["n", builder.constant("g", np.ones(32, np.float32))], ["y"])
    builder.output("y", "y")
    (group,) = partition(builder.graph()).groups
    assert len(group.nodes) == 8


def test_a_long_chain_is_cut_at_the_limit_of_compute_nodes() -> None:
    builder = GraphBuilder()
    at = builder.input("x", (4, 4), "float32")
    for n in range(2 * MAX_COMPUTES):
        at = builder.add("Relu" if n % 2 else "Neg", [at], [f"v{n}"])[0]
    builder.output("y", at)
    made = partition(builder.graph())
    assert [len(group.nodes) for group in made.groups] == [MAX_COMPUTES, MAX_COMPUTES]
    assert "at most 32 compute nodes" in made.groups[0].why


def test_the_first_half_of_a_group_hands_over_the_values_that_are_read() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (4, 4), "float32")
    builder.output("y", builder.add("Exp", [x], ["a"])[0])
    builder.add("Neg", ["a"], ["b"])
    builder.add("Add", ["a", "b"], ["c"])
    builder.add("Relu", ["c"], ["d"])
    builder.output("z", "d")
    graph = builder.graph()
    first, second = halves(graph, group_of(graph, graph.nodes))
    assert (first.outputs, second.outputs) == (("a", "b"), ("d",))


def joined(builder: GraphBuilder, shape: tuple[int, ...], axis: int, count: int = 2) -> Partition:
    """Return the partition of some activations and their Concat."""
    x = builder.input("x", shape, "float32")
    for n in range(count):
        builder.add("Relu" if n % 2 else "Tanh", [x], [f"a{n}"])
    builder.add("Concat", [f"a{n}" for n in range(count)], ["c"], {"axis": axis})
    builder.add("Exp", ["c"], ["y"])
    builder.output("y", "y")
    return partition(builder.graph())


def test_values_are_computed_where_they_are_joined() -> None:
    made = joined(GraphBuilder(), (1, 4, 4, 8), 1)
    assert titles(made) == ["Tanh", "Relu", "Exp"]
    assert dict(made.views) == {"a0": View("c"), "a1": View("c", 128)}


@pytest.mark.parametrize(("shape", "axis"), [((2, 4, 4, 8), 1), ((1, 3, 5), 1), ((1, 4, 16), 2)])
def test_values_that_do_not_lie_apart_in_whole_lines_are_copied(
    shape: tuple[int, ...], axis: int
) -> None:
    assert not joined(GraphBuilder(), shape, axis).views


def test_a_value_is_part_of_one_join_only() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 16), "float32")
    builder.add("Relu", [x], ["a"])
    builder.add("Tanh", [x], ["b"])
    builder.add("Concat", ["a", "b"], ["c"], {"axis": 0})
    builder.add("Concat", ["b", "a"], ["d"], {"axis": 0})
    builder.add("Concat", [x, "c"], ["e"], {"axis": 0})
    for name in "cde":
        builder.output(name, name)
    made = partition(builder.graph())
    assert dict(made.views) == {"a": View("c"), "b": View("c", 16)}


def test_a_join_of_joins_is_one_memory() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 16), "float32")
    for name in "abd":
        builder.add("Relu", [x], [name]) if name == "a" else builder.add("Tanh", [x], [name])
    builder.add("Concat", ["a", "b"], ["c"], {"axis": 0})
    builder.add("Concat", ["c", "d"], ["e"], {"axis": 0})
    builder.output("e", "e")
    made = partition(builder.graph())
    assert made.views["c"] == View("e")
    assert {made.root(name) for name in "abcd"} == {"e"}


READERS: Mapping[str, Sequence[tuple[str, Mapping[str, Attribute]]]] = {
    "one to one": (("Exp", {}),),
    "one to one, twice": (("Exp", {}), ("Neg", {})),
    "a reduction": (("ReduceSum", {}),),
    "behind a node": (("Exp", {}), ("Softmax", {"axis": 2})),
    "a window": (("MaxPool", {"kernel_shape": (2,)}),),
    "a join": (("Concat", {"axis": 1}),),
    "a view, then a join": (("Exp", {}), ("Concat", {"axis": 1})),
}


@pytest.mark.parametrize("name", READERS)
def test_a_join_is_computed_with_readers_that_take_each_element_once(name: str) -> None:
    builder = GraphBuilder()
    at = builder.input("x", (2, 3, 5), "float32")
    builder.add("Concat", [at, builder.input("z", (2, 3, 6), "float32")], ["c"], {"axis": 2})
    at = "c"
    for n, (op, attrs) in enumerate(READERS[name]):
        inputs = [at, at] if op == "Concat" else [at]
        at = builder.add(op, inputs, [f"r{n}"], attrs)[0]
    builder.output("y", at)
    made = titles(partition(builder.graph()))
    ops = [op for op, _ in READERS[name]]
    if name.startswith("one to one"):
        assert made == ["+".join(["Concat", *ops])]
    else:
        assert made == ["+".join(["Concat", *ops[:-1]]), ops[-1]]


def test_a_join_that_several_nodes_read_is_a_copy() -> None:
    builder = GraphBuilder()
    x, z = (builder.input(name, (2, 3, 5), "float32") for name in "xz")
    builder.add("Concat", [x, z], ["c"], {"axis": 2})
    builder.add("Sigmoid", ["c"], ["s"])
    builder.add("Mul", ["c", "s"], ["y"])
    builder.output("y", "y")
    assert titles(partition(builder.graph())) == ["Concat", "Sigmoid+Mul"]


def test_a_slice_along_leading_axes_is_a_view() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (1, 8, 16), "float32")
    sizes = builder.constant("sizes", np.array([2, 6], np.int64))
    builder.add("Split", [x, sizes], ["a", "b"], {"axis": 1})
    builder.add("Relu", ["a"], ["y"])
    builder.add("Tanh", ["b"], ["z"])
    builder.output("y", "y")
    builder.output("z", "z")
    made = partition(builder.graph())
    assert dict(made.views) == {"a": View("x"), "b": View("x", 32)}
