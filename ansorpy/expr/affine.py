"""Linear forms: integer index expressions as a constant plus integer multiples of atoms.

An *atom* is whatever is not a sum, a difference, a product by a constant or a negation: a
variable, a floor division, a modulo, a minimum, a product of two variables. Sums and products
are expanded, so that equal terms meet and cancel: `(i + 1) * T - i * T` is the form `T`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import Binary, Call, Const, Expr, Var

EXPAND_LIMIT: Final = 16  # terms; a larger product of two sums stays a product


@dataclass(frozen=True, slots=True)
class Form:
    """`const` plus the sum of `coefficient * atom`; no coefficient is 0."""

    const: int
    terms: Mapping[Expr, int]

    def plus(self, other: "Form", times: int = 1) -> "Form":
        """Return `self + times * other`."""
        terms = dict(self.terms)
        for atom, coef in other.terms.items():
            total = terms.get(atom, 0) + times * coef
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Form(self.const + times * other.const, terms)

    def scaled(self, factor: int) -> "Form":
        """Return `factor * self`."""
        if not factor:
            return Form(0, {})
        return Form(self.const * factor, {a: c * factor for a, c in self.terms.items()})

    def expr(self) -> Expr:
        """Return the form as an expression: terms in order, positive ones first, constant last."""
        ordered = sorted(self.terms.items(), key=lambda term: term[1] < 0)
        if not ordered:
            return Const(self.const)
        total: Expr | None = None
        for atom, coef in ordered:
            size = coef if total is None else abs(coef)
            term = atom if size == 1 else Binary("mul", atom, Const(size))
            total = term if total is None else Binary("add" if coef > 0 else "sub", total, term)
        assert total is not None
        if self.const > 0:
            return Binary("add", total, Const(self.const))
        return Binary("sub", total, Const(-self.const)) if self.const else total


def form(expr: Expr) -> Form:
    """Return the linear form of an int64 expression; what is not linear becomes an atom."""
    found: Form | None = getattr(expr, "known_form", None)
    if found is None:
        found = _collected(expr)
        if expr not in found.terms:  # an atom that kept its form would keep itself alive
            object.__setattr__(expr, "known_form", found)
    return found


def _collected(expr: Expr) -> Form:
    if expr.dtype != INDEX:
        return Form(0, {expr: 1})
    terms: dict[Expr, int] = {}
    const = _collect(expr, 1, terms)
    if 0 in terms.values():
        terms = {atom: coef for atom, coef in terms.items() if coef}
    return Form(const, terms)


def _collect(expr: Expr, times: int, terms: dict[Expr, int]) -> int:
    """Add `times * expr` to `terms` and return its constant part; all of it is int64."""
    if type(expr) is Const:
        return times * int(expr.value)
    if type(expr) is Binary:
        op, a, b = expr.op, expr.a, expr.b
        if op in ("add", "sub"):
            const = _collect(a, times, terms)  # first: terms keep the order of the text
            return const + _collect(b, times if op == "add" else -times, terms)
        if op == "mul":
            if type(b) is Const:
                return _collect(a, times * int(b.value), terms)
            found = _product(expr, form(a), form(b))
            for atom, coef in found.terms.items():
                terms[atom] = terms.get(atom, 0) + times * coef
            return times * found.const
    elif type(expr) is Call and expr.fn == "neg":
        return _collect(expr.a, -times, terms)
    terms[expr] = terms.get(expr, 0) + times
    return 0


def _product(expr: Expr, a: Form, b: Form) -> Form:
    if not a.terms or not b.terms:
        return b.scaled(a.const) if not a.terms else a.scaled(b.const)
    if (len(a.terms) + 1) * (len(b.terms) + 1) > EXPAND_LIMIT:
        return Form(0, {expr: 1})
    total = Form(a.const * b.const, {})
    total = total.plus(Form(0, a.terms), b.const).plus(Form(0, b.terms), a.const)
    for x, p in a.terms.items():
        for y, q in b.terms.items():
            total = total.plus(Form(0, {_monomial(x, y): p * q}))
    return total


def _monomial(x: Expr, y: Expr) -> Expr:
    """Return the product of two atoms with its factors in one order, so that equal ones meet."""
    factors = sorted((*_factors(x), *_factors(y)), key=str)
    product = factors[0]
    for factor in factors[1:]:
        product = Binary("mul", product, factor)
    return product


def _factors(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Binary(op="mul", a=a, b=b):
            return (*_factors(a), *_factors(b))
        case _:
            return (expr,)


def linear(expr: Expr) -> tuple[int, dict[str, int]] | None:
    """Return (constant, coefficient by variable) of an affine expression; None if it is not."""
    found = form(expr)
    coefs: dict[str, int] = {}
    for atom, coef in found.terms.items():
        if not isinstance(atom, Var):
            return None
        coefs[atom.name] = coef
    return found.const, coefs
