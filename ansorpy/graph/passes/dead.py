"""Dead nodes: remove computations that no output of the graph depends on."""

from dataclasses import replace

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.operator import operator_of
from ansorpy.graph.passes.rewriter import Rewritten


def dead(graph: Graph) -> Rewritten:
    """Remove nodes and constants that no output of the graph needs.

    Condition    no output of the node is read, directly or through other nodes, by an output of
                 the graph; or a constant is read by no node that stays
    Rewrite      the node, or the constant, is gone; an unread output of a node that stays has
                 the name "", which means that it is not wanted
    Not handled  inputs of the graph, which are its interface; outputs of a node that NumPy
                 computes, each of which has a place in memory
    Source       Aho, Lam, Sethi and Ullman, Compilers, 2nd edition, section 9.1.6
    """
    needed = set(graph.wanted)
    kept: list[Node] = []
    trimmed = 0
    for old in reversed(graph.nodes):
        node = old
        if needed.isdisjoint(filter(None, node.outputs)):
            continue
        if operator_of(node).hosted is not None:
            needed.update(filter(None, node.outputs))
        wanted = tuple(name if name in needed else "" for name in node.outputs)
        if wanted != node.outputs:
            node = replace(node, outputs=wanted)
            trimmed += 1
        kept.append(node)
        needed.update(filter(None, node.inputs))
    kept.reverse()
    gone = len(graph.nodes) - len(kept)
    unread = [name for name in graph.weights if name not in needed]
    if not gone and not trimmed and not unread:
        return Rewritten(graph, 0)
    needed.update(graph.inputs)
    live = replace(
        graph,
        nodes=tuple(kept),
        values={name: value for name, value in graph.values.items() if name in needed},
        weights={name: one for name, one in graph.weights.items() if name in needed},
    )
    live.check()
    return Rewritten(live, gone + trimmed + bool(unread))
