"""Functions of scalars and the reductions, under the names that people know from TVM.

Some names hide Python's own (sum, max, abs ...): import the package, `from ansorpy import te`.
"""

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import DTYPES, FLOATS, INDEX, INTEGER_RANGE, INTS, LARGEST, UNSIGNED
from ansorpy.expr.expr import Cast, Select, Var
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.te.scalar import Draft, Number, Operand, Scalar, binary, call, const, pair


@dataclass(frozen=True, eq=False, slots=True)
class ReduceAxis(Scalar):
    """An axis to reduce over; in expressions it is its int64 value."""

    name: str = ""
    extent: int = 1
    token: str = ""  # the variable until the node that uses the axis names it


Axes = ReduceAxis | Sequence[ReduceAxis]


@dataclass(frozen=True, eq=False, slots=True)
class Reduction:
    """A combiner over axes: the whole body of a `te.compute`, never a part of it."""

    combiner: str
    value: Scalar
    axes: tuple[ReduceAxis, ...]
    start: Scalar | None = None


@dataclass(frozen=True, eq=False, slots=True)
class ArgReduction:
    """argmax or argmin: a value and its index, two outputs; the first of equal values wins."""

    combiner: str
    value: Scalar
    index: Scalar
    axes: tuple[ReduceAxis, ...]
    sources: Mapping[str, Draft] = field(default_factory=dict)


def _function(fn: str) -> Callable[[Scalar], Scalar]:
    def apply(x: Scalar) -> Scalar:
        if not isinstance(x, Scalar):
            raise SpecError(f"te.{fn} of {x!r}: it wants a scalar expression (te.const(x, dtype))")
        return call(fn, x)

    apply.__name__, apply.__doc__ = fn, FUNCTIONS[fn].doc
    return apply


def _binary_function(fn: str) -> Callable[[Operand, Operand], Scalar]:
    def apply(a: Operand, b: Operand) -> Scalar:
        return binary(fn, a, b)

    apply.__name__, apply.__doc__ = fn, BINARY_FUNCTIONS[fn].doc
    return apply


abs = _function("abs")
floor, ceil, round, trunc = map(_function, ("floor", "ceil", "round", "trunc"))
exp, log, log1p, sqrt, rsqrt = map(_function, ("exp", "log", "log1p", "sqrt", "rsqrt"))
tanh, sigmoid, erf = map(_function, ("tanh", "sigmoid", "erf"))
pow, fmod = map(_binary_function, ("pow", "fmod"))
sin, cos, atan = map(_function, ("sin", "cos", "atan"))
tf32 = _function("tf32")


def sign(x: Scalar) -> Scalar:
    """Return -1, 0 or 1 in the dtype of x; NaN stays NaN."""
    one, zero = const(1, x.dtype), const(0, x.dtype)
    below = x if x.dtype in UNSIGNED else select(x < zero, -one, x)
    return select(x > zero, one, below)


def maximum(a: Operand, b: Operand) -> Scalar:
    """The larger of two scalars."""
    return binary("max", a, b)


def minimum(a: Operand, b: Operand) -> Scalar:
    """The smaller of two scalars."""
    return binary("min", a, b)


def clamped(value: Operand, low: int, high: int) -> Scalar:
    """The integer `value` as int64, at least `low` and at most `high`: an index from data.

    `T[te.clamped(ids[i], 0, rows - 1), j]` gathers rows of T: the clamp proves that the read is
    in range for any elements of `ids`.

    Raises:
        SpecError: `value` is no integer, or `low` is above `high`.
    """
    if isinstance(value, Scalar) and value.dtype not in INTS:
        raise SpecError(f"te.clamped of {value.dtype}: it wants an integer (use te.cast)")
    if low > high:
        raise SpecError(f"te.clamped: low {low} is above high {high}")
    return minimum(maximum(cast(value, INDEX), low), high)


def all(*conditions: Scalar) -> Scalar:
    """True if every condition holds; evaluation ends at the first condition that fails."""
    return reduce(lambda a, b: binary("and", a, b), conditions)


def any(*conditions: Scalar) -> Scalar:
    """True if some condition holds; evaluation ends at the first condition that holds."""
    return reduce(lambda a, b: binary("or", a, b), conditions)


