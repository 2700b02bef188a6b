"""The loops of a window move into a tile if and only if rows of the tile share loads."""

import numpy as np
import pytest

from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, Program, Scope, Tile
from ansorpy.loopir.passes.reuse_window import reuse_window
from ansorpy.loopir.rewrite import walk_stmt
from tests.loopir.build import add, buffer, c, mul, program, read, store, v


def windowed(rows: int, lanes: int, window: tuple[int, int], stride: int = 1) -> Program:
    """Y[u, l] += X[stride * u + r, l + s] * W[r, s], summed over the window, tiled."""
    r, s = v("Y:r"), v("Y:s")
    product = mul(read("X", add(mul(v("u"), c(stride)), r), add(v("l"), s)), read("W", r, s))
    tile = Tile((("u", rows),), (("l", lanes),), store("Y", (v("u"), v("l")), product, "sum"))
    high, wide = window
    return program(
        (
            buffer("X", stride * rows + high, lanes + wide, scope=Scope.INPUT),
            buffer("W", high, wide, scope=Scope.INPUT),
            buffer("Y", rows, lanes, scope=Scope.OUTPUT),
        ),
        For("Y:r", c(high), For("Y:s", c(wide), tile)),
    )


def loops(made: Program) -> int:
    return sum(isinstance(s, For) for phase in made.phases for s in walk_stmt(phase.body))


@pytest.mark.parametrize(
    ("rows", "window", "stride", "left"),
    [
        (4, (3, 3), 1, 0),
        (4, (3, 1), 1, 0),
        (4, (5, 3), 2, 0),  # rows that are two apart share three of five
        (4, (2, 3), 2, 2),  # they share none
        (1, (3, 3), 1, 0),
        (60, (3, 3), 1, 2),  # 540 vectors are more than the budget
    ],
)
def test_overlapping_rows_are_loaded_as_one_window(
    rows: int, window: tuple[int, int], stride: int, left: int
) -> None:
    before = windowed(rows, 16, window, stride)
    after = reuse_window(before, {"Y": 512})
    assert loops(after) == left
    rng = np.random.default_rng(0)
    high, wide = window
    arrays = {
        "X": rng.random((stride * rows + high, 16 + wide), np.float32),
        "W": rng.random(window, np.float32),
    }
    np.testing.assert_array_equal(run(after, arrays)["Y"], run(before, arrays)["Y"])
