"""Products, conjunctions and literal zeros, taken apart and put together."""

from collections.abc import Sequence

from ansorpy.expr.expr import Binary, Const, Expr, Read


def is_zero(expr: Expr) -> bool:
    """Return True if an expression is the literal 0."""
    return isinstance(expr, Const) and expr.value == 0


def factors(body: Expr) -> tuple[Expr, ...]:
    """Return the factors of a product; another expression is its only factor."""
    match body:
        case Binary(op="mul", a=a, b=b):
            return (*factors(a), *factors(b))
        case _:
            return (body,)


def with_factor(body: Expr, read: Read, by: Expr) -> Expr:
    """Return a product with one factor replaced."""
    match body:
        case Binary(op="mul", a=a, b=b):
            return Binary("mul", with_factor(a, read, by), with_factor(b, read, by))
        case _:
            return by if body == read else body


def conjuncts(cond: Expr) -> tuple[Expr, ...]:
    """Return the parts of a conjunction."""
    match cond:
        case Binary(op="and", a=a, b=b):
            return (*conjuncts(a), *conjuncts(b))
        case _:
            return (cond,)


def conjunction(parts: Sequence[Expr]) -> Expr:
    """Return the conjunction of at least one condition."""
    answer, *rest = parts
    for part in rest:
        answer = Binary("and", answer, part)
    return answer
