"""Chains of groups that one kernel may compute in blocks of rows: attention, two-layer networks.

A chain is a group with a tiled reduction, at most one group without reuse, and another group with
a tiled reduction that shares leading axes with the first. One kernel keeps the rows between them
in the cache, separate kernels tile each reduction freely: which is faster is to be measured.
Source: the rule FuseChain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ansorpy.graph.graph import Graph
from ansorpy.graph.groups import NodeGroup, group_of
from ansorpy.graph.lower import Lowered, lower
from ansorpy.te.analysis import common_outer, needs_tiling
from ansorpy.te.dag import Dag

ROWS: Final = 16  # points of the shared axes: fewer rows reuse too little


@dataclass(frozen=True, slots=True)
class GroupChain:
    """Groups by number, in order; the group that may replace them, and its Dag."""

    members: tuple[int, ...]
    whole: NodeGroup
    lowered: Lowered


def chains(graph: Graph, groups: Sequence[NodeGroup]) -> tuple[GroupChain, ...]:
    """Return the chains of groups that run in the given order; no group is in two chains."""
    reader = _only_readers(graph, groups)
    tiled = [
        not one.hosted and bool(_tiled(lower(graph, one.nodes, one.outputs).dag)) for one in groups
    ]
    chains, taken = [], set[int]()
    for first in range(len(groups)):
        if not tiled[first] or first in taken:
            continue
        members = [first]
        while (following := reader[members[-1]]) is not None and len(members) < 3:
            members.append(following)
            if tiled[following]:
                break
        if len(members) < 2 or not tiled[members[-1]] or taken.intersection(members):
            continue
        if any(groups[member].hosted for member in members):
            continue
        nodes = [node for member in members for node in groups[member].nodes]
        whole = group_of(graph, nodes, "a chain of reductions")
        low = lower(graph, nodes, whole.outputs)
        names = _tiled(low.dag)
        if len(names) == 2 and len(whole.outputs) == 1 and _rows(low.dag, *names) >= ROWS:
            ordered = replace(low, dag=_others_first(low.dag, names[0]))
            chains.append(GroupChain(tuple(members), whole, ordered))
            taken.update(members)
    return tuple(chains)


def _only_readers(graph: Graph, groups: Sequence[NodeGroup]) -> list[int | None]:
    """Return the one group that reads each group's only output, None if there are others."""
    home = {id(node): number for number, group in enumerate(groups) for node in group.nodes}
    only: list[int | None] = []
    for number, group in enumerate(groups):
        readers = {
            home.get(id(node))
            for value in group.outputs
            for node in graph.readers.get(value, ())
            if home.get(id(node)) != number
        }
        alone = len(readers) == 1 and len(group.outputs) == 1
        only.append(readers.pop() if alone and group.outputs[0] not in graph.wanted else None)
    return only


def _tiled(dag: Dag) -> list[str]:
    return [node.name for node in dag.computes if node.reduce_axes and needs_tiling(node)]


def _rows(dag: Dag, first: str, last: str) -> int:
    """Return the points of the leading axes that two compute nodes share."""
    return prod(dag.node(first).shape[: common_outer(dag, first, last).count])


def _others_first(dag: Dag, name: str) -> Dag:
    """Return a Dag in which the nodes that do not depend on one node come before it.

    Stages between the reductions of a chain must be parts of it.
    """
    behind = {name}
    for node in dag.computes:
        if behind.intersection(read.tensor for read in node.reads):
            behind.add(node.name)
    before = tuple(node for node in dag.nodes if node.name not in behind)
    return replace(dag, nodes=before + tuple(node for node in dag.nodes if node.name in behind))
