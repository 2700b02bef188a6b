"""Values with a bound on the error of computing them in their own dtype, operator by operator.

Sound for kernels that round every operation (unit roundoff u; 16-bit floats in float32,
and once more where a node is stored, ADR-0038), fuse multiply and add, add in any order, divide by
multiplying with an inverse, and compute functions within the errors of the table
`expr.functions`, pow within 8 machine epsilons.
Source: Higham, Accuracy and Stability of Numerical Algorithms, chapters 2 and 3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ansorpy.expr.dtypes import (
    FLOATS,
    INTEGER_RANGE,
    LARGEST,
    NARROW,
    UNDERFLOW,
    UNIT_ROUNDOFF,
    computed,
)
from ansorpy.expr.expr import COMPARISONS
from ansorpy.expr.functions import FUNCTIONS, TRANSCENDENTAL_ROUNDOFFS
from ansorpy.oracle import numeric
from ansorpy.te.tensor_data import Array, FloatArray, rounded

# Times the error bound of a kernel: one for the kernel, one for the rounding of the reference. To
# store 16 bits is one rounding of the kernel, of which the reference has none.
SAFETY: Final = 2.0
DIVISION_ROUNDOFFS: Final = 3  # a / b, or a * (1 / b) where many are divided by one b

ZERO: Final[FloatArray] = np.zeros(())


@dataclass(frozen=True, eq=False, slots=True)
class Bounded:
    """Values, and per element the largest |computed - value|; `error` broadcasts to `value`.

    `stored` is the part of the error of a node that is the rounding of its results to 16 bits.
    """

    value: Array
    error: FloatArray = field(default_factory=lambda: ZERO)
    stored: FloatArray = field(default_factory=lambda: ZERO)

    @property
    def exact(self) -> bool:
        """True if no element has an error."""
        return self.error.ndim == 0 and float(self.error) == 0.0

    @property
    def magnitude(self) -> FloatArray:
        """The largest absolute value that a kernel may compute, per element."""
        return sizes(self.value) + self.error


def allowed(output: Bounded, dtype: str) -> FloatArray:
    """Return the largest |kernel - value| of an output that is right, per element.

    An index or an integer that depends on rounding has its reach as its error.
    """
    error = np.broadcast_to(output.error, output.value.shape)
    if dtype not in FLOATS:
        return error
    bound = SAFETY * error - np.where(np.isinf(error), 0.0, (SAFETY - 1) * output.stored)
    return bound + UNDERFLOW[dtype]


def sizes(value: Array) -> FloatArray:
    """Return absolute values in float64, in which the smallest integer does not wrap."""
    size: FloatArray = np.abs(value.astype(np.float64, copy=False))
    return size


def gamma(roundings: int | FloatArray, dtype: str) -> FloatArray:
    """Return (1 + u)^n - 1: the relative error of `roundings` operations in a row."""
    if dtype not in FLOATS:
        return ZERO
    error: FloatArray = np.expm1(roundings * np.log1p(UNIT_ROUNDOFF[dtype]))
    return error


def rounding(value: Array, error: FloatArray, dtype: str, moves: bool) -> FloatArray:
    """Return the error of storing computed values in a dtype of 16 bits; ZERO for other dtypes.

    Args:
        moves: the values are elements of other nodes, which are rounded already, or literals.
    """
    if dtype not in NARROW:
        return ZERO
    held = rounded(value, dtype) == value
    exact = (error == 0) & held | np.isinf(value)
    exact = exact | (error > 0) if moves else exact
    slack = UNIT_ROUNDOFF[dtype] * (sizes(value) + error) + UNDERFLOW[dtype]
    return np.where(exact, 0.0, slack)


def settle(value: Array, error: FloatArray, dtype: str) -> FloatArray:
    """Return the error of a stored value: infinite where the dtype may overflow or all is lost."""
    if not np.any(error):
        return ZERO
    largest = LARGEST[dtype]
    wide = sizes(value) + error
    out: FloatArray = np.where((error > 0) & ~(wide <= largest), np.inf, error)
    out = np.where(np.isnan(out), np.inf, out)
    return out


def binary(op: str, a: Bounded, b: Bounded, dtype: str) -> Bounded:
    """Return `a op b`; both sides have `dtype`."""
    dtype = computed(dtype)
    value = numeric.BINARY[op](a.value, b.value)
    if a.exact and b.exact and (dtype not in FLOATS or op in _NEVER_ROUND):
        return Bounded(value)
    if op in COMPARISONS:
        return Bounded(value, _comparison(a, b))
    rule = _FLOAT_RULES.get(op) if dtype in FLOATS else _INT_RULES.get(op)
    return Bounded(value, (rule or _SHARED_RULES[op])(a, b, value, dtype))


def call(fn: str, a: Bounded, dtype: str) -> Bounded:
    """Return `fn(a)`; `a` has `dtype`."""
    dtype = computed(dtype)
    function = FUNCTIONS[fn]
    value = function.meaning(a.value)
    error = ZERO
    if function.slope is not None:
        error = a.error * function.slope
    elif not a.exact:
        # The ends of the interval bound a monotone function.
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            ends = [function.meaning(x) for x in (a.value + a.error, a.value - a.error)]
            error = np.maximum(np.abs(ends[0] - value), np.abs(ends[1] - value))
        # An end outside of the domain (log of a negative number): a kernel may give anything.
        error = np.where(np.isnan(error) & ~np.isnan(value), np.inf, error)
    if function.roundoffs:
        error = _round(error, value, dtype, function.roundoffs)
    return Bounded(value, error)


def cast(a: Bounded, source: str, dtype: str) -> Bounded:
    """Return `a` (of dtype `source`) as `dtype`."""
    value = numeric.cast(a.value, dtype)
    if dtype == "bool":
        return Bounded(value, ZERO if a.exact else 1.0 * (np.abs(a.value) <= a.error))
    if dtype in FLOATS:
        return Bounded(value, a.error + _widening(a, source, dtype) + _flushed(a, source))
    if a.exact or source not in FLOATS:
        return Bounded(value, a.error)
    ends = np.trunc(a.value + a.error), np.trunc(a.value - a.error)
    middle = np.trunc(a.value)
    return Bounded(value, np.maximum(ends[0] - middle, middle - ends[1]))


def _flushed(a: Bounded, source: str) -> FloatArray:
    """Return the error where a subnormal bfloat16 is taken for 0, as VDPBF16PS takes it."""
    if source != "bfloat16":
        return ZERO
    size = sizes(a.value)
    subnormal = (size < UNDERFLOW[source]) & (size > 0)
    return np.where(subnormal, size, 0.0) if np.any(subnormal) else ZERO


def select(cond: Bounded, then: Bounded, other: Bounded) -> Bounded:
    """Return `then` or `other`; where the condition is uncertain the bound covers both."""
    value = np.where(cond.value, then.value, other.value)
    if cond.exact and then.exact and other.exact:
        return Bounded(value)
    error = np.where(cond.value, then.error, other.error)
    if not cond.exact:
        apart = np.abs(then.value.astype(np.float64) - other.value)
        missed = apart + np.where(cond.value, other.error, then.error)
        error = np.where(cond.error > 0, np.maximum(error, missed), error)
    return Bounded(value, error)


def _round(error: FloatArray, value: Array, dtype: str, roundoffs: int = 1) -> FloatArray:
    size = np.abs(value) + error
    slack = roundoffs * UNIT_ROUNDOFF[dtype] * size + UNDERFLOW[dtype]
    # An exact zero stays one, and infinity is not rounded.
    rounded: FloatArray = error + np.where((size == 0) | np.isinf(value), 0.0, slack)
    return rounded


def _widening(a: Bounded, source: str, dtype: str) -> FloatArray:
    """Return the rounding error of a conversion to a float dtype."""
    u = UNIT_ROUNDOFF[dtype]
    if source in FLOATS:
        if u <= UNIT_ROUNDOFF[source] and LARGEST[dtype] >= LARGEST[source]:
            return ZERO
        held = (a.error == 0) & (rounded(a.value, dtype) == a.value)
        slack = np.where(held, 0.0, u * a.magnitude + UNDERFLOW[dtype])
        return np.where(held | (a.magnitude <= LARGEST[dtype]), slack, np.inf)
    if a.exact and (INTEGER_RANGE[source][1] <= 255 and u <= 2.0**-8):
        return ZERO
    return np.where(a.magnitude > 1.0 / u, u * a.magnitude, 0.0)


def _comparison(a: Bounded, b: Bounded) -> FloatArray:
    slack = a.error + b.error
    apart = np.abs(a.value.astype(np.float64) - b.value)
    return 1.0 * ((slack > 0) & ~(apart > slack))


def _add(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    error: FloatArray = a.error + b.error
    return error + gamma(1, dtype) * (a.magnitude + b.magnitude)


def _spread(a: Bounded, b: Bounded) -> FloatArray:
    """Return the propagated error of a product."""
    spread: FloatArray = sizes(a.value) * b.error + a.error * b.magnitude
    return spread


def _mul(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    return _round(_spread(a, b), value, dtype)


def _div(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    nearest = np.abs(b.value) - b.error
    moved = (a.error + np.abs(value) * b.error) / nearest
    error = moved if b.exact else np.where(nearest > 0, moved, np.inf)
    return _round(error, value, dtype, DIVISION_ROUNDOFFS)


def _pow(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    error = ZERO
    if not (a.exact and b.exact):
        corners = [
            np.abs(np.power(a.value + s * a.error, b.value + t * b.error) - value)
            for s in (-1, 1)
            for t in (-1, 1)
        ]
        crosses = (np.abs(a.value) <= a.error) & (b.value - b.error < 0)
        error = np.where(crosses, np.inf, np.maximum.reduce(corners))
    exponent = np.nan_to_num(np.abs(b.value * np.log(np.abs(a.value))), posinf=0.0)
    slack = TRANSCENDENTAL_ROUNDOFFS * UNIT_ROUNDOFF[dtype] * (1.0 + exponent)
    rounded: FloatArray = error + slack * (np.abs(value) + error) + UNDERFLOW[dtype]
    return rounded


def _fmod(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    """Return 0 for exact operands, since fmod is exact; it jumps where the quotient is whole."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ends = [np.trunc((a.value + sign * a.error) / b.value) for sign in (-1, 1)]
    apart = np.where(ends[0] == ends[1], a.error, np.maximum(a.error, 2 * np.abs(b.value)))
    return np.where(b.error > 0, np.inf, np.where(a.error > 0, apart, 0.0))


