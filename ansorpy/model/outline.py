"""The outline of a divided model: its parts with names for people, and the parts they read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.groups import NodeGroup, Partition
from ansorpy.model.tasks import ModelTasks

NAMES: Final[Mapping[str, str]] = {"Relu": "ReLU", "GlobalAveragePool": "GlobalAvgPool"}
PRODUCTS: Final = ("Conv", "ConvTranspose", "Gemm", "MatMul")  # their sizes name a group
MOST: Final = 6  # operators of a name


@dataclass(frozen=True, slots=True)
class OutlinedPart:
    """A call of a kernel: `Conv 3x3 64>64 @55x55 +ReLU`, and the numbers of the parts it reads.

    `task` is empty for a node that NumPy computes. The name has no text of a user.
    """

    name: str
    task: str
    reads: tuple[int, ...]


def outline_of(tasks: ModelTasks, partition: Partition) -> tuple[OutlinedPart, ...]:
    """Return the parts in the order in which they run."""
    makers = {
        name: number for number, part in enumerate(tasks.parts) for name in part.group.outputs
    }
    found = []
    for number, part in enumerate(tasks.parts):
        roots = [partition.root(name) for node in part.group.nodes for name in node.inputs if name]
        reads = {makers[name] for name in roots if makers.get(name, number) < number}
        name = group_name(partition.graph, part.group)
        found.append(OutlinedPart(name, part.task, tuple(sorted(reads))))
    return tuple(found)


def group_name(graph: Graph, group: NodeGroup) -> str:
    """Return the name of a group: its product, or its first operator, with sizes; then the rest."""
    main = next((node for node in group.nodes if node.op in PRODUCTS), group.nodes[0])
    rest = [NAMES.get(node.op, node.op) for node in group.nodes if node is not main]
    told = [f"+{op}" for op in dict.fromkeys(rest)]
    more = [f"+{len(told) - MOST} more"] if len(told) > MOST else []
    return " ".join([_sized(graph, main), *told[:MOST], *more])


def _sized(graph: Graph, node: Node) -> str:
    name = NAMES.get(node.op, node.op)
    shapes = [_shape(graph, one) for one in (*node.inputs[:2], node.outputs[0])]
    if node.op in PRODUCTS and len(shapes) == 3:
        left, right, out = shapes
        if node.op.startswith("Conv") and len(right) > 2 and len(out) > 2:
            channels = f"{left[1]}>{out[1]}"
            return f"{name} {'x'.join(right[2:])} {channels} @{'x'.join(out[2:])}"
        if left and out:
            return f"{name} {'x'.join((*out[:-1], left[-1], out[-1]))}"
    return f"{name} {'x'.join(shapes[-1])}".rstrip()


def _shape(graph: Graph, name: str) -> tuple[str, ...]:
    info = graph.values.get(name)
    return () if info is None else tuple(str(int(extent)) for extent in info.fixed_shape)
