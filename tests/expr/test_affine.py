"""Affine forms against evaluation at random points."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy.expr.affine import affine_in, form
from ansorpy.expr.evaluate import evaluate
from ansorpy.expr.expr import Binary, Const, Expr, Var, variables
from tests.expr.generate import EXPRS

NAMES = ("i", "j", "k", "S", "T")
# Sums and products of loop variables and named sizes, now and then of a division or a minimum.
SYMBOLIC = st.recursive(
    st.sampled_from([Var(name) for name in NAMES]) | st.integers(-3, 5).map(Const) | EXPRS,
    lambda parts: st.builds(Binary, st.sampled_from(["add", "sub", "mul"]), parts, parts),
    max_leaves=10,
)


def points(seed: int) -> list[dict[str, int]]:
    rng = random.Random(seed)
    return [{name: rng.randint(-9, 9) for name in NAMES} for _ in range(5)]


@settings(max_examples=300)
@given(SYMBOLIC, st.integers())
def test_a_form_has_the_value_of_its_expression(expr: Expr, seed: int) -> None:
    found = form(expr)
    assert 0 not in found.terms.values()
    for point in points(seed):
        terms = sum(coef * evaluate(atom, point) for atom, coef in found.terms.items())
        assert found.const + terms == evaluate(expr, point) == evaluate(found.expr(), point)


@settings(max_examples=300)
@given(SYMBOLIC, st.sets(st.sampled_from(NAMES)), st.integers())
def test_a_bound_form_is_linear_in_the_other_variables(
    expr: Expr, names: set[str], seed: int
) -> None:
    for point in points(seed):
        found = form(expr).bound({name: point[name] for name in names})
        if found is None:
            continue
        left = {atom.name for atom in found.terms if isinstance(atom, Var)}
        assert len(left) == len(found.terms)
        assert left.isdisjoint(names)
        assert evaluate(found.expr(), point) == evaluate(expr, point)


def test_a_form_that_is_linear_once_sizes_are_known_is_bound() -> None:
    i, j, size, tile = map(Var, ("i", "j", "S", "T"))
    expr = Binary("mul", Binary("add", Binary("mul", i, tile), j), size)
    found = form(expr).bound({"S": 3, "T": 4})
    assert found is not None
    assert dict(found.terms) == {i: 12, j: 3}
    assert form(expr).bound({"S": 3}) is None


@settings(max_examples=300)
@given(SYMBOLIC, st.sets(st.sampled_from(NAMES)), st.integers())
def test_coefficients_and_rest_add_up_to_the_expression(
    expr: Expr, names: set[str], seed: int
) -> None:
    split = affine_in(expr, frozenset(names))
    assert all(names.isdisjoint(variables(each)) for each in split.coefficients.values())
    assert all(names.isdisjoint(variables(factor)) for factor, _ in split.rest)

    def moving(point: dict[str, int]) -> int:
        linear = sum(point[name] * evaluate(of, point) for name, of in split.coefficients.items())
        rest = sum(evaluate(by, point) * evaluate(part, point) for by, part in split.rest)
        return int(linear + rest)

    for point in points(seed):
        still = {**point, **dict.fromkeys(names, 0)}
        assert evaluate(expr, point) - evaluate(expr, still) == moving(point) - moving(still)


def test_a_sum_too_long_to_be_multiplied_out_has_coefficients_all_the_same() -> None:
    total: Expr = Const(1)
    for number in range(20):
        total = Binary("add", total, Binary("mul", Var("i"), Var(f"s{number}")))
    sizes = Binary("add", Var("S"), Var("T"))
    split = affine_in(Binary("mul", total, sizes), frozenset("i"))
    assert set(split.coefficients) == {"i"}
    assert not split.rest
