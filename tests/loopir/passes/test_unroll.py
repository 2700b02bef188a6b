"""The innermost reduction is written out within its budget, and where registers suffice."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.expr.expr import Binary
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, If, Phase, Program, Scope, Stmt, Tile
from ansorpy.loopir.passes.unroll import unroll
from ansorpy.loopir.rewrite import in_order, seq, walk_stmt
from ansorpy.te.dims import Dim
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store, v

LANES = 16


def product(rows: int, vectors: int, depth: int) -> Program:
    """C[u, v, l] += A[u, k] * B[k, v, l], summed over k, one register tile."""
    k, place = v("C:k"), (v("u"), v("v"), v("l"))
    terms = mul(read("A", v("u"), k), read("B", k, v("v"), v("l")))
    tile = Tile((("u", rows), ("v", vectors)), (("l", LANES),), store("C", place, terms, "sum"))
    return program(
        (
            buffer("A", rows, depth, scope=Scope.INPUT),
            buffer("B", depth, vectors, LANES, scope=Scope.INPUT),
            buffer("C", rows, vectors, LANES, scope=Scope.OUTPUT),
        ),
        For("C:k", c(depth), tile),
    )


def tiles(body: Stmt) -> int:
    return sum(isinstance(part, Tile) for part in walk_stmt(body))


def copies(made: Program) -> int:
    return sum(tiles(phase.body) for phase in made.phases)


@pytest.mark.parametrize(
    ("rows", "vectors", "budget", "written"),
    [
        (4, 2, 64, 6),  # 8 vectors: 6 is the largest divisor of 12 within 64
        (4, 2, 0, 1),
        (4, 2, 1000, 12),
        (8, 2, 512, 12),  # 16 sums, 8 elements, 2 vectors: they fit 32 registers
        (14, 2, 512, 1),  # 28, 14 and 2 do not
        (6, 4, 512, 1),
    ],
)
def test_a_reduction_is_written_out_within_budget_and_registers(
    rows: int, vectors: int, budget: int, written: int
) -> None:
    before = product(rows, vectors, 12)
    after = unroll(before, {"C": budget}, registers=32)
    assert copies(after) == written
    rng = np.random.default_rng(0)
    arrays = {
        "A": rng.random((rows, 12), np.float32),
        "B": rng.random((12, vectors, LANES), np.float32),
    }
    np.testing.assert_array_equal(run(after, arrays)["C"], run(before, arrays)["C"])


@pytest.mark.parametrize(
    ("rows", "vectors", "ordered"),
    [
        (4, 2, False),  # 8 sums and twice 6 operands fit into 32 registers
        (6, 2, False),  # 12 and twice 8 do as well
        (8, 2, True),  # 16 and twice 10 do not
        (14, 2, False),  # there is one copy
    ],
)
def test_copies_keep_their_order_if_two_of_them_exceed_the_registers(
    rows: int, vectors: int, ordered: bool
) -> None:
    after = unroll(product(rows, vectors, 12), {"C": 512}, registers=32)
    tiles = [s for phase in after.phases for s in walk_stmt(phase.body) if isinstance(s, Tile)]
    assert {each.hints.in_order for each in tiles} == {ordered}


@pytest.mark.parametrize(("window", "written"), [(3, 3), (16, 16), (17, 1)])
def test_a_short_loop_that_decides_a_mask_further_in_is_written_out(
    window: int, written: int
) -> None:
    # C[u, l] += A[u + r, k] * B[r, k, l] where u + r >= 2: known once r is.
    r, u, k, lane = v("C:r"), v("u"), v("C:k"), v("l")
    terms = mul(read("A", add(u, r), k), read("B", r, k, lane))
    mask = lt(c(1), add(u, r))
    tile = Tile((("u", 4),), (("l", LANES),), store("C", (u, lane), terms, "sum"), mask)
    before = program(
        (
            buffer("A", 3 + window, 5, scope=Scope.INPUT),
            buffer("B", window, 5, LANES, scope=Scope.INPUT),
            buffer("C", 4, LANES, scope=Scope.OUTPUT),
        ),
        For("C:r", c(window), For("C:k", c(5), tile)),
    )
    after = unroll(before, {"C": 0}, registers=32)
    tiles = [s for phase in after.phases for s in walk_stmt(phase.body) if isinstance(s, Tile)]
    assert len(tiles) == written
    assert sum(each.mask is not None for each in tiles) == (1 if written == 1 else 2)
    rng = np.random.default_rng(0)
    arrays = {
        "A": rng.random((3 + window, 5), np.float32),
        "B": rng.random((window, 5, LANES), np.float32),
    }
    np.testing.assert_array_equal(run(after, arrays)["C"], run(before, arrays)["C"])


def test_the_pieces_of_a_tail_share_the_budget() -> None:
    # 4 rows and pieces of 1 to 3 rows: a piece has 64 / 16 vectors, the whole tile 64.
    rows = Dim("N", 1, 4)
    whole = product(4, 2, 32)
    loops = [product(count, 2, 32).phases[0].body for count in (1, 2, 3)]
    pieces = [If(Binary("eq", rows.var, c(n)), loop) for n, loop in enumerate(loops, 1)]
    body = seq(
        *pieces,
        If(Binary("eq", v("x"), c(1)), product(1, 2, 32).phases[0].body),
        whole.phases[0].body,
    )
    before = replace(whole, phases=(Phase("f", body),), dims=(rows,))
    *tails, other, tile = in_order(unroll(before, {"C": 64}, registers=32).phases[0].body)
    assert [tiles(one) for one in (*tails, other, tile)] == [2, 1, 1, 32, 8]
