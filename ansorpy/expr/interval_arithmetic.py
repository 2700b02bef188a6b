"""Interval arithmetic: the bounds of an operation from the bounds of its operands, over numbers.

An interval is (first, last), both inclusive, of ints or of floats; the arithmetic is exact as far
as Python's arithmetic of the numbers is. Limits of dtypes are left to the caller.

Source: Moore, Kearfott and Cloud, Introduction to Interval Analysis (2009), chapter 2.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

N = TypeVar("N", int, float)


class UnaryTransfer(Protocol):
    """The interval of `fn(a)` from the interval of `a`."""

    def __call__(self, x: tuple[N, N], /) -> tuple[N, N]:
        """Return an interval that holds the result for every operand of `x`."""


class BinaryTransfer(Protocol):
    """The interval of `a op b` from the intervals of `a` and `b`."""

    def __call__(self, x: tuple[N, N], y: tuple[N, N], /) -> tuple[N, N]:
        """Return an interval that holds the result for every pair of operands."""


def hull(x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N]:
    """Return the smallest interval that holds both."""
    return min(x[0], y[0]), max(x[1], y[1])


def _neg(x: tuple[N, N]) -> tuple[N, N]:
    return -x[1], -x[0]


def _abs(x: tuple[N, N]) -> tuple[N, N]:
    return max(0, x[0], -x[1]), max(-x[0], x[1])


def _not(x: tuple[N, N]) -> tuple[N, N]:
    return 1 - x[1], 1 - x[0]


def _add(x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N]:
    return x[0] + y[0], x[1] + y[1]


def _sub(x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N]:
    return x[0] - y[1], x[1] - y[0]


def _min(x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N]:
    return min(x[0], y[0]), min(x[1], y[1])


def _max(x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N]:
    return max(x[0], y[0]), max(x[1], y[1])


def _corners(op: Callable[[Any, Any], Any]) -> BinaryTransfer:
    """Return the transfer function of an operation that is monotonic in each operand."""

    def apply(x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N]:
        values = [op(p, q) for p in x for q in y]
        return min(values), max(values)

    return apply


def _mod(x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N]:
    if y[0] == y[1] and x[0] // y[0] == x[1] // y[0]:
        return (x[0] % y[0], x[1] % y[0]) if y[0] > 0 else (min(0, y[0] + 1), 0)
    return min(0, y[0] + 1), max(0, y[1] - 1)


UNARY_INTERVALS: Final[Mapping[str, UnaryTransfer]] = {"neg": _neg, "abs": _abs, "not": _not}
# A divisor must not hold 0; `mod` is of integers; bool is 0 or 1.
BINARY_INTERVALS: Final[Mapping[str, BinaryTransfer]] = {
    "add": _add,
    "sub": _sub,
    "mul": _corners(operator.mul),
    "floordiv": _corners(operator.floordiv),
    "mod": _mod,
    "min": _min,
    "max": _max,
    "and": _min,
    "or": _max,
}
