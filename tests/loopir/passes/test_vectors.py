"""A thread moves 16 bytes at once where groups of neighbours are aligned."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.expr.expr import Binary, Expr
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, LoopKind, Program, Scope, Tile
from ansorpy.loopir.passes.vectors import group_dim, vectors
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.loopir.verify import check
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store, v

LANES: Final = 4
B, T, W = v("b"), v("t"), v("w")


def moved(
    row: int, own: int = 4, edge: int | None = None, first: int = 0, dtype: str = "float32"
) -> Program:
    """O[b, n] = A[b, n]: threads move `own` neighbours each; columns from `edge` on are left."""
    at: Expr = add(add(mul(T, c(own)), W), c(first))
    mask = None if edge is None else lt(at, c(edge))
    value = read("A", B, at, dtype=dtype)
    tile = Tile((("w", own),), (("t", LANES),), store("O", (B, at), value), mask)
    buffers = [
        replace(buffer(name, 2, row, scope=scope), dtype=dtype)
        for name, scope in (("A", Scope.INPUT), ("O", Scope.OUTPUT))
    ]
    return program(tuple(buffers), For("b", c(2), tile, LoopKind.PARALLEL))


def tile_of(made: Program) -> Tile:
    """Return the one tile."""
    (tile,) = [stmt for stmt in walk_stmt(made.phases[0].body) if isinstance(stmt, Tile)]
    return tile


@pytest.mark.parametrize(
    ("made", "width"),
    [
        (moved(16), 4),
        (moved(20), 4),
        (moved(18), 1),  # the second row is not aligned
        (moved(32, own=8), 4),
        (moved(12, own=3), 1),
        (moved(20, first=4), 4),
        (moved(20, first=1), 1),
        (moved(16, dtype="float64"), 2),
        (moved(32, own=8, dtype="bfloat16"), 8),
    ],
)
def test_groups_are_aligned(made: Program, width: int) -> None:
    assert tile_of(vectors(made)).access_width == width


def test_a_group_has_one_condition() -> None:
    tile = tile_of(vectors(moved(16, edge=12)))
    assert tile.access_width == 4
    assert tile.mask is not None
    assert "w" not in str(tile.mask)


def test_a_condition_may_cut_a_group() -> None:
    before = moved(16, edge=13)
    assert tile_of(vectors(before)).mask == tile_of(before).mask


@given(row=st.integers(16, 24), edge=st.integers(1, 16))
def test_the_meaning_stays(row: int, edge: int) -> None:
    before = moved(row, edge=edge)
    after = vectors(before)
    check(after, level="tiled")
    arrays = {"A": np.random.default_rng(0).random((2, row), np.float32)}
    got = run(after, arrays)["O"]
    np.testing.assert_array_equal(got, run(before, arrays)["O"])
    np.testing.assert_array_equal(got[:, :edge], arrays["A"][:, :edge])


def test_a_stage_as_the_first_index_cuts_no_group() -> None:
    stage = Binary("mod", B, c(2))
    held = buffer("S", 2, 4, 16, scope=Scope.LOCAL)
    tile = replace(tile_of(moved(16)), access_width=4)
    assert group_dim(held, (stage, T, W), tile) == "w"
    assert group_dim(held, (stage, T, Binary("mod", W, c(4))), tile) == ""
