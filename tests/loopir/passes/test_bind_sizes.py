"""Loops that run once are removed, also if only the ranges of outer loops prove it."""

from ansorpy.expr.expr import Binary, Expr
from ansorpy.loopir.nodes import For, If, LoopKind, Program, Scope, Stmt, Store
from ansorpy.loopir.passes.bind_sizes import bind_sizes, refold
from ansorpy.loopir.rewrite import walk_stmt
from tests.loopir.build import add, buffer, c, mul, program, store, v


def least(a: Expr, b: Expr) -> Expr:
    return Binary("min", a, b)


def left(whole: Expr, *taken: Expr) -> Expr:
    for part in taken:
        whole = Binary("sub", whole, part)
    return whole


def tiled(n: int, outer: int, inner: int) -> Program:
    """i over n in tiles of outer, within them in tiles of inner, tails cut off."""
    i0, i1, i2 = v("i0"), v("i1"), v("i2")
    rows = least(c(outer), left(c(n), mul(i0, c(outer))))
    tiles = Binary("floordiv", add(rows, c(inner - 1)), c(inner))
    last = least(c(inner), left(rows, mul(i1, c(inner))))
    at = add(add(mul(i0, c(outer)), mul(i1, c(inner))), i2)
    body: Stmt = For("i2", last, store("Y", (at,), c(1)))
    whole = For("i0", c(-(-n // outer)), For("i1", tiles, body))
    return program((buffer("Y", n, scope=Scope.OUTPUT),), whole)


def variables(made: Program) -> list[str]:
    return [s.var for phase in made.phases for s in walk_stmt(phase.body) if isinstance(s, For)]


def test_a_loop_over_one_row_is_gone_though_the_tile_around_it_is_cut_off() -> None:
    # 56 rows in tiles of 16: the last has 8, and every inner tile is one row.
    assert variables(bind_sizes(tiled(56, 16, 1), {})) == ["i0", "i1"]
    assert variables(bind_sizes(tiled(56, 16, 2), {})) == ["i0", "i1", "i2"]
    assert variables(bind_sizes(tiled(55, 16, 3), {})) == ["i0", "i1", "i2"]


def test_lanes_that_facts_leave_one_element_become_a_condition() -> None:
    rest = left(v("N"), mul(v("i"), c(2)))
    lanes = For("l", rest, store("Y", (add(mul(v("i"), c(2)), v("l")),), c(1)), LoopKind.VECTOR)
    chosen = If(Binary("ge", rest, c(2)), store("Y", (v("i"),), c(0)), lanes)
    folded = refold(chosen, {"N": (1, 9), "i": (0, 4)}, frozenset({"N", "l"}))
    assert isinstance(folded, If)
    match folded.other:
        case If(cond=Binary(op="gt"), then=Store(index=(index,))):
            assert index == mul(v("i"), c(2))
        case other:
            raise AssertionError(other)
