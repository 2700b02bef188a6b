"""Gathers of all elements in order: views."""

from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np

from ansorpy.graph.builder import is_known
from ansorpy.graph.graph import Graph, Node, ValueInfo, Weight
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes
from ansorpy.te.dims import dims_in


def gathers(graph: Graph, only: Collection[str] | None = None) -> Rewritten:
    """Replace a gather of all elements in order by a Reshape.

    Condition    Gather, or GatherND without batch axes; the indices are constant, and choose every
                 place of the axes that they are for, once and in order; the result is in `only`,
                 unless that is None
    Rewrite      Gather(x, [[0, 1, ... n - 1]], axis) -> Reshape(x)
    Not handled  another order of axes, which would be a Transpose; indices that depend on dims: a
                 model with dims is rewritten at each of its sizes before they are merged
    Source       our own: exporters index a mask by the numbers of its rows and columns
    """

    def rule(node: Node, at: Rewriter) -> Sequence[str] | None:
        name = node.outputs[0]
        if (only is not None and name not in only) or not _in_order(node, at.values, at.weights):
            return None
        shape = at.ints(at.before.values[name].fixed_shape, node)
        return at.add("Reshape", (node.inputs[0], shape), node.outputs, None, node.name)

    return rewrite_nodes(graph, rule)


def ordered(graph: Graph) -> set[str]:
    """Return the results of the nodes that `gathers` would replace."""
    return {node.outputs[0] for node in graph.nodes if _in_order(node, graph.values, graph.weights)}


def _in_order(node: Node, values: Mapping[str, ValueInfo], weights: Mapping[str, Weight]) -> bool:
    if node.op not in ("Gather", "GatherND") or node.attrs.get("batch_dims", 0):
        return False
    data, index = values[node.inputs[0]].shape, weights.get(node.inputs[1])
    if index is None or not is_known(index) or not index.elements:
        return False
    if node.op == "Gather":
        axis = node.attrs.get("axis", 0)
        assert isinstance(axis, int)
        data, places = data[axis % len(data) :][:1], index.array[..., None]
    else:
        data, places = data[: index.shape[-1]], index.array
    numbers = [extent for extent in data if isinstance(extent, int)]
    if len(numbers) < len(data) or dims_in(numbers):
        return False
    if prod(places.shape[:-1]) != prod(numbers):
        return False
    wanted = np.stack(np.unravel_index(np.arange(prod(numbers)), numbers), -1)
    return np.array_equal(places.reshape(wanted.shape), wanted)