def select(cond: Scalar, a: Operand, b: Operand) -> Scalar:
    """`a` if `cond` holds, else `b`; the other branch is not read."""
    if cond.dtype != "bool":
        raise SpecError(f"te.select: the condition is {cond.dtype}, not bool")
    then, other = pair(a, b, "select")
    sources = {**cond.sources, **then.sources, **other.sources}
    return Scalar(Select(cond.expr, then.expr, other.expr), sources)


def cast(value: Operand, dtype: str) -> Scalar:
    """The value as `dtype`; float to integer truncates towards zero."""
    if dtype not in DTYPES:
        raise SpecError(f"te.cast: unknown dtype {dtype!r}, known: {', '.join(DTYPES)}")
    if not isinstance(value, Scalar):
        return const(value, dtype)
    return value if value.dtype == dtype else Scalar(Cast(dtype, value.expr), value.sources)


def min_value(dtype: str) -> Scalar:
    """The lowest finite value of a dtype: the start value of a maximum over padding."""
    return const(-LARGEST[dtype] if dtype in FLOATS else INTEGER_RANGE[dtype][0], dtype)


def max_value(dtype: str) -> Scalar:
    """The highest finite value of a dtype."""
    return const(LARGEST[dtype] if dtype in FLOATS else INTEGER_RANGE[dtype][1], dtype)


def sum(value: Scalar, axis: Axes, init: Scalar | Number | None = None) -> Reduction:
    """The sum over the reduce axes, onto `init` if it is given."""
    return _reduction("sum", value, axis, init)


def prod(value: Scalar, axis: Axes, init: Scalar | Number | None = None) -> Reduction:
    """The product over the reduce axes."""
    return _reduction("prod", value, axis, init)


def max(value: Scalar, axis: Axes, init: Scalar | Number | None = None) -> Reduction:
    """The largest value over the reduce axes (of two scalars: `te.maximum`)."""
    return _reduction("max", value, axis, init)


def min(value: Scalar, axis: Axes, init: Scalar | Number | None = None) -> Reduction:
    """The smallest value over the reduce axes (of two scalars: `te.minimum`)."""
    return _reduction("min", value, axis, init)


def argmax(value: Scalar, axis: Axes, index: Scalar | None = None) -> ArgReduction:
    """The largest value and its index: row-major over the axes, or `index` (must not fall)."""
    return _arg_reduction("argmax", value, axis, index)


def argmin(value: Scalar, axis: Axes, index: Scalar | None = None) -> ArgReduction:
    """The smallest value and its index: row-major over the axes, or `index` (must not fall)."""
    return _arg_reduction("argmin", value, axis, index)


def _reduction(combiner: str, value: Scalar, axis: Axes, init: Scalar | Number | None) -> Reduction:
    axes = _axes(combiner, value, axis)
    start = None if init is None else pair(value, init, f"te.{combiner}: init")[1]
    return Reduction(combiner, value, axes, start)


def _arg_reduction(combiner: str, value: Scalar, axis: Axes, index: Scalar | None) -> ArgReduction:
    axes = _axes(combiner, value, axis)
    if index is None:
        index = const(0, INDEX)
        for one in axes:
            # The value of the axis from 0, even where its range starts elsewhere.
            at = Scalar(Var(one.token))
            index = at if one is axes[0] else index * one.extent + at
    if index.dtype not in INTS:
        raise SpecError(f"te.{combiner}: the index is {index.dtype}, not an integer")
    return ArgReduction(combiner, value, index, axes)


def _axes(combiner: str, value: Scalar, axis: Axes) -> tuple[ReduceAxis, ...]:
    axes = (axis,) if isinstance(axis, ReduceAxis) else tuple(axis)
    if not isinstance(value, Scalar):
        raise SpecError(f"te.{combiner} of {value!r}: it wants a scalar expression")
    if not axes or not builtins.all(isinstance(one, ReduceAxis) for one in axes):
        raise SpecError(f"te.{combiner}: axis wants one or more te.reduce_axis")
    if len({one.token for one in axes}) < len(axes):
        raise SpecError(f"te.{combiner}: a reduce axis is given twice")
    if value.dtype == "bool":
        raise SpecError(f"te.{combiner} of bool: use te.cast")
    return axes
