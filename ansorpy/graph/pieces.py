"""Pieces of a group, cut at each value whose computation a reader may repeat.

A value that is read at several points, by several nodes or below a reduction is computed once if
it ends a group, and as often as the schedule decides within one.
"""

from ansorpy.graph.facts import NodeFactsOf
from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.groups import NodeGroup, group_of


def pieces(graph: Graph, group: NodeGroup, facts_of: NodeFactsOf) -> tuple[NodeGroup, ...]:
    """Return groups that together compute a group, in an order in which they can run.

    A node stays with a producer if it alone reads the producer, and takes each element once.
    """
    home = {id(node): n for n, node in enumerate(group.nodes)}
    parent = list(range(len(group.nodes)))

    def root(n: int) -> int:
        while parent[n] != n:
            n = parent[n]
        return n

    for n, node in enumerate(group.nodes):
        readers = _readers(graph, node)
        if len(readers) != 1 or set(node.outputs) & graph.wanted:
            continue
        ((reader, values),) = readers.items()
        if reader in home and _takes_once(group.nodes[home[reader]], values, facts_of):
            parent[n] = root(home[reader])
    members: dict[int, list[Node]] = {}
    for n, node in enumerate(group.nodes):
        members.setdefault(root(n), []).append(node)
    why = "a reader may compute it again"
    cut = [group_of(graph, members[n], why) for n in sorted(members)]
    return (*cut[:-1], group_of(graph, cut[-1].nodes, group.why))


def _readers(graph: Graph, node: Node) -> dict[int, set[str]]:
    """Return the values of a node that each of its readers reads, by the identity of the reader."""
    found: dict[int, set[str]] = {}
    for value in filter(None, node.outputs):
        for reader in graph.readers.get(value, ()):
            found.setdefault(id(reader), set()).add(value)
    return found


def _takes_once(node: Node, values: set[str], facts_of: NodeFactsOf) -> bool:
    facts = facts_of(node)
    places = [place for place, value in enumerate(node.inputs) if value in values]
    return facts is None or all(
        not facts.operands[place] or facts.takes_once(place) for place in places
    )
