"""The interpreter of graphs: every node by the float64 meaning of its expressions.

The oracle of passes and of partitions: slow, and right by the same definition as kernels are.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ansorpy import te
from ansorpy.errors import GraphError
from ansorpy.expr.dtypes import FLOATS
from ansorpy.graph.graph import Array, Graph, Node, Weight
from ansorpy.graph.operator import operator_of, tensors
from ansorpy.graph.sizes import at_sizes, sizes_of
from ansorpy.te.dag import Dag, Placeholder
from ansorpy.te.tensor import Tensor
from ansorpy.te.tensor_data import tensor_bytes

Compute = Callable[[Dag, Mapping[str, Array]], Sequence[Array]]


def reference(dag: Dag, inputs: Mapping[str, Array]) -> Sequence[Array]:
    """Return the outputs of a Dag by its float64 meaning, rounded to their dtypes.

    Args:
        inputs: an array per placeholder, by its name.
    """
    made = [node for node in dag.computes if node.name in dag.outputs]
    made.sort(key=lambda node: dag.outputs.index(node.name))
    dtypes = [dtype for node in made for dtype in node.dtypes]
    found = te.evaluate(dag, inputs)
    return [_stored(values, dtype) for values, dtype in zip(found, dtypes, strict=True)]


def run(
    graph: Graph, inputs: Mapping[str, Array], compute: Compute = reference
) -> dict[str, Array]:
    """Return the outputs of a graph by public name, in their own dtypes.

    Args:
        inputs: an array per input, of its shape and dtype; bfloat16 as uint16 bit patterns.
            They tell the sizes of dims.
        compute: returns the outputs of the Dag of a node; kernels in place of the reference.

    Raises:
        GraphError: an input is missing or has another shape; a node cannot be built.
    """
    if graph.dims:
        graph = at_sizes(graph, sizes_of(graph, inputs))
    arrays: dict[str, Array] = {name: weight.array for name, weight in graph.weights.items()}
    for name in graph.inputs:
        value = graph.values[name]
        if name not in inputs or inputs[name].shape != value.fixed_shape:
            raise GraphError(
                f"cannot run {graph.name!r} because input {name!r} is absent or has another shape;"
                f" expected {list(value.fixed_shape)} of {value.dtype}"
            )
        arrays[name] = inputs[name]
    for node in graph.nodes:
        made = evaluate(node, arrays, graph.weights, graph, compute)
        arrays |= {name: one for name, one in zip(node.outputs, made, strict=False) if name}
    return {output.name: arrays[output.value] for output in graph.outputs}


def evaluate(
    node: Node,
    arrays: Mapping[str, Array],
    weights: Mapping[str, Weight],
    graph: Graph | None = None,
    compute: Compute = reference,
) -> tuple[Array, ...]:
    """Return the outputs of one node, rounded to their dtypes.

    Args:
        arrays: the values of its inputs by name.
        weights: constants whose values the operator may need when it is built.
        graph: tells the dtypes of the inputs; None: the inputs have the dtypes of their arrays.
        compute: returns the outputs of a Dag.
    """
    twin = operator_of(node).hosted
    if twin is not None:
        reads = [arrays[name] for name in node.inputs if name]
        return tuple(twin.function(reads, **twin.arguments(node)))
    placeholders: dict[str, Tensor] = {}

    def read(name: str) -> Tensor:
        if name not in placeholders:
            dtype = (
                weights[name].dtype if name in weights
                else arrays[name].dtype.name if graph is None
                else graph.values[name].dtype
            )  # fmt: skip
            placeholders[name] = te.placeholder(arrays[name].shape, f"x{len(placeholders)}", dtype)
        return placeholders[name]

    outputs = tensors(node, read, weights)
    results: list[Array] = []
    for tensor in outputs:
        if isinstance(tensor.draft.node, Placeholder):  # an operator that changes nothing
            name = next(key for key, value in placeholders.items() if value.draft is tensor.draft)
            results.append(arrays[name])
            continue
        dag = te.dag(tensor)
        given = {
            node.name: arrays[name]
            for name, one in placeholders.items()
            for node in dag.placeholders
            if one.name == node.name
        }
        results.append(compute(dag, given)[tensor.output])
    return tuple(results)


def _stored(values: Array, dtype: str) -> Array:
    """Return values of `te.evaluate` as an array of `dtype`; bfloat16 as uint16 bit patterns."""
    if dtype == "bfloat16":
        return np.frombuffer(tensor_bytes(values, dtype), np.uint16).reshape(values.shape)
    with np.errstate(over="ignore"):
        return values.astype(dtype) if dtype in FLOATS else values
