"""Bounds of index expressions, in exact Python integers, and the facts that conditions add.

`ranges` gives each variable its first and last value; a variable that is not in it may be any
int64. `facts` are bounds of linear forms, as `assume` makes them: within `0 <= h + kh - 1` the
form `h + kh` is known to be at least 1, although neither variable is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Final

from ansorpy.errors import SpecError
from ansorpy.expr.affine import Form, form
from ansorpy.expr.dtypes import FLOATS, INDEX, INTEGER_RANGE
from ansorpy.expr.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Var,
    reads,
)
from ansorpy.expr.interval_arithmetic import BINARY_INTERVALS, UNARY_INTERVALS, hull

Interval = tuple[int, int]  # first and last value, inclusive
Ranges = Mapping[str, Interval]

FACT_LIMIT: Final = 12  # conditions beyond this are not used: a proof stays cheap on any input
TRIED: Final = (6, 4)  # facts tried on a form, then on each of the remaining forms
NEGATED: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class Fact:
    """`low <= sum of coefficient * atom <= high`; the form has no constant, coefs are coprime."""

    form: Form
    low: int
    high: int
    boxes: Mapping[Expr, Interval]  # the bounds of its atoms, so that a proof does not recurse


Facts = tuple[Fact, ...]
NO_FACTS: Final[Facts] = ()


def bounds(expr: Expr, ranges: Ranges, facts: Facts = NO_FACTS) -> Interval:
    """Return the inclusive bounds of an integer or bool expression (False is 0, True is 1).

    Exact for affine expressions in which each variable occurs once, else a safe enclosure.

    Raises:
        SpecError: `expr` is a float.
    """
    if expr.dtype == INDEX:
        found = bounds_of_form(form(expr), ranges, facts)
        return INTEGER_RANGE[INDEX] if may_wrap(expr, ranges) else found
    return _of_atom(expr, ranges, facts)


def may_wrap(expr: Expr, ranges: Ranges) -> bool:
    """Return True if an int64 that depends on data may leave int64, and then wraps around.

    Arithmetic on axes never does: `te.check` has proved it. Nothing follows from a condition, nor
    for a min or max, of an operand that may wrap: its form is not the number that is computed.
    """
    if not reads(expr):
        return False
    low, high = bounds_of_form(form(expr), ranges)
    return low < INTEGER_RANGE[INDEX][0] or high > INTEGER_RANGE[INDEX][1]


def bounds_of_form(of: Form, ranges: Ranges, facts: Facts = NO_FACTS) -> Interval:
    """Return the inclusive bounds of a linear form."""
    boxes = {atom: _of_atom(atom, ranges, facts) for atom in of.terms}
    for fact in facts:
        boxes = {**fact.boxes, **boxes}
    return _search(of, boxes, facts, TRIED)


def _search(
    of: Form, boxes: Mapping[Expr, Interval], facts: Facts, tried: tuple[int, ...]
) -> Interval:
    """Bound a form by the boxes of its atoms, and by up to len(tried) facts put together."""
    low = high = of.const
    for atom, coef in of.terms.items():
        first, last = boxes[atom]
        low += coef * (first if coef > 0 else last)
        high += coef * (last if coef > 0 else first)
    if not tried or not of.terms:
        return low, high
    widest = low, high
    for known, times in _useful(of, facts)[: tried[0]]:
        rest = of.plus(known.form, -times)
        others = tuple(fact for fact in facts if fact is not known)
        first, last = _search(rest, boxes, others, tried[1:])
        low = max(low, first + times * (known.low if times > 0 else known.high))
        high = min(high, last + times * (known.high if times > 0 else known.low))
    # Facts that contradict each other mark code that never runs; it gets no better bounds.
    return (low, high) if low <= high else widest


def _useful(of: Form, facts: Facts) -> list[tuple[Fact, int]]:
    """Return the facts that cancel terms of the form, with the multiple; those that leave least.

    The whole form of a padded index is a fact: then nothing is left, and its bounds are exact.
    """
    useful: list[tuple[int, Fact, int]] = []
    for fact in facts:
        cancelled: dict[int, int] = {}
        for atom, coef in fact.form.terms.items():
            has = of.terms.get(atom, 0)
            if has and has % coef == 0:
                cancelled[has // coef] = cancelled.get(has // coef, 0) + 1
        if cancelled:
            times = max(cancelled, key=lambda ratio: (cancelled[ratio], -abs(ratio)))
            left = len(fact.form.terms) - 2 * cancelled[times]
            useful.append((left, fact, times))
    useful.sort(key=lambda one: one[0])  # stable: of equals, the outermost condition first
    return [(fact, times) for _, fact, times in useful]


def _of_atom(expr: Expr, ranges: Ranges, facts: Facts) -> Interval:
    match expr:
        case Const(value=value) if not isinstance(value, float):
            return int(value), int(value)
        case Var(name=name):
            return ranges.get(name, INTEGER_RANGE[INDEX])
        case Select(cond=cond, then=then, other=other):
            x = bounds(then, ranges, assume(cond, ranges, facts))
            y = bounds(other, ranges, assume(cond, ranges, facts, holds=False))
            return hull(x, y)
        case Binary():
            return _of_binary(expr, ranges, facts)
        case Cast(a=a) if a.dtype not in FLOATS:
            return _as_dtype(bounds(a, ranges, facts), expr)
        case Call(fn="neg" | "abs" | "not" as fn, a=a) if a.dtype not in FLOATS:
            return _as_dtype(UNARY_INTERVALS[fn](bounds(a, ranges, facts)), expr)
        case _:
            return _any_value(expr)


def _any_value(expr: Expr) -> Interval:
    dtype = expr.dtype
    if dtype not in INTEGER_RANGE:
        raise SpecError(f"bounds of {expr}: it is {dtype}, not an integer")
    return INTEGER_RANGE[dtype]


def _as_dtype(interval: Interval, expr: Expr) -> Interval:
    """Return the interval, or every value of the dtype of `expr` where it would wrap around."""
    first, last = _any_value(expr)
    if expr.dtype == INDEX or (first <= interval[0] and interval[1] <= last):
        return interval
    return first, last


def _of_binary(expr: Binary, ranges: Ranges, facts: Facts) -> Interval:
    if expr.op in COMPARISONS:
        return _of_comparison(expr, ranges, facts)
    if expr.dtype in FLOATS or expr.op not in BINARY_INTERVALS:
        return _any_value(expr)
    x, y = bounds(expr.a, ranges, facts), bounds(expr.b, ranges, facts)
    if expr.op in ("floordiv", "mod") and y[0] <= 0 <= y[1]:
        return _any_value(expr)
    return _as_dtype(BINARY_INTERVALS[expr.op](x, y), expr)


def _of_comparison(expr: Binary, ranges: Ranges, facts: Facts) -> Interval:
    if expr.a.dtype in FLOATS:
        return 0, 1
    if expr.a.dtype == INDEX and (may_wrap(expr.a, ranges) or may_wrap(expr.b, ranges)):
        return 0, 1
    if expr.a.dtype == INDEX:
        low, high = bounds_of_form(form(expr.a).plus(form(expr.b), -1), ranges, facts)
    else:
        x, y = bounds(expr.a, ranges, facts), bounds(expr.b, ranges, facts)
        low, high = BINARY_INTERVALS["sub"](x, y)
    always, never = {
        "lt": (high < 0, low >= 0),
        "le": (high <= 0, low > 0),
        "gt": (low > 0, high <= 0),
        "ge": (low >= 0, high < 0),
        "eq": (low == high == 0, low > 0 or high < 0),
        "ne": (low > 0 or high < 0, low == high == 0),
    }[expr.op]
    return int(always), int(not never)


def assume(cond: Expr, ranges: Ranges, facts: Facts = NO_FACTS, *, holds: bool = True) -> Facts:
    """Return `facts` and the facts that follow if `cond` is true (or false, with `holds=False`).

    Understood: comparisons of int64 expressions, conjunctions (negated: disjunctions), `not`.
    Anything else adds nothing, which is always safe.
    """
    match cond:
        case Call(fn="not", a=a):
            return assume(a, ranges, facts, holds=not holds)
        case Binary(op="and" | "or" as op, a=a, b=b):
            if (op == "and") is holds:
                return assume(b, ranges, assume(a, ranges, facts, holds=holds), holds=holds)
            # `not (a and b)` implies a fact only if one side is known.
            decided = (1, 1) if op == "and" else (0, 0)
            for known, open_side in ((a, b), (b, a)):
                if bounds(known, ranges, facts) == decided:
                    return assume(open_side, ranges, facts, holds=holds)
            return facts
        case Binary(op=op, a=a, b=b) if op in COMPARISONS and a.dtype == INDEX:
            if may_wrap(a, ranges) or may_wrap(b, ranges):
                return facts
            difference = form(a).plus(form(b), -1)
            return _compared(difference, op if holds else NEGATED[op], ranges, facts)
        case _:
            return facts


def _compared(difference: Form, op: str, ranges: Ranges, facts: Facts) -> Facts:
    """Add `difference op 0`."""
    low, high = bounds_of_form(difference, ranges)
    match op:
        case "lt":
            high = min(high, -1)
        case "le":
            high = min(high, 0)
        case "gt":
            low = max(low, 1)
        case "ge":
            low = max(low, 0)
        case "eq":
            low, high = max(low, 0), min(high, 0)
        case _:  # ne: says something at the ends of the interval only
            low, high = low + (low == 0), high - (high == 0)
    return _learn(difference, (low, high), ranges, facts)


def _learn(of: Form, within: Interval, ranges: Ranges, facts: Facts) -> Facts:
    low, high = within
    if not of.terms or low > high:
        return facts
    divisor = gcd(*of.terms.values())
    terms = {atom: coef // divisor for atom, coef in of.terms.items()}
    low, high = -((of.const - low) // divisor), (high - of.const) // divisor
    boxes = {atom: _of_atom(atom, ranges, NO_FACTS) for atom in terms}
    joined = _joined(facts, Fact(Form(0, terms), low, high, boxes))
    if len(joined) > FACT_LIMIT:
        return facts
    facts = joined
    atom, sign = next(iter(terms.items()))
    match atom:
        case Binary(op="floordiv", a=a, b=Const(value=size)) if len(terms) == 1 and size > 0:
            # low <= a // size <= high  says  size * low <= a < size * (high + 1)
            first, last = (low, high) if sign > 0 else (-high, -low)
            inner = int(size) * first, int(size) * (last + 1) - 1
            return _learn(form(a), inner, ranges, facts)
        case _:
            return facts


def _joined(facts: Facts, new: Fact) -> Facts:
    """Add a fact; of the same form, it narrows the one there is: a long chain of conditions on one
    axis (a concatenation) stays one fact. Facts that contradict each other stay apart.
    """
    for number, known in enumerate(facts):
        low, high = max(known.low, new.low), min(known.high, new.high)
        if known.form == new.form and low <= high:
            narrow = replace(known, low=low, high=high)
            return (*facts[:number], narrow, *facts[number + 1 :])
    return (*facts, new)
