"""Normalisations that a model spells out: layer norm, RMS norm and softmax."""

from collections.abc import Sequence

import numpy as np

from ansorpy.graph.graph import Array, Graph, Node
from ansorpy.graph.passes.patterns import (
    axes_of,
    constant_and_value,
    is_float,
    mean_of,
)  # fmt: skip
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes

_NORMS = ("LayerNormalization", "RMSNormalization")


def normalizations(graph: Graph) -> Rewritten:
    """Replace the formula of a normalisation by its operator, for its numerics.

    Condition    float32 or float64; means over the last axes that keep the rank, as ReduceMean
                 or as ReduceSum times one over the number of elements
    Rewrite      d / Sqrt(mean(d * d) + e), d = x - mean(x) -> LayerNormalization(x, 1, epsilon=e)
                 x / Sqrt(mean(x * x) + e) -> RMSNormalization(x, 1, epsilon=e)
                 either of them times a constant -> with this scale, if it is read once
                 LayerNormalization plus a constant -> with this bias, if it is read once
                 p / sum(p), p = Exp(x - max(x)) -> Softmax(x), along one axis
    Not handled  variance as mean(x * x) - mean(x)^2; Exp(x) / sum without the maximum, whose
                 overflow Softmax would hide; a scale that is computed at run time
    Rounding     steps are no longer rounded to the dtype, and sums run in another order: results
                 move as with the length of a sum, some 2^-24 times its square root
    Source       Ba et al., arXiv 1607.06450; Zhang and Sennrich, arXiv 1910.07467
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    if node.op not in ("Div", "Mul", "Add") or not is_float(node.inputs[0], at):
        return None
    if node.op == "Add":
        return _with_constant(node, at)
    if node.op == "Div":
        return _softmax(node, at) or _norm(node, node.inputs[0], node.inputs[1], at)
    for x, other in (node.inputs, node.inputs[::-1]):
        inverse = at.maker(other, "Reciprocal")
        if inverse is not None and (made := _norm(node, x, inverse.inputs[0], at)):
            return made
    return _with_constant(node, at)


def _norm(node: Node, x: str, divisor: str, at: Rewriter) -> Sequence[str] | None:
    """Add the norm that x / divisor is."""
    root = at.maker(divisor, "Sqrt")
    total = None if root is None else at.maker(root.inputs[0], "Add")
    found = None if total is None else constant_and_value(total, at)
    mean = None if found is None else mean_of(found[1], at)
    if found is None or mean is None or found[0] < 0:
        return None
    epsilon, (square, axes) = found[0], mean
    shape = at.shape(x)
    first = len(shape) - len(axes)
    inner = at.maker(square, "Mul")
    if inner is None or inner.inputs != (x, x) or axes != tuple(range(first, len(shape))):
        return None
    if at.before.values[node.outputs[0]].shape != shape:
        return None
    ones = at.number(np.ones(shape[first:], at.values[x].dtype), node)
    attrs = {"axis": first, "epsilon": epsilon}
    centred = at.maker(x, "Sub")
    if centred is not None and mean_of(centred.inputs[1], at) == (centred.inputs[0], axes):
        inputs = centred.inputs[0], ones
        return at.add("LayerNormalization", inputs, node.outputs, attrs, node.name)
    return at.add("RMSNormalization", (x, ones), node.outputs, attrs, node.name)


def _with_constant(node: Node, at: Rewriter) -> Sequence[str] | None:
    """Add a norm with another scale or bias in place of a Mul or an Add by a constant."""
    for value, other in (node.inputs, node.inputs[::-1]):
        norm = at.maker(value, *_NORMS)
        if norm is None or not at.sole(value):
            continue
        shape = at.shape(value)
        axis = norm.attrs.get("axis", -1)
        assert isinstance(axis, int)
        trailing = shape[axis:]
        constant = _over(at.known(other), trailing)
        parts = [at.known(name) for name in norm.inputs[1:]]
        if constant is None or at.before.values[node.outputs[0]].shape != shape:
            continue
        vectors = [_over(one, trailing) for one in parts]
        if any(one is None for one in vectors) or (norm.op != _NORMS[0] and node.op == "Add"):
            continue
        scale, *rest = (one for one in vectors if one is not None)
        bias = rest[0] if rest else np.zeros_like(scale)
        if node.op == "Mul":
            scale, bias = scale * constant, bias * constant
        else:
            bias = bias + constant
        if not np.all(np.isfinite(scale)) or not np.all(np.isfinite(bias)):
            continue
        biased = norm.op == _NORMS[0] and (bool(rest) or node.op == "Add")
        names = [at.number(one, node) for one in ((scale, bias) if biased else (scale,))]
        return at.add(norm.op, (norm.inputs[0], *names), node.outputs, norm.attrs, norm.name)
    return None


def _over(array: Array | None, shape: tuple[int, ...]) -> Array | None:
    """Return a constant that varies along the last axes only, with their shape."""
    if array is None:
        return None
    while array.ndim > len(shape) and array.shape[0] == 1:
        array = array[0]
    if array.ndim > len(shape):
        return None
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        return None


def _softmax(node: Node, at: Rewriter) -> Sequence[str] | None:
    powers, total = node.inputs
    power, reduction = at.maker(powers, "Exp"), at.maker(total, "ReduceSum")
    if power is None or reduction is None or reduction.inputs[0] != powers:
        return None
    centred = at.maker(power.inputs[0], "Sub")
    largest = None if centred is None else at.maker(centred.inputs[1], "ReduceMax")
    if centred is None or largest is None or largest.inputs[0] != centred.inputs[0]:
        return None
    axes = axes_of(reduction, at)
    if axes is None or len(axes) != 1 or axes_of(largest, at) != axes:
        return None
    x = centred.inputs[0]
    return at.add("Softmax", (x,), node.outputs, {"axis": axes[0]}, node.name)