def _extreme(a: Bounded, b: Bounded, value: Array, pick: Callable[..., Array]) -> FloatArray:
    high = pick(a.value + a.error, b.value + b.error) - value
    low = value - pick(a.value - a.error, b.value - b.error)
    error: FloatArray = np.maximum(high, low)
    # inf - inf: both ends are the same infinity.
    return np.where(np.isnan(error), np.maximum(a.error, b.error), error)


def _max(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    return _extreme(a, b, value, np.maximum)


def _min(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    return _extreme(a, b, value, np.minimum)


def _and(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    doubt = ((a.error > 0) & (b.value | (b.error > 0))) | ((b.error > 0) & a.value)
    return 1.0 * doubt


def _or(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    doubt = ((a.error > 0) & (~b.value | (b.error > 0))) | ((b.error > 0) & ~a.value)
    return 1.0 * doubt


def _int_mul(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    return _spread(a, b)


def _int_floordiv(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    divided: FloatArray = a.error / sizes(b.value) + 1.0
    return np.where((a.error + b.error) == 0, 0.0, np.where(b.error > 0, np.inf, divided))


def _bitwise(times: int) -> "_Rule":
    """Return the rule of an operator of bits that moves a number by at most the other operand.

    If m >= 0, then 0 <= x & m <= m, x <= x | m <= x + m and x - m <= x ^ m <= x + m; `times` is the
    width of this range in m.
    """

    def rule(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
        moved = np.where(b.error == 0, a.error, b.error)
        mask = np.where(b.error == 0, b.value, a.value).astype(np.float64)
        doubt = ((a.error > 0) & (b.error > 0)) | (mask < 0)
        return np.where(moved == 0, 0.0, np.where(doubt, np.inf, moved + times * mask))

    return rule


def _shift(sign: int) -> "_Rule":
    def rule(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
        counts = np.clip(b.value, 0, 64).astype(np.float64)
        error = np.where(a.error == 0, 0.0, a.error * 2.0 ** (sign * counts) + 1.0)
        return np.where(b.error == 0, error, np.inf)

    return rule


def _int_mod(a: Bounded, b: Bounded, value: Array, dtype: str) -> FloatArray:
    any_rest = np.where(b.error > 0, np.inf, sizes(b.value))
    return np.where((a.error + b.error) == 0, 0.0, any_rest)


_Rule = Callable[[Bounded, Bounded, Array, str], FloatArray]
_NEVER_ROUND: Final = ("min", "max", *COMPARISONS)
_SHARED_RULES: Final[Mapping[str, _Rule]] = {
    "add": _add, "sub": _add, "min": _min, "max": _max, "and": _and, "or": _or,
}  # fmt: skip
_FLOAT_RULES: Final[Mapping[str, _Rule]] = {"mul": _mul, "div": _div, "pow": _pow, "fmod": _fmod}
_INT_RULES: Final[Mapping[str, _Rule]] = {
    "mul": _int_mul, "floordiv": _int_floordiv, "mod": _int_mod,
    "bitand": _bitwise(1), "bitor": _bitwise(1), "bitxor": _bitwise(2),
    "shl": _shift(1), "shr": _shift(-1),
}  # fmt: skip
