"""Chains of operators that a library has one operator for: the rules, in order.

Each looks at an operator and the operators of its operands. A chain whose parts have other readers
is joined as well: the parts stay for these.
"""

from collections.abc import Callable
from math import isclose, pi, prod, sqrt
from typing import Final

from ansorpy.measure.timing.peers.shaping import ints, reshaped
from ansorpy.measure.timing.peers.term import Term, Terms

Rule = Callable[[Terms, Term], Term | None]


def joined(terms: Terms, term: Term) -> Term:
    """Return the replacement of an operator by the first rule that fits, else the operator."""
    for rule in RULES.get(term.op, ()):
        found = rule(terms, term)
        if found is not None:
            return found
    return term


def _with_number(term: Term) -> tuple[Term, float] | None:
    """Return the operand and the number of an operator on a term and a constant number."""
    x, y = term.inputs
    if y.number is not None and y.size <= x.size:
        return x, y.number
    return (y, x.number) if x.number is not None and x.size <= y.size else None


def _mul(term: Term, value: float) -> Term | None:
    """Return x of x * value."""
    found = _with_number(term) if term.op == "Mul" else None
    return found[0] if found and isclose(found[1], value, rel_tol=1e-6) else None


def _plus(term: Term, value: float) -> Term | None:
    """Return x of x + value."""
    found = _with_number(term) if term.op == "Add" else None
    return found[0] if found and isclose(found[1], value, rel_tol=1e-6) else None


def _pairs(term: Term) -> tuple[tuple[Term, Term], tuple[Term, Term]]:
    """Return the operands of a commutative operator in both orders."""
    x, y = term.inputs
    return (x, y), (y, x)


def _product(terms: Terms, term: Term) -> Term | None:
    """x * a * b with a * b = 1: x; the mean of a window is such a product."""
    outer = _with_number(term)
    inner = _with_number(outer[0]) if outer and outer[0].op == "Mul" else None
    if outer is None or inner is None or not isclose(outer[1] * inner[1], 1.0, rel_tol=1e-6):
        return None
    return inner[0] if inner[0].shape == term.shape else None


def _mean(terms: Terms, term: Term) -> Term | None:
    """Sum * (1 / terms of the sum): ReduceMean."""
    product = _with_number(term)
    if product is None or product[0].shape != term.shape:
        return None
    shape = term.shape
    total = product[0].inputs[0] if product[0].op == "Reshape" else product[0]
    if total.op != "ReduceSum":
        return None
    (x,), axes = total.inputs, ints(total.attrs["axes"])
    if not isclose(product[1] * prod(x.shape[at] for at in axes), 1.0, rel_tol=1e-6):
        return None
    made = terms.make("ReduceMean", [x], total.shape, x.dtype, axes=axes, keepdims=1)
    return reshaped(terms, made, shape)


def _gelu(terms: Terms, term: Term) -> Term | None:
    """x * 0.5 * (erf(x * sqrt(0.5)) + 1), and its form by tanh: Gelu."""
    for half, gate in _pairs(term):
        x = _mul(half, 0.5)
        inner = _plus(gate, 1.0)
        if x is None or inner is None:
            continue
        if inner.op == "Erf" and _mul(inner.inputs[0], sqrt(0.5)) is x:
            return terms.make("Gelu", [x], term.shape, term.dtype)
        if inner.op == "Tanh" and _is_cubic(inner.inputs[0], x):
            return terms.make("Gelu", [x], term.shape, term.dtype, approximate="tanh")
    return None


def _is_cubic(term: Term, x: Term) -> bool:
    """Return whether a term is (x + x * x * x * 0.044715) * sqrt(2 / pi)."""
    total = _mul(term, sqrt(2 / pi))
    if total is None or total.op != "Add":
        return False
    cubes = [other for one, other in _pairs(total) if one is x]
    power = _mul(cubes[0], 0.044715) if cubes else None
    if power is None or power.op != "Mul":
        return False
    return any(
        one is x and square.op == "Mul" and square.inputs == (x, x) for one, square in _pairs(power)
    )


def _swish(terms: Terms, term: Term) -> Term | None:
    """x * sigmoid(x): Swish."""
    for x, gate in _pairs(term):
        if gate.op == "Sigmoid" and gate.inputs[0] is x:
            return terms.make("Swish", [x], term.shape, term.dtype)
    return None


def _norm(terms: Terms, term: Term) -> Term | None:
    """(x - mean) * (1 / sqrt(mean of squares + epsilon)): LayerNormalization over the last axes."""
    for centred, factor in _pairs(term):
        if centred.op != "Sub" or factor.op != "Reciprocal" or factor.inputs[0].op != "Sqrt":
            continue
        x, mean = centred.inputs
        moved = factor.inputs[0].inputs[0]
        plus = _with_number(moved) if moved.op == "Add" else None
        if plus is None or mean.op != "ReduceMean" or plus[0].op != "ReduceMean":
            continue
        (square,), axes = plus[0].inputs, ints(plus[0].attrs["axes"])
        rank = len(x.shape)
        trailing = axes == tuple(range(rank - len(axes), rank))
        alike = mean.inputs[0] is x and ints(mean.attrs["axes"]) == axes
        if square.op == "Mul" and square.inputs == (centred, centred) and trailing and alike:
            inner = x.shape[axes[0] :]
            one = terms.constant([[1.0]], x.dtype).array
            assert one is not None
            scale = terms.constant(one.reshape(1).repeat(prod(inner)).reshape(inner), x.dtype)
            return terms.make(
                "LayerNormalization", [x, scale], x.shape, x.dtype,
                axis=axes[0], epsilon=plus[1],
            )  # fmt: skip
    return None


