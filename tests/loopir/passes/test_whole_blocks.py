"""Blocks that lie within the output store registers without conditions."""

from typing import Final

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.expr.expr import Binary, Expr
from ansorpy.expr.intervals import linear
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, If, LoopKind, Program, Scope, Tile
from ansorpy.loopir.passes.whole_blocks import whole_blocks
from ansorpy.loopir.rewrite import seq, walk_stmt
from ansorpy.loopir.verify import check
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store, v

LANES: Final = 4
OWN: Final = 3
B, T, W = v("b"), v("t"), v("w")
AT: Final = add(add(mul(B, c(LANES * OWN)), mul(W, c(LANES))), T)


def copied(extent: int, mask: Expr | None) -> Program:
    """O[n] = A[n] by way of registers; blocks of threads, three elements each."""
    spans = (("w", OWN),), (("t", LANES),)
    load = Tile(*spans, store("R", (W, T), read("A", AT)), lt(AT, c(extent)))
    give = Tile(*spans, store("O", (AT,), read("R", W, T)), mask)
    held = buffer("R", OWN, LANES, scope=Scope.REGISTER)
    blocks = -(-extent // (LANES * OWN))
    return program(
        (buffer("A", extent, scope=Scope.INPUT), buffer("O", extent, scope=Scope.OUTPUT)),
        For("b", c(blocks), Alloc(held, seq(load, give)), LoopKind.PARALLEL),
    )


@given(extent=st.integers(1, 40))
def test_the_meaning_stays(extent: int) -> None:
    before = copied(extent, lt(AT, c(extent)))
    after = whole_blocks(before)
    check(after, level="tiled")
    given_values = {"A": np.random.default_rng(0).random(extent, np.float32)}
    np.testing.assert_array_equal(run(after, given_values, strict=True)["O"], given_values["A"])
    (split,) = [stmt for stmt in walk_stmt(after.phases[0].body) if isinstance(stmt, If)]
    assert isinstance(split.cond, Binary)
    assert linear(split.cond.a) == (LANES * OWN - 1, {"b": LANES * OWN})
    assert split.cond.b == c(extent)
    assert isinstance(split.then, Tile)
    assert split.then.mask is None
    assert isinstance(split.other, Tile)
    assert split.other.mask is not None


def test_other_stores_stay() -> None:
    plain = copied(24, None)
    assert whole_blocks(plain) == plain  # no condition; the load stores to registers
    uneven = copied(24, lt(AT, add(c(20), W)))
    assert whole_blocks(uneven) == uneven
