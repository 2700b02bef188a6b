"""The nodes whose rows the driver of a bundle copies, as steps (`graph/hosted/rows.py`)."""

from typing import Any, Final

from ansorpy.bundle.steps import CopyStep, Rows
from ansorpy.graph.graph import Graph, Node

APPEND: Final = "AppendRows"


def copy_step(graph: Graph, node: Node, nodes: tuple[str, ...]) -> CopyStep:
    """Return the step of such a node.

    Args:
        nodes: names for reports.
    """
    attrs: dict[str, Any] = dict(node.attrs)
    axis = attrs["axis"]

    def extent(position: int, of: int = axis) -> int:
        return graph.values[node.inputs[position]].fixed_shape[of]

    if node.op == APPEND:
        rows = Rows(0, 0, 0, extent(0)), Rows(1, 0, extent(0), extent(1))
        return CopyStep(axis, rows, node.inputs, node.outputs, nodes)
    count = extent(2, attrs["rows_axis"]) if "rows_axis" in attrs else attrs["rows"]
    window = Rows(0, extent(1, attrs["start_axis"]), 0, count)
    return CopyStep(axis, (window,), node.inputs[:1], node.outputs, nodes)
