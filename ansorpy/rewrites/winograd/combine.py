"""A matrix of known numbers times a vector of expressions, with the halves that rows share."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from ansorpy.expr.expr import Binary, Call, Const, Expr, Select
from ansorpy.rewrites.winograd.matrices import Matrix

Row = Sequence[Fraction]
ZERO: Final = Fraction(0)


def product(matrix: Matrix, terms: Sequence[Expr], dtype: str) -> tuple[Expr, ...]:
    """Return matrix @ terms, of float dtype `dtype`; zeros vanish, ones are not multiplied.

    Two neighbouring rows that differ in some signs only become E + O and E - O, two neighbouring
    terms with factors of one size become c * (x + y) or c * (x - y): equal parts are equal
    expressions, so that a code generator makes each of them once.
    """
    answer: list[Expr] = []
    rows = list(matrix)
    while rows:
        row, *rows = rows
        if rows and _mirrored(row, rows[0]):
            pairs = list(zip(row, rows.pop(0), strict=True))
            even, odd = (
                _sum([a if (a == b) is same else ZERO for a, b in pairs], terms, dtype)
                for same in (True, False)
            )
            answer += [Binary("add", even, odd), Binary("sub", even, odd)]
        else:
            answer.append(_sum(row, terms, dtype))
    return tuple(answer)


def chosen(index: Expr, options: Sequence[Expr]) -> Expr:
    """Return the option that `index` numbers."""
    *rest, answer = options
    for number, option in reversed(list(enumerate(rest))):
        answer = Select(Binary("eq", index, Const(number)), option, answer)
    return answer


def _mirrored(row: Row, other: Row) -> bool:
    """Return if two rows have equal sizes, some with equal and some with opposite signs."""
    pairs = [(a, b) for a, b in zip(row, other, strict=True) if a or b]
    return all(abs(a) == abs(b) for a, b in pairs) and len({a == b for a, b in pairs}) == 2


def _sum(row: Row, terms: Sequence[Expr], dtype: str) -> Expr:
    """Return the sum of factor * term, terms without a factor first."""
    parts: list[tuple[Fraction, Expr]] = []
    left = [(factor, term) for factor, term in zip(row, terms, strict=True) if factor]
    while left:
        factor, term = left.pop(0)
        if left and abs(left[0][0]) == abs(factor) != 1:
            other, more = left.pop(0)
            term = Binary("add" if other == factor else "sub", term, more)
        parts.append((factor, term))
    # A product that comes last is added by one instruction; a sum that begins positive needs no
    # negation.
    parts.sort(key=lambda part: (part[0] != 1, part[0] != -1, part[0] < 0))
    total: Expr | None = None
    for factor, term in parts:
        size = abs(factor) if total is not None else factor
        scaled = term if abs(size) == 1 else Binary("mul", Const(float(size), dtype), term)
        if total is not None:
            total = Binary("add" if factor > 0 else "sub", total, scaled)
        else:
            total = Call("neg", scaled) if size == -1 else scaled
    return Const(0.0, dtype) if total is None else total
