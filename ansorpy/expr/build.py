"""Small constructors for index expressions; constants fold at once."""

from collections.abc import Mapping

from ansorpy.expr.dtypes import FLOATS
from ansorpy.expr.expr import Binary, Const, Expr, Var

ZERO = Const(0)
ONE = Const(1)


def zero(dtype: str) -> Const:
    """Return 0 as a value of `dtype`; False for bool."""
    return Const(False if dtype == "bool" else 0.0 if dtype in FLOATS else 0, dtype)


def add(a: Expr, b: Expr) -> Expr:
    """Return a + b."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) + int(b.value))
    if a == ZERO or b == ZERO:
        return b if a == ZERO else a
    return Binary("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """Return a - b."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) - int(b.value))
    if a == b:
        return ZERO
    return a if b == ZERO else Binary("sub", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """Return a * b."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) * int(b.value))
    if ZERO in (a, b):
        return ZERO
    if a == ONE or b == ONE:
        return b if a == ONE else a
    return Binary("mul", a, b)


def ceildiv(a: Expr, b: Expr) -> Expr:
    """Return ceil(a / b)."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(-(-int(a.value) // int(b.value)))
    if b == ONE:
        return a
    return Binary("floordiv", sub(add(a, b), ONE), b)


def floordiv(a: Expr, b: Expr) -> Expr:
    """Return floor(a / b)."""
    return a if b == ONE else Binary("floordiv", a, b)


def mod(a: Expr, b: Expr) -> Expr:
    """Return a mod b, never negative for a positive b."""
    return ZERO if b == ONE else Binary("mod", a, b)


def least(a: Expr, b: Expr) -> Expr:
    """Return min(a, b)."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(min(int(a.value), int(b.value)))
    if a == b or (isinstance(a, Binary) and a.op == "min" and b in (a.a, a.b)):
        return a
    return Binary("min", a, b)


def greatest(a: Expr, b: Expr) -> Expr:
    """Return max(a, b)."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(max(int(a.value), int(b.value)))
    return a if a == b else Binary("max", a, b)


def product(names: tuple[str, ...], fixed: Mapping[str, int]) -> Expr:
    """Return the product of named sizes, those that are `fixed` as numbers; 1 for none."""
    answer: Expr = ONE
    for name in names:
        answer = mul(answer, Const(fixed[name]) if name in fixed else Var(name))
    return answer
