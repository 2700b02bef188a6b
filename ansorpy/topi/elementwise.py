"""Functions of single elements, with broadcasting as in NumPy.

The dtypes of two operands are equal (`topi.cast` changes one), and a number takes the dtype of
the other operand. A comparison gives a bool tensor.
"""

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final, Protocol

import numpy as np

from ansorpy import te
from ansorpy.expr.dtypes import FLOATS, INTEGER_RANGE
from ansorpy.expr.expr import Const
from ansorpy.te.scalar import pair
from ansorpy.te.tensor import Tensor, TensorOperand, elementwise
from ansorpy.topi.common import axis_of, require_float, require_length

EXACT_IN_FLOAT32: Final = ("float32", "float16", "bfloat16", "int16", "uint16", "int8", "uint8")


class UnaryOperator(Protocol):
    """An operator of one tensor."""

    def __call__(self, data: Tensor, *, name: str = ...) -> Tensor:
        """Return a tensor of the shape of `data`."""
        ...


class BinaryOperator(Protocol):
    """An operator of two tensors, or of a tensor and a number."""

    def __call__(self, a: TensorOperand, b: TensorOperand, *, name: str = ...) -> Tensor:
        """Return a tensor of the broadcast shape of the operands."""
        ...


def unary(name: str, fn: Callable[[te.Scalar], te.Scalar], doc: str) -> UnaryOperator:
    """Return the operator `name` that applies `fn` to each element."""

    def apply(data: Tensor, *, name: str = name) -> Tensor:
        return elementwise(fn, data, name=name)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{doc}\n\nRaises:\n    SpecError: the dtype does not fit the function."
    return apply


def _binary(name: str, fn: Callable[..., te.Operand], doc: str) -> BinaryOperator:
    def apply(a: TensorOperand, b: TensorOperand, *, name: str = name) -> Tensor:
        return elementwise(fn, a, b, name=name)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = (
        f"{doc}\n\nRaises:\n    SpecError: shapes that cannot be broadcast, or dtypes that differ."
    )
    return apply


def _quotient(a: te.Operand, b: te.Operand) -> te.Scalar:
    a, b = pair(a, b, "truncate_divide")
    size = te.maximum(te.abs(b), 1)  # a divisor that is data may be 0
    down = a // size
    whole = te.select(te.all(a < 0, a % size != 0), down + 1, down)
    found = te.select(b < 0, -whole, whole)
    none, one = (te.const(n, a.dtype) for n in (0, 1))
    if a.dtype.startswith("int"):  # the least integer is its own absolute value
        least = te.const(INTEGER_RANGE[a.dtype][0], a.dtype)
        found = te.select(b == least, te.select(a == least, one, none), found)
    return te.select(b == 0, none, found)


def _remainder(a: te.Operand, b: te.Operand) -> te.Scalar:
    a, b = pair(a, b, "truncate_mod")
    return te.fmod(a, b) if a.dtype in FLOATS else a - _quotient(a, b) * b


def _power(a: te.Operand, b: te.Operand) -> te.Scalar:
    if not isinstance(a, te.Scalar) or not isinstance(b, te.Scalar):
        a, b = pair(a, b, "power")
    number = b.expr.value if isinstance(b.expr, Const) else None
    if a.dtype not in FLOATS:
        base = te.cast(a, "int64")
        if number is not None and number % 1 == 0:
            return te.cast(_known_power(base, int(number)), a.dtype)
        return te.cast(_whole_power(base, b), a.dtype)
    if number == 2:
        return a * a
    if number in (0.5, -0.5):
        root = te.select(a < te.min_value(a.dtype), -a, te.abs(te.sqrt(a)))  # sqrt(-inf) is NaN
        return root if number == 0.5 else 1 / root
    if number is not None and (a.dtype == "float64" or number == float(np.float32(number))):
        return te.pow(a, float(number))
    wide = "float32" if a.dtype != "float64" and b.dtype in EXACT_IN_FLOAT32 else "float64"
    wide = a.dtype if a.dtype == b.dtype else wide
    return te.cast(te.pow(te.cast(a, wide), te.cast(b, wide)), a.dtype)


