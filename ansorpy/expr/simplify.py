"""Shorten index expressions by linear forms and bounds."""

from math import gcd

from ansorpy.expr.affine import Form, form
from ansorpy.expr.bounds import (
    NO_FACTS,
    Facts,
    Ranges,
    assume,
    bounds,
    bounds_of_form,
    may_wrap,
)
from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    children,
    rebuild,
)


def simplify(expr: Expr, ranges: Ranges, facts: Facts = NO_FACTS) -> Expr:
    """Return an expression with the same value for every assignment within `ranges`.

    Folds constants and sums, divides `//` and `%` of linear forms where terms divide, decides
    min, max, comparisons and selects by bounds. Float arithmetic is left as it is written.
    """
    match expr:
        case Var(name=name) if name in ranges and ranges[name][0] == ranges[name][1]:
            return Const(ranges[name][0])
        case Const() | Var():
            return expr
        case Select():
            return _select(expr, ranges, facts)
        case _:
            parts = tuple([simplify(part, ranges, facts) for part in children(expr)])
            return _fold(rebuild(expr, parts), ranges, facts)


def _select(expr: Select, ranges: Ranges, facts: Facts) -> Expr:
    cond = simplify(expr.cond, ranges, facts)
    if isinstance(cond, Const):
        return simplify(expr.then if cond.value else expr.other, ranges, facts)
    then = simplify(expr.then, ranges, assume(cond, ranges, facts))
    other = simplify(expr.other, ranges, assume(cond, ranges, facts, holds=False))
    return then if then == other else Select(cond, then, other)


def _fold(expr: Expr, ranges: Ranges, facts: Facts) -> Expr:
    """Simplify the root of an expression whose parts are simple."""
    if isinstance(expr, Read):
        return expr
    dtype = expr.dtype
    if dtype == "bool":
        return _fold_bool(expr, ranges, facts)
    if dtype != INDEX:
        return expr
    if isinstance(expr, Cast):
        return expr.a if expr.a.dtype == INDEX else expr
    return _fold_index(expr, ranges, facts)


def _fold_bool(expr: Expr, ranges: Ranges, facts: Facts) -> Expr:
    match expr:
        case Cast():
            return expr
        case (
            Binary(op="and", a=Const(value=value), b=side)
            | Binary(op="and", a=side, b=Const(value=value))
        ):
            return side if value else Const(False, "bool")
        case (
            Binary(op="or", a=Const(value=value), b=side)
            | Binary(op="or", a=side, b=Const(value=value))
        ):
            return Const(True, "bool") if value else side
        case Call(fn="not", a=Call(fn="not", a=a)):
            return a
        case _:
            low, high = bounds(expr, ranges, facts)
            return Const(bool(low), "bool") if low == high else expr


def _fold_index(expr: Expr, ranges: Ranges, facts: Facts) -> Expr:
    match expr:
        case Binary(op="floordiv" | "mod", a=a) if may_wrap(a, ranges):
            return expr
        case Binary(op="floordiv", a=a, b=Const(value=size)) if size > 0:
            return _quotient(form(a), int(size), ranges, facts).expr()
        case Binary(op="mod", a=a, b=Const(value=size)) if size > 0:
            return _remainder(form(a), int(size), ranges, facts).expr()
        case Binary(op="min" | "max" as op, a=a, b=b):
            if may_wrap(a, ranges) or may_wrap(b, ranges):
                return expr
            low, high = bounds_of_form(form(a).plus(form(b), -1), ranges, facts)
            if high <= 0:
                return a if op == "min" else b
            if low >= 0:
                return b if op == "min" else a
            return expr
        case Binary() | Call():
            return _rejoin(form(expr), ranges, facts).expr()
        case _:
            return expr


