"""Groups of nodes, each of which one kernel computes, and their report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansorpy.graph.graph import Graph, Node, View
from ansorpy.graph.operator import operator_of


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that one kernel computes, producers first.

    Args:
        outputs: the values that nodes of other groups or the user read.
        why: the reason for which no further node is in the group.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    why: str = ""

    @property
    def hosted(self) -> bool:
        """True for a node that NumPy computes, which is alone in its group."""
        return operator_of(self.nodes[0]).hosted is not None

    @property
    def copied(self) -> bool:
        """True for a node whose rows the driver of a bundle copies."""
        twin = operator_of(self.nodes[0]).hosted
        return twin is not None and twin.copied

    @property
    def title(self) -> str:
        """The operators, in order: of a table, so without text of a user."""
        return "+".join(node.op for node in self.nodes)


@dataclass(frozen=True)
class Partition:
    """A graph as groups in an order in which they can run, and views, which need no kernel.

    Args:
        views: a value -> its place in the value whose elements it has. A value that a group
            computes is a view where it is joined with others.
    """

    graph: Graph
    groups: tuple[NodeGroup, ...]
    views: Mapping[str, View]

    def root(self, value: str) -> str:
        """Return the value that owns the elements of a value."""
        while value in self.views:
            value = self.views[value].of
        return value

    def __str__(self) -> str:
        kinds = Counter(group.title for group in self.groups)
        lines = [
            f"{self.graph.name}: {len(self.graph.nodes)} nodes, {len(self.groups)} groups,"
            f" {len(self.views)} views"
        ]
        lines += [f"  {count:4d}  {title}" for title, count in kinds.most_common()]
        return "\n".join(lines)


def group_of(graph: Graph, nodes: Sequence[Node], why: str = "") -> NodeGroup:
    """Return the group of some nodes, whose outputs are the values that anything else reads."""
    if operator_of(nodes[0]).hosted is not None:
        return NodeGroup(tuple(nodes), nodes[0].outputs, why)
    inside = {id(node) for node in nodes}
    outputs = tuple(
        name
        for node in nodes
        for name in node.outputs
        if name
        and (
            name in graph.wanted
            or any(id(reader) not in inside for reader in graph.readers.get(name, ()))
        )
    )
    return NodeGroup(tuple(nodes), outputs, why)


def halves(graph: Graph, group: NodeGroup) -> tuple[NodeGroup, NodeGroup]:
    """Return a group of several nodes as two that run one after the other.

    Source: a Dag whose derivation has too many sketches.
    """
    middle = len(group.nodes) // 2
    why = "its Dag would have too many sketches"
    return group_of(graph, group.nodes[:middle], why), group_of(
        graph, group.nodes[middle:], group.why
    )
