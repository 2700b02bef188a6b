"""Rows of scratch get the padding of the fewest waves of shared memory."""

from typing import Final

import numpy as np
import pytest

from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, LoopKind, Program, Scope, Tile
from ansorpy.loopir.passes.pad import pad
from ansorpy.loopir.rewrite import seq, walk_stmt
from ansorpy.loopir.verify import check
from tests.loopir.build import add, buffer, c, mul, program, read, store, v

ROOM: Final = 1 << 16  # bytes of shared memory
T, W = v("t"), v("w")


def columns(rows: int, row: int, wide: int = 1) -> Program:
    """Fill rows of scratch by neighbouring threads; load one element, or `wide`, of each row."""
    fill = Tile(
        (("r", rows),), (("u", row),), store("S", (v("r"), v("u")), read("A", v("r"), v("u")))
    )
    own = (("w", wide),) if wide > 1 else ()
    column = W if wide > 1 else c(1)
    index = (T, column) if wide > 1 else (T,)
    load = Tile(own, (("t", rows),), store("O", index, read("S", T, column)), access_width=wide)
    held = buffer("S", rows, row, scope=Scope.LOCAL)
    shape = (rows, wide) if wide > 1 else (rows,)
    return program(
        (buffer("A", rows, row, scope=Scope.INPUT), buffer("O", *shape, scope=Scope.OUTPUT)),
        For("b", c(1), Alloc(held, seq(fill, load)), LoopKind.SERIAL),
    )


def pitch(made: Program) -> int:
    """Return the elements from one row of scratch to the next."""
    (held,) = [stmt.buffer for stmt in walk_stmt(made.phases[0].body) if isinstance(stmt, Alloc)]
    return held.extents[-1]


@pytest.mark.parametrize(
    ("rows", "row", "wide", "expected"),
    [
        (32, 32, 1, 36),  # all rows begin in one bank; 4 of 32 begin together then
        (8, 32, 4, 36),  # 16 bytes of 8 rows: one wave
        (32, 4, 1, 4),  # more padding gains nothing
        (32, 6, 1, 6),  # rows are not aligned
    ],
)
def test_rows_have_the_padding_of_the_fewest_waves(
    rows: int, row: int, wide: int, expected: int
) -> None:
    before = columns(rows, row, wide)
    after = pad(before, ROOM)
    check(after, level="tiled")
    assert pitch(after) == expected
    given = {"A": np.random.default_rng(0).random((rows, row), np.float32)}
    np.testing.assert_array_equal(run(after, given)["O"], run(before, given)["O"])


def test_a_block_without_room_has_no_padding() -> None:
    assert pitch(pad(columns(32, 32), 4 * 32 * 36 - 1)) == 32


def test_registers_and_single_rows_stay() -> None:
    line = buffer("S", 32, scope=Scope.LOCAL)
    body = Tile((), (("t", 32),), store("S", (mul(T, c(1)),), read("A", add(T, c(0)))))
    made = program(
        (buffer("A", 32, scope=Scope.INPUT), buffer("O", 32, scope=Scope.OUTPUT)),
        For("b", c(1), Alloc(line, body)),
    )
    assert pad(made, ROOM) == made