def _whole_power(a: te.Scalar, b: te.Scalar) -> te.Scalar:
    """Return an int64 to the power of b, towards zero; a whole b takes no detour over floats."""
    if b.dtype not in FLOATS:
        return _by_squares(a, te.cast(b, "int64"))
    exponent = te.cast(b, "float64")
    broken = te.cast(te.pow(te.cast(a, "float64"), exponent), "int64")
    if isinstance(b.expr, Const):
        return broken
    near = te.minimum(te.maximum(exponent, -(2.0**31)), 2.0**31)  # parity stays
    return te.select(te.floor(near) == near, _by_squares(a, te.cast(near, "int64")), broken)


def _known_power(a: te.Scalar, number: int) -> te.Scalar:
    """Return an int64 to the power of a literal; exponents are limited as in `_by_squares`."""
    size = number if number >= 0 else -number
    size, square, factors = size if size < 64 else 62 + size % 2, a, list[te.Scalar]()
    while size:
        if size % 2:
            factors.append(square)
        size //= 2
        square = square * square if size else square
    found = reduce(operator.mul, factors) if factors else te.const(1, a.dtype)
    return found if number >= 0 else te.select(te.all(a != 1, a != -1), te.const(0, a.dtype), found)


def _by_squares(a: te.Scalar, b: te.Scalar) -> te.Scalar:
    """Return an int64 to the power of an int64.

    An exponent from 64 on counts as 62 or 63: powers of 0, 1 and -1 stay the same, others overflow.
    """
    one = te.const(1, a.dtype)
    size = te.maximum(b, -b)
    size = te.select(size < 64, size, size % 2 + 62)
    found, square = one, a
    for n in range(6):
        found = found * te.select((size >> n) % 2 == 1, square, one)
        square = square * square
    return te.select(te.all(b < 0, a != 1, a != -1), te.const(0, a.dtype), found)


def _modulo(a: te.Operand, b: te.Operand) -> te.Scalar:
    a, b = pair(a, b, "mod")
    if a.dtype in FLOATS:
        rest = te.fmod(a, b)
        return te.select(te.all(rest != 0, (rest < 0) != (b < 0)), rest + b, rest)
    if isinstance(b.expr, Const) and b.expr.value:
        return a % b
    size = te.maximum(te.abs(b), 1)  # a divisor that is data may be 0
    rest = a % size
    found = te.select(te.all(b < 0, rest != 0), rest + b, rest)
    if not a.dtype.startswith("int"):
        return found
    least = te.const(INTEGER_RANGE[a.dtype][0], a.dtype)  # its own absolute value
    by_least = te.select(a > 0, a + b, te.select(a == least, te.const(0, a.dtype), a))
    return te.select(b == least, by_least, found)


negative = unary("negative", operator.neg, "Return -x; integers wrap around.")
abs = unary("abs", te.abs, "Return the absolute value.")
sign = unary("sign", te.sign, "Return -1, 0 or 1 in the dtype of x; NaN stays NaN.")
square = unary("square", lambda x: x * x, "Return x * x.")
reciprocal = unary("reciprocal", lambda x: 1 / x, "Return 1 / x of floats.")
exp = unary("exp", te.exp, "Return e to the power of x, of floats.")
log = unary("log", te.log, "Return the natural logarithm of floats.")
log1p = unary("log1p", te.log1p, "Return log(1 + x) of floats.")
sqrt = unary("sqrt", te.sqrt, "Return the square root of floats.")
rsqrt = unary("rsqrt", te.rsqrt, "Return 1 / sqrt(x) of floats.")
tanh = unary("tanh", te.tanh, "Return the hyperbolic tangent of floats.")
erf = unary("erf", te.erf, "Return the error function of floats.")
floor = unary("floor", te.floor, "Return the largest whole number not above x, of floats.")
ceil = unary("ceil", te.ceil, "Return the smallest whole number not below x, of floats.")
round = unary("round", te.round, "Return the nearest whole number, of two the even one, of floats.")
trunc = unary("trunc", te.trunc, "Return the whole number next to x towards zero, of floats.")
sin = unary("sin", te.sin, "Return the sine of angles in radians, floats.")
cos = unary("cos", te.cos, "Return the cosine of angles in radians, floats.")
atan = unary("atan", te.atan, "Return the angle in [-pi / 2, pi / 2] whose tangent is x.")
isnan = unary("isnan", lambda x: x != x, "Return True for NaN, as bool.")
logical_not = unary("logical_not", operator.invert, "Return True for False, of bool tensors.")

