"""A tile that is transposed at its store becomes a loop over one square tile."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.loopir.hints import Hints
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, Program, Scope, Seq, Stmt, Store, Tile
from ansorpy.loopir.passes.transpose_blockwise import transpose_blockwise
from ansorpy.loopir.rewrite import walk_stmt
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store, v


def transposed(rows: int, columns: int, lanes: int = 16) -> Tile:
    """Return B[h, l, w] = A[h, w, l] + A[h, w, l], tiled."""
    a = read("A", v("h"), v("w"), v("l"))
    body = store("B", (v("h"), v("l"), v("w")), add(a, a))
    return Tile((("h", rows), ("w", columns)), (("l", lanes),), body)


def around(body: Stmt, rows: int, columns: int, lanes: int = 16) -> Program:
    return program(
        (
            buffer("A", rows, columns, lanes, scope=Scope.INPUT),
            buffer("B", rows, lanes, columns, scope=Scope.OUTPUT),
        ),
        body,
    )


def statements(made: Program, kind: type) -> list[Stmt]:
    return [s for phase in made.phases for s in walk_stmt(phase.body) if isinstance(s, kind)]


@pytest.mark.parametrize(
    ("rows", "columns", "lanes", "loops", "dims"),
    [
        (1, 56, 16, [1, 4], (16,)),
        (1, 48, 16, [1, 3], (16,)),
        (1, 17, 16, [1, 2], (16,)),  # all but one of the second square are stored twice
        (3, 16, 16, [3], (16,)),
        (3, 9, 16, [3], (9,)),  # no square is whole
        (2, 20, 8, [2, 3], (8,)),
        (2, 8, 16, [], (2, 8)),  # short
    ],
)
def test_transposes_become_loops_over_one_square(
    rows: int, columns: int, lanes: int, loops: list[int], dims: tuple[int, ...]
) -> None:
    before = around(transposed(rows, columns, lanes), rows, columns, lanes)
    after = transpose_blockwise(before)
    assert [s.extent for s in statements(after, For) if isinstance(s, For)] == list(map(c, loops))
    (tile,) = [s for s in statements(after, Tile) if isinstance(s, Tile)]
    assert tuple(n for _, n in tile.dims) == dims
    a = np.random.default_rng(0).random((rows, columns, lanes), np.float32)
    np.testing.assert_array_equal(run(after, {"A": a})["B"], run(before, {"A": a})["B"])


def changed(tile: Tile, **fields: object) -> Tile:
    return replace(tile, store=replace(tile.store, **fields))  # type: ignore[arg-type]


ACROSS = transposed(1, 56)
LYING: Store = store("B", (v("h"), v("w"), v("l")), read("A", v("h"), v("w"), v("l")))
STEPS: Store = store("B", (v("h"), v("l"), mul(v("w"), c(2))), read("A", v("h"), v("w"), v("l")))
OWN = add(read("B", v("h"), v("l"), v("w")), c(1))


@pytest.mark.parametrize(
    "tile",
    [
        pytest.param(changed(ACROSS, combiner="sum"), id="combines"),
        pytest.param(replace(ACROSS, mask=lt(v("w"), v("l"))), id="masked"),
        pytest.param(replace(ACROSS, hints=Hints(reload=True)), id="reload"),
        pytest.param(changed(ACROSS, values=(OWN,)), id="reads what it stores"),
        pytest.param(changed(ACROSS, index=(v("l"), v("w"))), id="the last of its rows stays"),
        pytest.param(replace(ACROSS, store=LYING), id="lanes lie along memory"),
        pytest.param(replace(ACROSS, store=STEPS), id="nothing lies along memory"),
        pytest.param(changed(ACROSS, values=(c(1),), index=()), id="a scalar"),
    ],
)
def test_tiles_without_a_transpose_stay(tile: Tile) -> None:
    before = around(tile, 1, 56)
    assert transpose_blockwise(before) == before


def test_points_of_a_register_tile_stay() -> None:
    held = buffer("A", 1, 56, 16, scope=Scope.REGISTER)
    before = around(Alloc(held, Seq((ACROSS,))), 1, 56)
    assert transpose_blockwise(before) == before
