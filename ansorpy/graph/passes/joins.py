"""Nested joins: a Concat of Concats becomes one."""

from collections.abc import Sequence
from typing import Final

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes

MOST: Final = 32  # operands of a join that a pass makes: a kernel has a copy of its loop for each


def joins(graph: Graph) -> Rewritten:
    """Let a Concat read the operands of a Concat along the same axis.

    Condition    Concat; an operand is computed by a Concat along the same axis, and no other node
                 reads it; the result joins 32 operands at most
    Rewrite      Concat(a, Concat(b, c), d) -> Concat(a, b, c, d)
    Not handled  joins along another axis; a view between two joins
    Source       our own: flattening of an associative operator
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    if node.op != "Concat":
        return None
    rank = len(at.before.values[node.outputs[0]].fixed_shape)

    def parts(name: str) -> tuple[str, ...]:
        inner = at.maker(name, "Concat")
        if inner is None or not at.sole(name) or _axis(inner, rank) != _axis(node, rank):
            return (name,)
        return inner.inputs

    inputs = tuple(part for name in node.inputs for part in parts(name))
    if inputs == node.inputs or len(inputs) > MOST:
        return None
    return at.add("Concat", inputs, node.outputs, node.attrs, node.name)


def _axis(node: Node, rank: int) -> int:
    axis = node.attrs["axis"]
    assert isinstance(axis, int)
    return axis % rank
