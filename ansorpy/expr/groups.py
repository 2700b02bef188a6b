"""Conditions that hold for all of a group of neighbours, or for none."""

from collections.abc import Iterator

from ansorpy.expr.expr import Binary, Expr, variables
from ansorpy.expr.intervals import linear


def even(cond: Expr, name: str, wide: int) -> bool:
    """Return True if `cond` never differs within an aligned group of `wide` values of a variable.

    Handled: a comparison `a < b` of linear forms (`b` may be a min of some) in which the variable
    has factor 1, and every other term is a multiple of `wide`.
    """
    if name not in variables(cond):
        return True
    match cond:
        case Binary(op="lt", a=a, b=b):
            form = linear(a)
            if form is None or form[1].get(name) != 1:
                return False
            rest = {other: n for other, n in form[1].items() if other != name}
            return _multiples((form[0], rest), wide) and all(
                _multiples(linear(part), wide) for part in _least(b)
            )
        case _:
            return False


def _multiples(form: tuple[int, dict[str, int]] | None, of: int) -> bool:
    return form is not None and all(n % of == 0 for n in (form[0], *form[1].values()))


def _least(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Binary(op="min", a=a, b=b):
            yield from _least(a)
            yield from _least(b)
        case _:
            yield expr
