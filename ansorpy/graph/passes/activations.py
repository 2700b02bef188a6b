"""Activation functions that a model spells out."""

from collections.abc import Mapping, Sequence
from math import pi, sqrt

from ansorpy.graph.graph import Attribute, Graph, Node
from ansorpy.graph.passes.patterns import (
    constant_and_value,
    factors,
    is_float,
    limits,
    near,
    plus,
    product,
)  # fmt: skip
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes

Found = tuple[str, str, Mapping[str, Attribute]]  # operator, operand, attributes


def activations(graph: Graph) -> Rewritten:
    """Replace the formula of an activation function by its operator, for its numerics.

    Condition    float32 or float64; steps of the formula that no other node reads; constants
                 within 2^-20 of the constants of the formula; factors in any order
    Rewrite      x * Sigmoid(a * x) -> Swish(x, a)
                 x * HardSigmoid(x, 1/6, 1/2), x * Clip(x + 3, 0, 6) / 6 -> HardSwish(x)
                 Clip(x + b, 0, 1 / a) * a -> HardSigmoid(x, a, a * b)
                 x * (1 + Erf(x / sqrt 2)) / 2 -> Gelu(x)
                 x * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2 -> Gelu(x, tanh)
                 x * Tanh(Softplus(x)) -> Mish(x)
                 1 / (1 + Exp(-x)) -> Sigmoid(x)
    Not handled  other arrangements of the sums
    Rounding     steps are no longer rounded to the dtype, and constants become the formula's:
                 a result moves by at most some 2^-20 of itself, near a zero of 2^-20 of x
    Source       Hendrycks and Gimpel, arXiv 1606.08415; Howard et al., MobileNetV3, 2019
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    if not is_float(node.inputs[0], at) if node.inputs else True:
        return None
    values = _sigmoid(node, at)
    if values is None and node.op in ("Mul", "Div"):
        whole = product(node, at)
        if len(whole.values) == 1:
            values = _hard_sigmoid(whole.values[0], whole.factor, at)
        elif len(whole.values) == 2:
            a, b = whole.values
            values = _gated(a, b, whole.factor, at) or _gated(b, a, whole.factor, at)
    if values is None:
        return None
    op, x, attrs = values
    if at.values[x].shape != at.before.values[node.outputs[0]].shape:
        return None
    return at.add(op, (x,), node.outputs, attrs, node.name)


def _gated(x: str, gate: str, factor: float, at: Rewriter) -> Found | None:
    """Return the function that is x * gate * factor."""
    node = at.maker(gate, "Sigmoid", "HardSigmoid", "Clip", "Add", "Tanh")
    if node is None or not at.sole(gate):
        return None
    inner = node.inputs[0]
    match node.op:
        case "Sigmoid" if near(factor, 1):
            scaled = factors(inner, at)
            if inner == x:
                return "Swish", x, {}
            return ("Swish", x, {"alpha": scaled.factor}) if scaled.is_only(x) else None
        case "HardSigmoid" if near(factor, 1) and inner == x:
            alpha, beta = node.attrs.get("alpha", 0.2), node.attrs.get("beta", 0.5)
            if isinstance(alpha, float) and near(alpha, 1 / 6) and beta == 0.5:
                return "HardSwish", x, {}
        case "Clip" if near(factor, 1 / 6) and limits(node, at) == (0, 6):
            return ("HardSwish", x, {}) if plus(inner, 3, at) == x else None
        case "Tanh" if near(factor, 1):
            soft = at.maker(inner, "Softplus")
            return ("Mish", x, {}) if soft and soft.inputs[0] == x else None
        case "Add" if near(factor, 0.5):
            return _gelu(x, plus(gate, 1, at), at)
    return None


def _gelu(x: str, value: str | None, at: Rewriter) -> Found | None:
    """Return the Gelu whose error function, or its approximation, a value is."""
    node = None if value is None else at.maker(value, "Erf", "Tanh")
    if value is None or node is None or not at.sole(value):
        return None
    scaled = factors(node.inputs[0], at)
    if node.op == "Erf":
        return ("Gelu", x, {}) if near(scaled.factor, sqrt(0.5)) and scaled.is_only(x) else None
    if not near(scaled.factor, sqrt(2 / pi)) or len(scaled.values) != 1:
        return None
    total = at.maker(scaled.values[0], "Add")
    if total is None or x not in total.inputs:
        return None
    cubic = factors(total.inputs[1 - total.inputs.index(x)], at)
    flat = [one for name in cubic.values for one in _square(name, at)]
    if near(cubic.factor, 0.044715) and flat == [x] * 3:
        return "Gelu", x, {"approximate": "tanh"}
    return None


def _square(name: str, at: Rewriter) -> tuple[str, ...]:
    """Return the operands of a product of two values, otherwise the value."""
    node = at.maker(name, "Mul")
    return node.inputs if node is not None else (name,)


def _hard_sigmoid(name: str, factor: float, at: Rewriter) -> Found | None:
    """Return the HardSigmoid that a Clip times a factor is."""
    node = at.maker(name, "Clip")
    if node is None or not at.sole(name):
        return None
    low, high = limits(node, at)
    inner = at.maker(node.inputs[0], "Add")
    if low != 0 or high is None or inner is None or not near(high * factor, 1):
        return None
    found = constant_and_value(inner, at)
    if found is None or not at.sole(node.inputs[0]):
        return None
    shift, x = found
    return "HardSigmoid", x, {"alpha": factor, "beta": shift * factor}


def _sigmoid(node: Node, at: Rewriter) -> Found | None:
    """Return the Sigmoid that one over 1 + exp(-x) is."""
    if node.op == "Div" and at.scalar(node.inputs[0]) != 1:
        return None
    if node.op not in ("Div", "Reciprocal"):
        return None
    power = plus(node.inputs[-1], 1, at)
    inner = None if power is None else at.maker(power, "Exp")
    if power is None or inner is None or not at.sole(power):
        return None
    negative = at.maker(inner.inputs[0], "Neg")
    return None if negative is None else ("Sigmoid", negative.inputs[0], {})