def _quotient(of: Form, size: int, ranges: Ranges, facts: Facts) -> Form:
    """Return `of // size`: whole multiples leave, a remainder below a common divisor is dropped."""
    if size == 1:
        return of
    whole, part = _divide(of, size)
    for divisor in _divisors(part, size):
        coarse, fine = _divide(part, divisor)
        low, high = bounds_of_form(fine, ranges, facts)
        if low // divisor == high // divisor:
            above = coarse.plus(Form(low // divisor, {}))
            return whole.plus(_quotient(above, size // divisor, ranges, facts))
    match part.expr():
        case Binary(op="floordiv", a=a, b=Const(value=inner)) if inner > 0:
            return whole.plus(_quotient(form(a), int(inner) * size, ranges, facts))
        case rest:
            above = Form(0, {Binary("floordiv", rest, Const(size)): 1})
            return _rejoin(whole.plus(above), ranges, facts)


def _remainder(of: Form, size: int, ranges: Ranges, facts: Facts) -> Form:
    """Return `of % size`: whole multiples vanish, a remainder below a common divisor comes out."""
    if size == 1:
        return Form(0, {})
    part = _divide(of, size)[1]
    for divisor in _divisors(part, size):
        coarse, fine = _divide(part, divisor)
        low, high = bounds_of_form(fine, ranges, facts)
        if low // divisor == high // divisor:
            above = coarse.plus(Form(low // divisor, {}))
            fine = fine.plus(Form(-divisor * (low // divisor), {}))
            return fine.plus(_remainder(above, size // divisor, ranges, facts), divisor)
    match part.expr():
        case Binary(op="mod", a=a, b=Const(value=inner)) if inner > 0 and inner % size == 0:
            return _remainder(form(a), size, ranges, facts)
        case rest:
            return Form(0, {Binary("mod", rest, Const(size)): 1})


def _divide(of: Form, size: int) -> tuple[Form, Form]:
    """Split into (whole, part) with `of = size * whole + part`; part has the indivisible terms."""
    whole = {atom: coef // size for atom, coef in of.terms.items() if coef % size == 0}
    part = {atom: coef for atom, coef in of.terms.items() if coef % size}
    return Form(of.const // size, whole), Form(of.const % size, part)


def _divisors(of: Form, size: int) -> list[int]:
    """Return divisors of `size` that some coefficients share, largest first; `size` itself too."""
    return sorted({size, *(gcd(coef, size) for coef in of.terms.values())} - {1}, reverse=True)


def _rejoin(of: Form, ranges: Ranges, facts: Facts) -> Form:
    """Join the digits of a number again, and write `x - size * (x // size)` as x % size."""
    for atom, coef in of.terms.items():
        match atom:
            case Binary(op="floordiv", a=a, b=Const(value=size)) if coef % size == 0:
                rest = Binary("mod", a, Const(size))
                times = coef // int(size)
                if of.terms.get(rest) == times:
                    gone = Form(0, {atom: coef, rest: times})
                    return _rejoin(of.plus(gone, -1).plus(form(a), times), ranges, facts)
                inner = form(a)
                if inner.terms and all(
                    of.terms.get(x) == -times * c for x, c in inner.terms.items()
                ):
                    gone = Form(0, {atom: coef}).plus(inner, -times)
                    return _rejoin(of.plus(gone, -1).plus(Form(0, {rest: -times})), ranges, facts)
            case Binary(
                op="mod", a=Binary(op="floordiv", a=a, b=Const(value=low)) as x, b=Const(value=size)
            ) if low > 0 and size > 0:
                above = Binary("floordiv", a, Const(low * size))
                if of.terms.get(above) == coef * size:
                    gone = Form(0, {atom: coef, above: coef * int(size)})
                    return _rejoin(of.plus(gone, -1).plus(form(x), coef), ranges, facts)
                below = Binary("mod", a, Const(low))
                if of.terms.get(below, 0) * low == coef:
                    gone = Form(0, {atom: coef, below: coef // int(low)})
                    both = _remainder(form(a), int(low * size), ranges, facts)
                    of = of.plus(gone, -1).plus(both, coef // int(low))
                    return _rejoin(of, ranges, facts)
            case _:
                pass
    return of
