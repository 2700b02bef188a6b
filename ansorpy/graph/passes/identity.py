"""Identity nodes: let readers read the operand of a node that changes nothing."""

from collections.abc import Sequence
from math import copysign
from typing import Final

import numpy as np

from ansorpy.expr.dtypes import FLOATS
from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes

_COPIES: Final = frozenset({"Identity", "Dropout"})
_ONE_OPERAND: Final = frozenset({"Concat", "Max", "Min", "Sum", "Mean"})
_IDEMPOTENT: Final = frozenset({"Relu", "Abs", "Floor", "Ceil", "Round", "Sign"})


def identity(graph: Graph) -> Rewritten:
    """Replace the output of a node that changes nothing by its operand.

    Condition    Identity; Dropout in inference, if its mask is not read; Cast to the dtype that
                 the operand has; Concat, Max, Min, Sum or Mean of one operand; Relu of a Relu
                 (Abs, Floor, Ceil, Round and Sign as well); Neg of a Neg; Slice of all elements
                 in order; Pad by nothing; a neutral constant: x * 1, x / 1, x - 0, x + 0 of
                 integers, x + -0.0 of floats, if the result has the shape of x
    Rewrite      readers of the output read the operand
    Not handled  x + 0.0 of floats: -0.0 + 0.0 is 0.0
    Source       ONNX Runtime, graph optimizations, basic: identity and dropout elimination
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    kept = _operand(node, at)
    if kept is None:
        return None
    value, result = at.values[kept], at.before.values[node.outputs[0]]
    if (value.shape, value.dtype) != (result.shape, result.dtype):
        return None
    return (kept, *node.outputs[1:])


def _operand(node: Node, at: Rewriter) -> str | None:
    """Return the operand that the first output of a node equals, None if there is no such."""
    if any(node.outputs[1:]) or not node.inputs:
        return None
    first = node.inputs[0]
    if node.op in _COPIES:
        return first
    if node.op == "Cast" or (node.op in _ONE_OPERAND and len(node.inputs) == 1):
        return first
    if node.op in _IDEMPOTENT and at.maker(first, node.op):
        return first
    if node.op in ("Slice", "Pad"):
        return first if _whole(node, at) else None
    if node.op == "Neg" and (inner := at.maker(first, "Neg")):
        return inner.inputs[0]
    if node.op in ("Add", "Mul", "Sub", "Div"):
        dtype = at.values[first].dtype
        if _neutral(node.op, at.scalar(node.inputs[1]), dtype):
            return first
        if node.op in ("Add", "Mul") and _neutral(node.op, at.scalar(first), dtype):
            return node.inputs[1]
    return None


def _whole(node: Node, at: Rewriter) -> bool:
    """Return True if a Slice goes forward, or a Pad adds nothing, by constants."""
    position = 4 if node.op == "Slice" else 1
    if len(node.inputs) <= position or not node.inputs[position]:
        return node.op == "Slice"
    numbers = at.known(node.inputs[position])
    if numbers is None:
        return False
    return bool(np.all(numbers > 0)) if node.op == "Slice" else not np.any(numbers)


def _neutral(op: str, number: float | None, dtype: str) -> bool:
    """Return True if `x op number` is x for every x, the sign of zero included."""
    if number is None:
        return False
    if op in ("Mul", "Div"):
        return number == 1
    if number != 0:
        return False
    return dtype not in FLOATS or (copysign(1.0, number) < 0) == (op == "Add")
