"""Rounding of floats: 16 bits are computed in float32, and a shared value is rounded once.

Sums, products, powers and functions of 16-bit floats are float32 numbers, rounded where the value
of a node is stored. A value that several stages compute for themselves is the same number in each.
"""

from typing import Final

from ansorpy.expr.dtypes import FLOATS, NARROW, WIDE
from ansorpy.expr.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    children,
    rebuild,
    transform,
)

ROUNDING: Final = ("sum", "prod")  # combiners whose partial results are wider than the result


def widened(expr: Expr) -> Expr:
    """Return an expression with its 16-bit floats computed in float32.

    Elements that are read are converted, literals are float32 numbers, and nothing in between is
    rounded to 16 bits except by a Cast to 16 bits.
    """
    match expr:
        case Const(value=value, dtype=dtype):
            return Const(value, WIDE) if dtype in NARROW else expr
        case Read():
            return Cast(WIDE, expr) if expr.dtype in NARROW else expr
        case Cast(dtype=dtype, a=a):
            inner = widened(a)
            if dtype in NARROW:
                return Cast(WIDE, Cast(dtype, inner))
            return inner if dtype == WIDE and a.dtype in NARROW else Cast(dtype, inner)
        case _:
            return rebuild(expr, tuple(map(widened, children(expr))))


def only_moves(expr: Expr) -> bool:
    """Return True if the value of a 16-bit expression is an element or a literal, or its negative.

    Such a value needs no rounding.
    """
    match expr:
        case Read() | Const():
            return True
        case Select(then=then, other=other):
            return only_moves(then) and only_moves(other)
        case Call(fn="neg" | "abs", a=a):
            return only_moves(a)
        case Binary(op="min" | "max", a=a, b=b):
            return only_moves(a) and only_moves(b)
        case _:
            return False


def determined(expr: Expr) -> Expr:
    """Return an expression whose value does not depend on the code around it.

    A product or quotient of floats is marked by a Cast to its own dtype: it is rounded before it
    is added to, never fused with the addition, and no inverse of the divisor is shared. A 16-bit
    value is rounded to 16 bits.
    """

    def mark(part: Expr) -> Expr | None:
        rounds = isinstance(part, Binary) and part.op in ("mul", "div") and part.dtype in FLOATS
        return Cast(part.dtype, part) if rounds else None

    if expr.dtype not in NARROW:
        return transform(expr, mark)
    return expr if only_moves(expr) else Cast(expr.dtype, transform(widened(expr), mark))
