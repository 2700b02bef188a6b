"""Values that need no kernel: views of other values, and values joined where they lie.

    view     Reshape, Squeeze, Slice along leading axes ...: a run of the elements of an operand
    joined   Concat along leading axes: its operands are computed into the memory of its output

Condition of a join: each operand is computed by a kernel and read in place by no other join.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph.facts import NodeFacts
from ansorpy.graph.graph import Graph, Node, View
from ansorpy.graph.operator import operator_of

ALIGN_BYTES: Final = 64  # bytes; kernels load whole lines: no value begins within one


def aliases(
    graph: Graph, nodes: Sequence[Node], facts_of: Callable[[Node], NodeFacts | None]
) -> Mapping[int, Mapping[str, View]]:
    """Return the views that replace a kernel, by the number of the node.

    Args:
        nodes: in topological order; a node that is not among them computes nothing.
        facts_of: returns None for a node that changes nothing.
    """
    views_of: dict[int, Mapping[str, View]] = {}
    views: dict[str, View] = {}
    computed: set[str] = set()
    for number, node in enumerate(nodes):
        if operator_of(node).joins:
            own = _joined(graph, node, views, computed)
        elif operator_of(node).hosted is not None:
            own = {}
        else:
            own = _viewed(graph, node, facts_of(node))
        if own:
            views_of[number] = own
            views |= own
        computed.update(name for name in node.outputs if name and name not in views)
    return views_of


def _viewed(graph: Graph, node: Node, facts: NodeFacts | None) -> Mapping[str, View]:
    """Return the outputs of a node as views of its operands; none if a kernel computes them."""
    outputs = [name for name in node.outputs if name]
    if facts is None or operator_of(node).view:
        return {name: View(node.inputs[0]) for name in outputs}
    runs = facts.runs
    if runs is None or len(runs) != len(outputs):
        return {}
    made = {
        name: View(node.inputs[place], at) for name, (place, at) in zip(outputs, runs, strict=True)
    }
    return made if all(_aligned(graph, name, view.at) for name, view in made.items()) else {}


def _joined(
    graph: Graph, node: Node, views: Mapping[str, View], computed: set[str]
) -> Mapping[str, View]:
    """Return the operands of a join as views of its output; none if one of them cannot be."""
    output = node.outputs[0]
    shape, axis = graph.values[output].fixed_shape, node.attrs["axis"]
    assert isinstance(axis, int)
    if prod(shape[: axis % len(shape)]) != 1:
        return {}
    parts: dict[str, View] = {}
    begin = 0
    for operand in node.inputs:
        elements = prod(graph.values[operand].fixed_shape)
        root = operand
        while root in views and _whole(graph, root, views[root]):
            root = views[root].of
        free = root in computed and root not in views and root not in parts
        if not free or not _aligned(graph, root, begin):
            return {}
        parts[root] = View(output, begin)
        begin += elements
    return parts


def _whole(graph: Graph, name: str, view: View) -> bool:
    of = graph.values[view.of].fixed_shape
    return view.at == 0 and prod(of) == prod(graph.values[name].fixed_shape)


def _aligned(graph: Graph, name: str, at: int) -> bool:
    return at * SIZE_BYTES[graph.values[name].dtype] % ALIGN_BYTES == 0
