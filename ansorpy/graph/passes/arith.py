"""Arithmetic with constants: cheaper operators of the same value."""

from collections.abc import Sequence

import numpy as np

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.passes.patterns import is_float, positive
from ansorpy.graph.passes.rewriter import SCALAR_ELEMENTS, Rewriter, Rewritten, rewrite_nodes


def arith(graph: Graph) -> Rewritten:
    """Replace powers, quotients and differences with a constant by products and sums.

    Condition    float32 or float64, and a constant that does not broadcast the other operand; for
                 roots, an x that is a sum of squares and the like: no element is -0 or below
    Rewrite      x^1 -> x; x^2 -> x * x; x^3 -> x * x * x; x^0.5 -> Sqrt; x^-1 -> Reciprocal;
                 x^-0.5 -> Reciprocal of Sqrt; x / c -> x * (1 / c); 1 / x -> Reciprocal;
                 x - c -> x + (-c); x * -1 -> Neg
    Not handled  integers; other powers; roots of any x, as (-inf)^0.5 is inf; c with an element
                 whose reciprocal is zero, infinite or subnormal; sums and products of two
                 constants, which may overflow or cancel
    Rounding     x^2, x - c, 1 / x, x * -1 and quotients by powers of two: none. Other quotients:
                 1 / c is rounded, so a result moves by at most 2^-23 of itself; x^3 and x^-0.5
                 are rounded twice
    Source       Warren, Hacker's Delight, 2nd edition, section 10-17, for exact quotients
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    if node.op not in ("Pow", "Div", "Sub", "Mul") or not is_float(node.inputs[0], at):
        return None
    result = at.before.values[node.outputs[0]]
    left, right = node.inputs
    if node.op == "Div" and at.scalar(left) == 1 and at.values[right].shape == result.shape:
        return at.add("Reciprocal", (right,), node.outputs, None, node.name)
    if at.values[left].shape != result.shape:
        return None
    if node.op == "Pow":
        return _power(node, at.scalar(right), at)
    if node.op == "Mul":
        if at.scalar(right) == -1:
            return at.add("Neg", (left,), node.outputs, None, node.name)
        return None
    constant = at.known(right)
    if constant is None or not 0 < constant.size <= SCALAR_ELEMENTS:
        return None
    if node.op == "Sub":
        return at.add("Add", (left, at.number(-constant, node)), node.outputs, None, node.name)
    with np.errstate(all="ignore"):
        inverse = (1 / constant.astype(np.float64)).astype(constant.dtype)
    size = np.abs(inverse)
    if not np.all(np.isfinite(inverse)) or np.any(size < np.finfo(inverse.dtype).tiny):
        return None
    return at.add("Mul", (left, at.number(inverse, node)), node.outputs, None, node.name)


def _power(node: Node, exponent: float | None, at: Rewriter) -> Sequence[str] | None:
    x, outputs, name = node.inputs[0], node.outputs, node.name
    if exponent == 1:
        return (x,)
    if exponent == 2:
        return at.add("Mul", (x, x), outputs, None, name)
    if exponent == 3:
        return at.add("Mul", (at.new("Mul", (x, x), node), x), outputs, None, name)
    if exponent == -1:
        return at.add("Reciprocal", (x,), outputs, None, name)
    if exponent not in (0.5, -0.5) or not positive(x, at):
        return None
    if exponent == 0.5:
        return at.add("Sqrt", (x,), outputs, None, name)
    return at.add("Reciprocal", (at.new("Sqrt", (x,), node),), outputs, None, name)
