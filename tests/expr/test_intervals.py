"""Bounds, facts and simplification, by table and against exhaustive evaluation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy.errors import SpecError
from ansorpy.expr.bounds import Facts
from ansorpy.expr.dtypes import INTEGER_RANGE
from ansorpy.expr.evaluate import evaluate
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.expr.intervals import Interval, assume, bounds, linear, simplify
from tests.expr.generate import EXPRS, POINTS, RANGES, X, Y, Z, conditions


def op(name: str, a: Expr | int, b: Expr | int) -> Expr:
    left, right = (x if not isinstance(x, int) else Const(x) for x in (a, b))
    return Binary(name, left, right)


def add(a: Expr | int, b: Expr | int) -> Expr:
    return op("add", a, b)


def mul(a: Expr | int, b: Expr | int) -> Expr:
    return op("mul", a, b)


def div(a: Expr | int, b: Expr | int) -> Expr:
    return op("floordiv", a, b)


def mod(a: Expr | int, b: Expr | int) -> Expr:
    return op("mod", a, b)


def sub(a: Expr | int, b: Expr | int) -> Expr:
    return op("sub", a, b)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (add(mul(X, 8), Y), (0, 79)),
        (sub(X, X), (0, 0)),
        (sub(add(X, Z), 1), (-1, 10)),
        (div(sub(X, 5), 2), (-3, 2)),
        (mod(add(X, 100), 200), (100, 109)),
        (mod(X, 4), (0, 3)),
        (op("min", X, 4), (0, 4)),
        (op("max", sub(X, 3), Y), (0, 7)),
        (op("lt", X, 10), (1, 1)),
        (op("lt", X, 9), (0, 1)),
        (op("eq", X, 11), (0, 0)),
        (Select(op("ge", X, 3), sub(X, 3), Const(0)), (0, 6)),
        (Call("not", op("lt", X, 10)), (0, 0)),
        (Cast("int32", X), (0, 9)),
        (Cast("int8", mul(X, 100)), INTEGER_RANGE["int8"]),
        (Cast("int64", Read("A", (X,), "uint8")), (0, 255)),
        (Var("unknown"), INTEGER_RANGE["int64"]),
    ],
    ids=str,
)
def test_the_bounds_of_an_expression_are_exact_on_examples(expr: Expr, expected: Interval) -> None:
    assert bounds(expr, RANGES) == expected


def test_bounds_of_a_float_are_refused() -> None:
    with pytest.raises(SpecError, match="not an integer"):
        bounds(Read("A", (X,), "float32"), RANGES)


def both(*conds: Expr) -> Expr:
    total = conds[0]
    for cond in conds[1:]:
        total = Binary("and", total, cond)
    return total


PADDED = sub(add(X, Z), 1)


@pytest.mark.parametrize(
    ("cond", "holds", "index", "expected"),
    [
        (both(op("ge", PADDED, 0), op("lt", PADDED, 10)), True, PADDED, (0, 9)),
        (both(op("le", 0, PADDED), op("le", PADDED, 9)), True, PADDED, (0, 9)),
        (both(op("ge", add(X, Z), 1), op("lt", add(Z, X), 11)), True, PADDED, (0, 9)),
        (Binary("or", op("lt", PADDED, 0), op("ge", PADDED, 10)), False, PADDED, (0, 9)),
        (op("lt", X, 5), True, X, (0, 4)),
        (op("lt", X, 5), False, sub(X, 5), (0, 4)),
        (op("eq", X, 0), False, sub(X, 1), (0, 8)),
        (op("ne", X, 9), True, add(X, 1), (1, 9)),
        (op("lt", add(X, Y), 5), True, X, (0, 4)),
        # transposed convolution: the stride divides the bounded expression
        (
            both(op("eq", mod(sub(X, Z), 2), 0), op("ge", sub(X, Z), 0), op("lt", sub(X, Z), 8)),
            True,
            div(sub(X, Z), 2),
            (0, 3),
        ),
        (op("lt", div(sub(X, Z), 2), 3), True, sub(X, Z), (-2, 5)),
        (both(op("ge", mul(X, 2), 4), op("lt", mul(X, 2), 9)), True, X, (2, 4)),
        # two facts at once: i < j and j < 4 bound i
        (both(op("lt", X, Y), op("lt", Y, 4)), True, X, (0, 2)),
        # a disjunction says nothing about either side
        (Binary("or", op("lt", X, 5), op("lt", Y, 5)), True, X, (0, 9)),
        # not (always and x)  is  not x
        (both(op("ge", X, 0), op("lt", X, 5)), False, X, (5, 9)),
    ],
)
def test_a_condition_narrows_bounds(
    cond: Expr, holds: bool, index: Expr, expected: Interval
) -> None:
    assert bounds(index, RANGES, assume(cond, RANGES, holds=holds)) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (add(X, 0), "i"),
        (mul(X, 1), "i"),
        (add(add(2, X), 3), "(i + 5)"),
        (sub(add(X, Y), X), "j"),
        (sub(mul(add(X, 1), Y), mul(X, Y)), "j"),
        (div(add(mul(X, 8), Y), 8), "i"),
        (mod(add(mul(X, 8), Y), 8), "j"),
        (div(add(mul(X, 8), Y), 16), "(i // 2)"),
        (mod(add(mul(X, 8), Y), 16), "(j + ((i % 2) * 8))"),
        (div(add(mul(X, 4), 2), 8), "(i // 2)"),
        (div(add(add(mul(X, 8), Y), 7), 8), "(i + ((j + 7) // 8))"),
        (div(div(X, 2), 3), "(i // 6)"),
        (mod(mod(X, 6), 3), "(i % 3)"),
        (add(mul(div(X, 4), 4), mod(X, 4)), "i"),
        (sub(X, mul(div(X, 4), 4)), "(i % 4)"),
        (add(mul(mod(div(X, 2), 3), 2), mod(X, 2)), "(i % 6)"),
        (add(mul(div(X, 6), 3), mod(div(X, 2), 3)), "(i // 2)"),
        (add(add(mul(div(X, 4), 4), mul(mod(div(X, 2), 2), 2)), mod(X, 2)), "i"),
        (div(X, 1), "i"),
        (mod(X, 1), "0"),
        (div(X, 10), "0"),
        (op("min", X, 9), "i"),
        (op("max", sub(X, 10), Y), "j"),
        (op("lt", X, 10), "True"),
        (both(op("lt", X, 10), op("lt", Y, 3)), "(j < 3)"),
        (Select(op("lt", X, 10), Y, Z), "j"),
        (Select(op("lt", X, 5), Select(op("lt", X, 7), Y, Z), Z), "(j if (i < 5) else k)"),
        (Read("A", (add(X, 0),), "float32"), "A[i]"),
    ],
    ids=str,
)
def test_an_expression_is_simplified(expr: Expr, expected: str) -> None:
    assert str(simplify(expr, RANGES)) == expected


def test_a_variable_with_one_value_becomes_that_value() -> None:
    assert simplify(add(X, Y), {"i": (3, 3), "j": (0, 4)}) == add(Y, 3)


def test_float_arithmetic_is_left_as_written() -> None:
    zero = Binary("add", Read("A", (), "float32"), Const(0.0, "float32"))
    assert simplify(zero, {}) == zero


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (add(mul(X, 3), sub(Y, 4)), (-4, {"i": 3, "j": 1})),
        (Call("neg", sub(X, Y)), (0, {"i": -1, "j": 1})),
        (Const(7), (7, {})),
        (div(X, 2), None),
        (mul(X, Y), None),
    ],
)
def test_the_linear_form_of_an_expression_is_found(
    expr: Expr, expected: tuple[int, dict[str, int]] | None
) -> None:
    assert linear(expr) == expected


@settings(max_examples=300)
@given(EXPRS)
def test_values_lie_within_bounds_and_survive_simplify(expr: Expr) -> None:
    low, high = bounds(expr, RANGES)
    short = simplify(expr, RANGES)
    for point in POINTS:
        value = evaluate(expr, point)
        assert low <= value <= high
        assert evaluate(short, point) == value


@settings(max_examples=300)
@given(conditions(st.tuples(EXPRS, EXPRS)), st.booleans(), EXPRS)
def test_narrowed_bounds_hold_if_the_condition_does(cond: Expr, holds: bool, expr: Expr) -> None:
    low, high = bounds(expr, RANGES, assume(cond, RANGES, holds=holds))
    for point in POINTS:
        if bool(evaluate(cond, point)) is holds:
            assert low <= evaluate(expr, point) <= high


def test_a_long_chain_of_conditions_on_one_axis_narrows_bounds() -> None:
    axis, ranges = Var("i"), {"i": (0, 999)}
    facts: Facts = ()
    for end in range(10, 900, 10):  # not within the first part, nor the second, ...
        facts = assume(op("lt", axis, end), ranges, facts, holds=False)
    facts = assume(op("lt", axis, 900), ranges, facts)
    assert bounds(axis, ranges, facts) == (890, 899)


def test_a_condition_that_contradicts_an_earlier_one_gives_no_empty_bounds() -> None:
    axis, ranges = Var("i"), {"i": (0, 9)}
    facts = assume(op("lt", axis, 3), ranges)
    low, high = bounds(axis, ranges, assume(op("ge", axis, 5), ranges, facts))
    assert low <= high


@settings(max_examples=100)
@given(
    st.lists(st.integers(2, 7), min_size=2, max_size=4).map(lambda radices: (radices, 1))
    | st.tuples(
        st.lists(st.sampled_from([3, 5, 7]), min_size=2, max_size=4), st.sampled_from([4, 8, 16])
    )
)
def test_the_digits_of_a_number_join_again(case: tuple[list[int], int]) -> None:
    radices, block = case  # extents of a window, and the number of unrolled ones
    number = add(mul(X, block), Y)
    total: Expr = Const(0)
    unit = 1
    for place, radix in enumerate(reversed(radices)):
        last = place == len(radices) - 1
        digit = div(number, unit) if last else mod(div(number, unit), radix)
        total, unit = add(total, mul(digit, unit)), unit * radix
    assert linear(simplify(total, {"i": (0, 99), "j": (0, block - 1)})) == linear(
        number if block > 1 else X
    )
