"""Integer exactness: on small integers many Dags are exact, and kernels must be bit-equal.

An error bound of k * eps lets a dropped last term pass once k is large; equality does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, prod
from typing import Final

import numpy as np

from ansorpy.expr.dtypes import EXACT_BELOW, FLOATS, INDEX, UNSIGNED, computed
from ansorpy.expr.expr import (
    COMPARISONS,
    LOGICAL,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
)
from ansorpy.expr.functions import FUNCTIONS
from ansorpy.expr.interval_arithmetic import BINARY_INTERVALS, UNARY_INTERVALS, hull
from ansorpy.te.dag import Compute, ConstantTensor, Dag
from ansorpy.te.tensor_data import constant_array

MAGNITUDES: Final = (8, 4, 2, 1)  # magnitudes of integer inputs; the largest exact one is used


class _InexactError(Exception):
    """The value may be rounded."""


@dataclass(frozen=True, slots=True)
class _Range:
    """Values known to be exact, from `low` to `high`; `integral`: integers, fit for arithmetic."""

    low: float
    high: float
    integral: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))


_BOOL: Final = _Range(0, 1)
_Known = Mapping[str, tuple[_Range, ...]]


def exact_on_integers(dag: Dag, magnitude: int = 1) -> bool:
    """Return whether every value is an exact integer if inputs are integers up to `magnitude`.

    Unsigned inputs are not negative, bool ones are 0 or 1.
    """
    known: dict[str, tuple[_Range, ...]] = {}
    try:
        for node in dag.nodes:
            if isinstance(node, Compute):
                known[node.name] = _node(node, known)
            elif isinstance(node, ConstantTensor):
                known[node.name] = (_constant(node),)
            else:
                known[node.name] = (input_range(node.dtype, magnitude),)
    except _InexactError:
        return False
    return True


def exact_magnitude(dag: Dag) -> int:
    """Return the largest of MAGNITUDES on which the Dag is exact; 0 if there is none."""
    return next((m for m in MAGNITUDES if exact_on_integers(dag, m)), 0)


def input_range(dtype: str, magnitude: int) -> _Range:
    """Return the range of the integer inputs of one dtype."""
    if dtype == "bool":
        return _BOOL
    return _Range(0 if dtype in UNSIGNED else -magnitude, magnitude)


def _constant(node: ConstantTensor) -> _Range:
    values = constant_array(node)
    if not values.size:
        return _Range(0, 0)
    integral = bool(np.all(values == np.trunc(values)))
    return _Range(float(values.min()), float(values.max()), integral)


def _node(node: Compute, known: _Known) -> tuple[_Range, ...]:
    axes = {a.name: _Range(0, a.extent - 1) for a in (*node.axes, *node.reduce_axes)}
    parts = tuple(_value(body, axes, known) for body in node.body)
    count = prod(axis.extent for axis in node.reduce_axes)
    match node.combiner:
        case "sum":
            start = _Range(0, 0) if node.start is None else _value(node.start, axes, known)
            for part in (start, parts[0]):
                _need(part, node.body[0].dtype)
            size = parts[0].size * count + start.size
            negative = parts[0].low < 0 or start.low < 0
            parts = (_held(_Range(-size if negative else 0, size), computed(node.dtype)),)
        case "prod":
            _need(parts[0], node.body[0].dtype)
            if parts[0].size > 1 and count > 64:
                raise _InexactError
            parts = (_held(_around(parts[0].size ** count), computed(node.dtype)),)
            if node.start is not None:
                raise _InexactError
        case "max" | "min" if node.start is not None:
            parts = (_hull(parts[0], _value(node.start, axes, known)),)
        case _:
            pass
    return tuple(_cast(part, dtype) for part, dtype in zip(parts, node.dtypes, strict=True))


def _value(expr: Expr, axes: Mapping[str, _Range], known: _Known) -> _Range:
    match expr:
        case Const(value=value, dtype=dtype):
            return _literal(float(value), dtype)
        case Var(name=name):
            return axes[name]
        case Read(tensor=tensor, output=output, indices=indices):
            for index in indices:
                _value(index, axes, known)
            return known[tensor][output]
        case Select(cond=cond, then=then, other=other):
            _value(cond, axes, known)
            return _hull(_value(then, axes, known), _value(other, axes, known))
        case Cast(dtype=dtype, a=a):
            return _cast(_value(a, axes, known), dtype)
        case Call(fn=fn, a=a):
            return _call(fn, _value(a, axes, known))
        case Binary(op=op, a=a, b=b):
            dtype = computed(a.dtype)
            return _binary(op, _value(a, axes, known), _value(b, axes, known), dtype)


def _literal(value: float, dtype: str) -> _Range:
    if dtype in FLOATS and isfinite(value):
        with np.errstate(over="ignore"):
            if float(np.dtype(computed(dtype)).type(value)) != value:
                raise _InexactError
    integral = isfinite(value) and value == int(value) and abs(value) < EXACT_BELOW[computed(dtype)]
    return _Range(value, value, integral)


def _call(fn: str, a: _Range) -> _Range:
    match fn:
        case "neg" | "abs":
            return _Range(*UNARY_INTERVALS[fn](a.ends), a.integral)
        case "not":
            return _BOOL
        case _ if a.integral and (FUNCTIONS[fn].whole or a.size <= FUNCTIONS[fn].keeps):
            return a
        case _:
            raise _InexactError


def _binary(op: str, a: _Range, b: _Range, dtype: str) -> _Range:
    if op in COMPARISONS or op in LOGICAL:
        return _BOOL
    if op in ("min", "max"):
        return _Range(*BINARY_INTERVALS[op](a.ends, b.ends), a.integral and b.integral)
    _need(a, dtype)
    _need(b, dtype)
    match op:
        case "add" | "sub":
            # Sums may be done in any order: add the sizes, since terms may cancel later.
            _held(_around(a.size + b.size), dtype)
            return _Range(*BINARY_INTERVALS[op](a.ends, b.ends))
        case "mul":
            return _held(_Range(*BINARY_INTERVALS[op](a.ends, b.ends)), dtype)
        case "floordiv" | "mod" if dtype not in FLOATS and (b.low > 0 or b.high < 0):
            return _Range(*BINARY_INTERVALS[op](a.ends, b.ends))
        case _:
            raise _InexactError


def _cast(a: _Range, dtype: str) -> _Range:
    if dtype == "bool":
        return _BOOL
    if not a.integral and dtype in FLOATS:
        return a  # a literal such as -inf: kept as it is
    return _held(a, dtype)


def _hull(a: _Range, b: _Range) -> _Range:
    return _Range(*hull(a.ends, b.ends), a.integral and b.integral)


def _around(size: float) -> _Range:
    return _Range(-size, size)


def _need(a: _Range, dtype: str) -> None:
    if not a.integral:
        raise _InexactError
    if dtype != INDEX:
        _held(a, computed(dtype))


def _held(a: _Range, dtype: str) -> _Range:
    if not a.integral or a.size >= EXACT_BELOW[dtype] or (dtype in UNSIGNED and a.low < 0):
        raise _InexactError
    return a
