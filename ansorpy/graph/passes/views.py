"""Views: nodes that keep the row-major order of elements become one Reshape."""

from collections.abc import Sequence

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.operator import operator_of
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes


def views(graph: Graph) -> Rewritten:
    """Replace a chain of views by one Reshape to a constant shape, or by its operand.

    Condition    Reshape, Flatten, Squeeze, Unsqueeze; Transpose that moves only extents of 1;
                 Expand and Tile that add only extents of 1
    Rewrite      view(...view(x)) -> Reshape(x, the shape of the result in numbers), which is an
                 alias of x in memory; x itself if it has that shape
    Not handled  tensors without elements; a view behind a node that works element by element
    Source       LLVM's MLIR, dialect tensor: folding of collapse_shape and expand_shape
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    shape = at.before.values[node.outputs[0]].fixed_shape
    if not is_view(node, at, shape) or 0 in shape:
        return None
    source = node.inputs[0]
    while (inner := at.maker(source)) and is_view(inner, at, at.shape(source)):
        source = inner.inputs[0]
    if at.shape(source) == shape:
        return (source,)
    plain = node.op == "Reshape" and source == node.inputs[0] and not node.attrs
    if plain and at.extents(node.inputs[1]) == shape:
        return None
    return at.add("Reshape", (source, at.ints(shape, node)), node.outputs, None, node.name)


def is_view(node: Node, at: Rewriter, shape: tuple[int, ...]) -> bool:
    """Return True if the result, of the given shape, has the elements of input 0 in their order."""
    if operator_of(node).view:
        return True
    if node.op in ("Expand", "Tile"):
        return [n for n in at.shape(node.inputs[0]) if n != 1] == [n for n in shape if n != 1]
    if node.op != "Transpose":
        return False
    extents = at.shape(node.inputs[0])
    moved = [axis for axis in permutation(node, len(extents)) if extents[axis] != 1]
    return moved == sorted(moved)


def permutation(node: Node, rank: int) -> tuple[int, ...]:
    """Return the axes of the operand of a Transpose in the order of the result."""
    perm = node.attrs.get("perm", tuple(range(rank))[::-1])
    assert isinstance(perm, tuple)
    return tuple(int(axis) % rank for axis in perm)
