"""Random index expressions over three variables, and points to evaluate them at."""

from itertools import product

from hypothesis import strategies as st

from ansorpy.expr.expr import Binary, Call, Const, Expr, Select, Var

X, Y, Z = Var("i"), Var("j"), Var("k")
RANGES = {"i": (0, 9), "j": (0, 7), "k": (0, 2)}

LEAVES = st.sampled_from([X, Y, Z]) | st.integers(-12, 12).map(Const)


def grow(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pair = st.tuples(parts, parts)
    sizes = st.sampled_from([1, 2, 3, 4, 8]).map(Const)
    return (
        st.builds(Binary, st.sampled_from(["add", "sub", "mul", "min", "max"]), parts, parts)
        | st.builds(Binary, st.sampled_from(["floordiv", "mod"]), parts, sizes)
        | st.tuples(conditions(pair), pair).map(lambda t: Select(t[0], *t[1]))
    )


def conditions(pair: st.SearchStrategy[tuple[Expr, Expr]]) -> st.SearchStrategy[Expr]:
    one = st.tuples(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), pair).map(
        lambda t: Binary(t[0], *t[1])
    )
    return (
        one
        | st.builds(Binary, st.sampled_from(["and", "or"]), one, one)
        | st.builds(Call, st.just("not"), one)
    )


EXPRS = st.recursive(LEAVES, grow, max_leaves=12)
POINTS = [
    dict(zip("ijk", point, strict=True))
    for point in product(range(0, 10, 3), range(0, 8, 2), range(3))
]
