"""Peeling of tails: each branch is folded under its own condition."""

import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Expr
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, If, LoopKind, Program, Scope, Seq
from ansorpy.loopir.passes.peel import peel
from ansorpy.loopir.printer import text
from ansorpy.loopir.rewrite import walk_stmt
from tests.loopir.build import add, buffer, c, f32, mul, program, read, store, v

SIZE, TILE = 10, 4


def left() -> Expr:
    return add(c(SIZE), mul(c(-TILE), v("i")))


def tiled(kind: LoopKind) -> Program:
    """Write 2 A to C, unrolled, then A to D, under the guard of a whole tile, in tiles of 4."""
    extent = Binary("min", c(TILE), left())
    at = [add(mul(c(TILE), v("i")), v(name)) for name in ("u", "s")]
    first = store("C", (at[0],), mul(read("A", at[0]), f32(2.0)))
    second = store("D", (at[1],), read("A", at[1]))
    body = Seq((
        For("u", extent, first, LoopKind.UNROLL),
        If(Binary("ge", left(), c(TILE)), For("s", extent, second), For("s", extent, second)),
    ))  # fmt: skip
    return program(
        (
            buffer("A", SIZE, scope=Scope.INPUT),
            buffer("C", SIZE, scope=Scope.OUTPUT),
            buffer("D", SIZE, scope=Scope.OUTPUT),
        ),
        For("i", c(3), body, kind),
    )


@pytest.mark.parametrize("kind", [LoopKind.PARALLEL, LoopKind.SERIAL])
def test_a_branch_is_folded_under_its_condition(kind: LoopKind) -> None:
    before = tiled(kind)
    after = peel(before)
    inside = [s for phase in after.phases for s in walk_stmt(phase.body)]
    assert sum(isinstance(s, If) for s in inside) == (1 if kind is LoopKind.PARALLEL else 0)
    assert "min(" not in text(after)
    given = {"A": np.arange(SIZE, dtype=np.float32)}
    for name in ("C", "D"):
        np.testing.assert_array_equal(run(after, given)[name], run(before, given)[name])
