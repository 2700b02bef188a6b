"""Equal nodes: compute a value once."""

from collections.abc import Hashable, Sequence

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes


def equal(graph: Graph) -> Rewritten:
    """Let readers of a node read an earlier node that computes the same.

    Condition    an earlier node has the same operator, attributes and inputs, and names every
                 output that the node names; constants of one digest are the same input
    Rewrite      readers of the outputs read the outputs of the earlier node
    Not handled  operands of a commutative operator in another order
    Source       Aho, Lam, Sethi and Ullman, Compilers, 2nd edition, section 8.5.1
    """
    seen: dict[Hashable, Node] = {}
    digests: dict[str, str] = {}
    same = {name: digests.setdefault(weight.digest, name) for name, weight in graph.weights.items()}

    def rule(node: Node, at: Rewriter) -> Sequence[str] | None:
        attrs = tuple(sorted((name, repr(value)) for name, value in node.attrs.items()))
        inputs = tuple(same.get(name, name) for name in node.inputs)
        key = node.op, attrs, inputs, len(node.outputs)
        first = seen.get(key)
        if first is not None and all(
            one or not name for name, one in zip(node.outputs, first.outputs, strict=True)
        ):
            return first.outputs
        seen[key] = node
        return None

    return rewrite_nodes(graph, rule)
