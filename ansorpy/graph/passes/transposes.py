"""Transposes: merged through reshapes, cancelled, and moved behind element-by-element nodes."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.passes.movement import Movement
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes
from ansorpy.graph.passes.views import permutation

CHAIN: Final = 8  # nodes of a chain that are looked at

UNARY: Final = frozenset({
    "Abs", "Cast", "Ceil", "Celu", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu",
    "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Swish",
    "Tanh", "ThresholdedRelu",
})  # fmt: skip
SEVERAL: Final = frozenset({
    "Add", "And", "Clip", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max",
    "Min", "Mod", "Mul", "Or", "Pow", "PRelu", "Sub", "Sum", "Where", "Xor",
})  # fmt: skip


def transposes(graph: Graph) -> Rewritten:
    """Merge chains of transposes, and move a transpose behind element-by-element nodes.

    Condition    a Transpose whose operand comes from another one, with reshapes between them; or
                 an element-by-element node whose operands are transposes of one permutation that
                 it alone reads, and constants
    Rewrite      Transpose(Reshape(Transpose(x))) -> x, or one Reshape, or one Transpose between
                 reshapes, by the normal form: extents of 1 dropped, neighbours that stay
                 neighbours merged
                 f(Transpose(x), c) -> Transpose(f(x, c in the order of x))
    Not handled  reshapes that cut an axis unevenly; constants of more than 2^16 elements; an
                 operand that is neither a constant nor a transpose; the common tail of both
                 orders stays an axis
    Source       InfiniTensor, exercises of the AI compiler camp: transposes; ONNX Runtime,
                 transpose optimizer
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    if node.op == "Transpose":
        return _merged(node, at)
    if node.op in UNARY or node.op in SEVERAL:
        return _sunk(node, at)
    return None


def _merged(node: Node, at: Rewriter) -> Sequence[str] | None:
    """Add the movement of a chain that ends in a Transpose, from the farthest source possible."""
    chain = [node]
    while len(chain) < CHAIN and (one := at.maker(chain[-1].inputs[0], "Transpose", "Reshape")):
        chain.append(one)
    for length in range(len(chain), 1, -1):
        if not any(one.op == "Transpose" for one in chain[1:length]):
            return None
        if chain[length - 1].op == "Transpose" and (made := _one(chain[:length][::-1], at)):
            return made
    return None


def _one(chain: Sequence[Node], at: Rewriter) -> Sequence[str] | None:
    """Add one movement in place of a chain, which is given in the order of execution."""
    source, shape = chain[0].inputs[0], at.before.values[chain[-1].outputs[0]].fixed_shape
    moved: Movement | None = Movement.of(at.shape(source))
    for node in chain if 0 not in shape else ():
        if moved is None:
            return None
        if node.op == "Transpose":
            moved = moved.transposed(permutation(node, len(moved.axes)))
        else:
            moved = moved.reshaped(at.shape(node.outputs[0]))
    if moved is None or 0 in shape:
        return None
    if all(one.op == "Transpose" for one in chain):
        perm = tuple(range(len(shape)))
        for node in chain:
            perm = tuple(perm[axis] for axis in permutation(node, len(perm)))
        if perm != tuple(range(len(perm))):
            return at.add("Transpose", (source,), chain[-1].outputs, {"perm": perm}, chain[-1].name)
    return _emitted(moved, source, shape, chain[-1], at)


def _emitted(
    moved: Movement, source: str, shape: tuple[int, ...], last: Node, at: Rewriter
) -> Sequence[str]:
    """Add a movement of a source to a shape, in place of the Transpose `last`."""
    extents, order = moved.blocks
    if order == tuple(range(len(order))):
        if at.shape(source) == shape:
            return (source,)
        return at.add("Reshape", (source, at.ints(shape, last)), last.outputs, None, last.name)
    split = source
    if at.shape(source) != extents:
        split = at.new("Reshape", (source, at.ints(extents, last)), last)
    if tuple(extents[axis] for axis in order) == shape:
        return at.add("Transpose", (split,), last.outputs, {"perm": order}, last.name)
    turned = at.new("Transpose", (split,), last, perm=order)
    return at.add("Reshape", (turned, at.ints(shape, last)), last.outputs, None, last.name)


def _sunk(node: Node, at: Rewriter) -> Sequence[str] | None:
    """Add a node before the transposes of its operands, and one Transpose behind it."""
    shape = at.before.values[node.outputs[0]].fixed_shape
    given = [name for name in node.inputs if name]
    turned = {name: one for name in given if (one := at.maker(name, "Transpose"))}
    if not turned or any(node.outputs[1:]) or not all(map(at.sole, turned)):
        return None
    perms = {permutation(one, len(shape)) for one in turned.values() if _rank(one, at, shape)}
    if len(perms) != 1 or not all(_rank(one, at, shape) for one in turned.values()):
        return None
    (perm,) = perms
    inputs: list[str] = []
    for name in node.inputs:
        if name in turned:
            inputs.append(turned[name].inputs[0])
        elif not name or at.values[name].shape == ():
            inputs.append(name)
        elif (constant := _in_order_of(perm, name, node, at)) is not None:
            inputs.append(constant)
        else:
            return None
    before = tuple(shape[perm.index(axis)] for axis in range(len(shape)))
    made = at.new(node.op, inputs, node, **node.attrs)
    assert at.shape(made) == before
    return at.add("Transpose", (made,), node.outputs, {"perm": perm}, node.name)


def _rank(node: Node, at: Rewriter, shape: tuple[int, ...]) -> bool:
    """Return True if a Transpose has the rank of the result, so that no axis is added to it."""
    return len(at.shape(node.inputs[0])) == len(shape)


def _in_order_of(perm: tuple[int, ...], name: str, like: Node, at: Rewriter) -> str | None:
    """Return a constant of transposed axes in the order that the axes had before `perm`."""
    array = at.known(name)
    if array is None or array.size > 1 << 16 or array.ndim > len(perm):
        return None
    if array.size == 1:
        return name
    aligned = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    back = np.ascontiguousarray(np.transpose(aligned, np.argsort(perm)))
    return at.number(back, like, at.values[name].dtype)