def _scale(terms: Terms, term: Term) -> Term | None:
    """LayerNormalization * scale: its scale."""
    for x, scale in _pairs(term):
        if _takes(x, scale) and _ones(x.inputs[1]):
            return terms.make(x.op, [x.inputs[0], scale], x.shape, x.dtype, **dict(x.attrs))
    return None


def _takes(x: Term, vector: Term) -> bool:
    """Return whether a term is a normalisation without bias that a vector fits."""
    whole = x.op == "LayerNormalization" and len(x.inputs) == 2
    return whole and vector.shape == x.inputs[1].shape


def _ones(term: Term) -> bool:
    return term.array is not None and bool((term.array == 1).all())


def _shift(terms: Terms, term: Term) -> Term | None:
    """LayerNormalization + shift: its bias."""
    for x, shift in _pairs(term):
        if _takes(x, shift):
            return terms.make(x.op, [*x.inputs, shift], x.shape, x.dtype, **dict(x.attrs))
    return None


def _bias(terms: Terms, term: Term) -> Term | None:
    """Convolution + bias per channel: its bias; product of matrices + bias per column: Gemm."""
    for x, bias in _pairs(term):
        if x.shape != term.shape:
            continue
        vector = bias.shape[:1] + (1,) * (len(x.shape) - 2)
        if x.op == "Conv" and len(x.inputs) == 2 and bias.shape == vector == _channels(x):
            row = reshaped(terms, bias, bias.shape[:1])
            return terms.make("Conv", [*x.inputs, row], x.shape, x.dtype, **dict(x.attrs))
        flat = all(len(one.shape) == 2 for one in (x, *x.inputs))
        if x.op == "MatMul" and flat and bias.shape == x.shape[1:]:
            return terms.make("Gemm", [*x.inputs, bias], x.shape, x.dtype)
    return None


def _channels(x: Term) -> tuple[int, ...]:
    return (x.shape[1],) + (1,) * (len(x.shape) - 2)


def _relu(terms: Terms, term: Term) -> Term | None:
    """max(x, 0) of floats: Relu."""
    found = _with_number(term)
    if found is None or found[1] != 0 or not term.dtype.startswith("float"):
        return None
    return terms.make("Relu", [found[0]], term.shape, term.dtype)


def _clip(terms: Terms, term: Term) -> Term | None:
    """min(max(x, a), b) of floats: Clip."""
    found = _with_number(term)
    if found is None or not term.dtype.startswith("float"):
        return None
    x, high = found
    if x.op == "Relu":
        x, low = x.inputs[0], 0.0
    elif x.op == "Max" and (inner := _with_number(x)) is not None:
        x, low = inner
    else:
        return None
    if low > high:
        return None
    ends = [terms.constant(end, term.dtype) for end in (low, high)]
    return terms.make("Clip", [x, *ends], term.shape, term.dtype)


def _softmax(terms: Terms, term: Term) -> Term | None:
    """exp(x - max) / sum of exp(x - max) along an axis: Softmax."""
    powers, total = term.inputs
    x = _centred(powers.inputs[0]) if powers.op == "Exp" else None
    if x is None or total.op != "ReduceSum" or total.inputs[0] is not powers:
        return None
    axes = ints(total.attrs["axes"])
    if len(axes) != 1 or x[1] != axes:
        return None
    return terms.make("Softmax", [x[0]], term.shape, term.dtype, axis=axes[0])


def _log_softmax(terms: Terms, term: Term) -> Term | None:
    """x - max - log(sum of exp(x - max)) along an axis: LogSoftmax."""
    centred, logarithm = term.inputs
    x = _centred(centred)
    total = logarithm.inputs[0] if logarithm.op == "Log" else None
    if x is None or total is None or total.op != "ReduceSum":
        return None
    powers, axes = total.inputs[0], ints(total.attrs["axes"])
    if powers.op != "Exp" or powers.inputs[0] is not centred or len(axes) != 1 or x[1] != axes:
        return None
    return terms.make("LogSoftmax", [x[0]], term.shape, term.dtype, axis=axes[0])


def _centred(term: Term) -> tuple[Term, tuple[int, ...]] | None:
    """Return x and the axes of x - max of x."""
    if term.op != "Sub" or term.inputs[1].op != "ReduceMax":
        return None
    x, largest = term.inputs
    return (x, ints(largest.attrs["axes"])) if largest.inputs[0] is x else None


def _length(terms: Terms, term: Term) -> Term | None:
    """Square root of a sum of squares: ReduceL2."""
    shape = term.shape
    total = term.inputs[0].inputs[0] if term.inputs[0].op == "Reshape" else term.inputs[0]
    if total.op != "ReduceSum":
        return None
    square, axes = total.inputs[0], ints(total.attrs["axes"])
    if square.op != "Mul" or square.inputs[0] is not square.inputs[1]:
        return None
    x = square.inputs[0]
    made = terms.make("ReduceL2", [x], total.shape, x.dtype, axes=axes, keepdims=1)
    return reshaped(terms, made, shape)


def _leaky(terms: Terms, term: Term) -> Term | None:
    """x if x >= 0, else x * alpha: LeakyRelu."""
    test, x, other = term.inputs
    if test.op not in ("GreaterOrEqual", "Greater") or test.inputs[0] is not x or other.op != "Mul":
        return None
    found = _with_number(other)
    if test.inputs[1].number != 0 or found is None or found[0] is not x:
        return None
    return terms.make("LeakyRelu", [x], term.shape, term.dtype, alpha=found[1])


# Order: a rule that joins more comes first.
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "Mul": (_gelu, _swish, _norm, _scale, _product, _mean),
    "Add": (_shift, _bias),
    "Sub": (_log_softmax,),
    "Div": (_softmax,),
    "Max": (_relu,),
    "Min": (_clip,),
    "Sqrt": (_length,),
    "Where": (_leaky,),
}
