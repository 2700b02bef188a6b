"""Integer reasoning about index expressions: the one door to it.

    bounds(expr, ranges, facts)    smallest and largest value, inclusive
    assume(cond, ranges, facts)    the facts that a condition (or its negation) implies
    simplify(expr, ranges, facts)  an equal expression, as short as the ranges allow
    linear(expr)                   (constant, coefficient by variable), or None

`ranges` gives each variable its first and last value; `facts` come from `assume`.
"""

from ansorpy.expr.affine import Form, form, linear
from ansorpy.expr.bounds import (
    NO_FACTS,
    Fact,
    Facts,
    Interval,
    Ranges,
    assume,
    bounds,
    bounds_of_form,
)
from ansorpy.expr.simplify import simplify

__all__ = [
    "NO_FACTS",
    "Fact",
    "Facts",
    "Form",
    "Interval",
    "Ranges",
    "assume",
    "bounds",
    "bounds_of_form",
    "form",
    "linear",
    "simplify",
]