add = _binary("add", operator.add, "Return a + b.")
subtract = _binary("subtract", operator.sub, "Return a - b.")
multiply = _binary("multiply", operator.mul, "Return a * b.")
divide = _binary("divide", operator.truediv, "Return a / b of floats.")
floor_divide = _binary("floor_divide", operator.floordiv, "Return the floor of a / b, of integers.")
mod = _binary("mod", _modulo, "Return a - floor(a / b) * b, of the sign of b.")
power = _binary(
    "power", _power, "Return a to the power of b in the dtype of a; the dtype of b may differ."
)
maximum = _binary("maximum", te.maximum, "Return the larger element.")
minimum = _binary("minimum", te.minimum, "Return the smaller element.")
truncate_divide = _binary(
    "truncate_divide", _quotient, "Return a / b of integers, rounded towards zero; a by 0 is a."
)
truncate_mod = _binary(
    "truncate_mod", _remainder, "Return a - trunc(a / b) * b, of the sign of a, as C's fmod."
)
equal = _binary("equal", operator.eq, "Return a == b as bool.")
not_equal = _binary("not_equal", operator.ne, "Return a != b as bool.")
less = _binary("less", operator.lt, "Return a < b as bool.")
less_equal = _binary("less_equal", operator.le, "Return a <= b as bool.")
greater = _binary("greater", operator.gt, "Return a > b as bool.")
greater_equal = _binary("greater_equal", operator.ge, "Return a >= b as bool.")
logical_and = _binary("logical_and", operator.and_, "Return a and b, of bool tensors.")
logical_or = _binary("logical_or", operator.or_, "Return a or b, of bool tensors.")
bitwise_and = _binary("bitwise_and", operator.and_, "Return a & b of integers.")
bitwise_or = _binary("bitwise_or", operator.or_, "Return a | b of integers.")
bitwise_xor = _binary("bitwise_xor", operator.xor, "Return a ^ b of integers.")
bitwise_not = unary("bitwise_not", operator.invert, "Return ~x of integers.")
left_shift = _binary("left_shift", operator.lshift, "Return a << b of integers; 0 for a wide b.")
right_shift = _binary(
    "right_shift", operator.rshift, "Return a >> b of integers, the sign kept; a wide b keeps that."
)
logical_xor = _binary("logical_xor", operator.ne, "Return True if a and b differ, of bool tensors.")


def isinf(
    data: Tensor, *, positive: bool = True, negative: bool = True, name: str = "isinf"
) -> Tensor:
    """Return True for the infinities of floats, of the signs that are asked for, as bool.

    Raises:
        SpecError: the dtype is not a float.
    """
    require_float(data, f"compute {name}")
    low, high = te.min_value(data.dtype), te.max_value(data.dtype)

    def body(x: te.Scalar) -> te.Scalar:
        above, below = x > high, x < low
        if positive and negative:
            return te.any(above, below)
        return above if positive else below if negative else te.all(above, below)

    return elementwise(body, data, name=name)


def cast(data: Tensor, dtype: str, *, name: str = "cast") -> Tensor:
    """Return `data` as `dtype`; a float becomes an integer by truncation towards zero.

    Raises:
        SpecError: the dtype is not supported.
    """
    return elementwise(lambda x: te.cast(x, dtype), data, name=name)


def clip(
    data: Tensor, low: float | None = None, high: float | None = None, *, name: str = "clip"
) -> Tensor:
    """Return min(max(data, low), high); a limit of None does not limit.

    Raises:
        SpecError: a limit is not a value of the dtype of `data`.
    """

    def body(x: te.Scalar) -> te.Scalar:
        x = x if low is None else te.maximum(x, low)
        return x if high is None else te.minimum(x, high)

    return elementwise(body, data, name=name)


def where(condition: Tensor, a: TensorOperand, b: TensorOperand, *, name: str = "where") -> Tensor:
    """Return `a` where `condition` (bool) holds, else `b`; all three are broadcast.

    Raises:
        SpecError: the condition is not bool, the shapes cannot be broadcast, or the dtypes differ.
    """
    return elementwise(te.select, condition, a, b, name=name)


def bias_add(
    data: Tensor,
    bias: Tensor,
    axis: int = 1,
    *,
    name: str = "bias_add",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return data + bias[index of `axis`]; `bias` is a vector as long as this axis.

    Raises:
        SpecError: `bias` has another shape or dtype, or there is no such axis.
    """
    action = f"add {bias.name} to {data.name} along axis {axis}"
    at = axis_of(axis, len(data.shape), action)
    require_length(bias, data.shape[at], action)
    return te.compute(data.shape, lambda *i: data[i] + bias[i[at]], name, axes=axes)
