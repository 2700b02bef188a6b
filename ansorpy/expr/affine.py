"""Affine forms: integer index expressions as a constant plus integer multiples of atoms.

    form(expr)             the form of any int64 expression
    linear(expr)           (constant, coefficient by variable), or None
    affine_in(expr, vars)  coefficients of some variables as expressions of the others

An *atom* is an expression that is no sum, no difference, no product by a constant and no
negation: a variable, a floor division, a modulo, a minimum, a product of two variables. Sums and
products are expanded, so that equal terms meet and cancel: `(i + 1) * T - i * T` is the form `T`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import Binary, Call, Const, Expr, Var, variables

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

    def bound(self, values: Mapping[str, int]) -> "Form | None":
        """Return the form with numbers for some variables, None unless it is linear then."""
        const, terms = self.const, dict[Expr, int]()
        for atom, coef in self.terms.items():
            left: Var | None = None
            factor: Expr | None = atom
            while factor is not None:
                rest = None
                if type(factor) is Binary and factor.op == "mul":  # a monomial: its last factor
                    rest, factor = factor.a, factor.b
                if type(factor) is not Var:
                    return None
                value = values.get(factor.name)
                if value is not None:
                    coef *= value
                elif left is None:
                    left = factor
                else:
                    return None
                factor = rest
            if left is None:
                const += coef
            else:
                terms[left] = terms.get(left, 0) + coef
        if 0 in terms.values():
            terms = {atom: coef for atom, coef in terms.items() if coef}
        return Form(const, terms)

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
    """Return the affine form of an int64 expression; a part that is not affine is an atom."""
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
    return _product_of(factors)


def _product_of(factors: Sequence[Expr]) -> Expr:
    if not factors:
        return Const(1)
    product = factors[0]
    for factor in factors[1:]:
        product = Binary("mul", product, factor)
    return product


def _factors(expr: Expr) -> list[Expr]:
    """Return the factors of a product, the right operand's factors last."""
    found: list[Expr] = []
    while type(expr) is Binary and expr.op == "mul":
        found += _factors(expr.b)[::-1]
        expr = expr.a
    found.append(expr)
    return found[::-1]


def linear(expr: Expr) -> tuple[int, dict[str, int]] | None:
    """Return (constant, coefficient by variable) of an affine expression; None if it is not."""
    affine = form(expr)
    coefs: dict[str, int] = {}
    for atom, coef in affine.terms.items():
        if not isinstance(atom, Var):
            return None
        coefs[atom.name] = coef
    return affine.const, coefs


@dataclass(frozen=True, slots=True)
class AffineIn:
    """The sum of `coefficient * variable`, of `factor * part`, and of terms without variables.

    Coefficients and factors mention none of the variables; a part is not affine in them.
    """

    coefficients: Mapping[str, Expr]
    rest: tuple[tuple[Expr, Expr], ...]


def affine_in(expr: Expr, names: frozenset[str]) -> AffineIn:
    """Return an int64 expression split by some of its variables, in their order in `expr`."""
    coefficients: dict[str, Form] = {}
    rest: list[tuple[Expr, Expr]] = []
    _split(form(expr), Form(1, {}), names, coefficients, rest)
    return AffineIn({name: of.expr() for name, of in coefficients.items()}, tuple(rest))


def _split(
    of: Form,
    times: Form,
    names: frozenset[str],
    coefficients: dict[str, Form],
    rest: list[tuple[Expr, Expr]],
) -> None:
    """Add the terms of `of * times` that move with `names` to the coefficients and the rest."""
    for atom, coef in of.terms.items():
        factors = _factors(atom)
        moving = [factor for factor in factors if not names.isdisjoint(variables(factor))]
        if not moving:
            continue
        still = _product_of([factor for factor in factors if factor not in moving])
        factor = _product(Binary("mul", times.expr(), still), times, form(still)).scaled(coef)
        if len(moving) > 1:
            rest.append((factor.expr(), _product_of(moving)))
        elif type(moving[0]) is Var:
            known = coefficients.get(moving[0].name, Form(0, {}))
            coefficients[moving[0].name] = known.plus(factor)
        elif moving[0] in form(moving[0]).terms:
            rest.append((factor.expr(), moving[0]))
        else:  # a sum that was too long to be multiplied out
            _split(form(moving[0]), factor, names, coefficients, rest)
