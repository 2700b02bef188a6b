"""Tiles of copies and maps, which are not kept in registers, are cut to a useful size."""

from math import prod

import numpy as np
import pytest

from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, LoopKind, Program, Scope, Tile
from ansorpy.loopir.passes.tile import tile
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.target import Target
from tests.loopir.build import add, buffer, c, program, read, store, v

WIDE = Target(vector_bits=512)


def transposed(rows: int, columns: int, combiner: str | None = None) -> Program:
    """Return B[j, i] = A[i, j] + A[i, j], or B[j, i] += ..., with all loops written out."""
    a = read("A", v("i"), v("j"))
    body = store("B", (v("j"), v("i")), add(a, a), combiner)
    lanes = For("j", c(columns), body, LoopKind.VECTOR)
    return program(
        (
            buffer("A", rows, columns, scope=Scope.INPUT),
            buffer("B", columns, rows, scope=Scope.OUTPUT),
        ),
        For("i", c(rows), lanes, LoopKind.UNROLL),
    )


def vectors(made: Program) -> list[int]:
    """Return how many vectors each tile of a program has."""
    found = [s for phase in made.phases for s in walk_stmt(phase.body) if isinstance(s, Tile)]
    return [prod(extent for _, extent in one.dims) for one in found]


@pytest.mark.parametrize(
    ("rows", "columns", "sizes"),
    [
        (14, 32, [28]),  # as large as the registers: as it is
        (14, 64, [14]),
        (4, 240, [12]),  # fifteen blocks: the largest even part that fits is three
        (40, 16, [40]),  # nothing to cut along the lanes: rows are transposed together
        (14, 50, [56]),  # its blocks are not even
    ],
)
def test_a_map_that_fills_no_registers_is_cut(rows: int, columns: int, sizes: list[int]) -> None:
    made = tile(transposed(rows, columns), WIDE)
    assert vectors(made) == sizes
    a = np.random.default_rng(0).random((rows, columns), np.float32)
    np.testing.assert_array_equal(run(made, {"A": a})["B"], (a + a).T)


def test_a_sum_keeps_its_tile() -> None:
    assert vectors(tile(transposed(14, 64, "sum"), WIDE)) == [56]


def copied(rows: int, columns: int) -> Program:
    """Return B[i, j] = A[i, j] + A[i, j], all written out."""
    a = read("A", v("i"), v("j"))
    lanes = For("j", c(columns), store("B", (v("i"), v("j")), add(a, a)), LoopKind.VECTOR)
    return program(
        (
            buffer("A", rows, columns, scope=Scope.INPUT),
            buffer("B", rows, columns, scope=Scope.OUTPUT),
        ),
        For("i", c(rows), lanes, LoopKind.UNROLL),
    )


@pytest.mark.parametrize(
    ("rows", "columns", "sizes"),
    [
        (14, 32, [28]),  # as large as the registers: as it is
        (64, 32, [2]),  # a row after the other
        (64, 100, [7]),
        (3, 2000, [4]),  # long rows in pieces
    ],
)
def test_contiguous_rows_are_copied_row_by_row(rows: int, columns: int, sizes: list[int]) -> None:
    made = tile(copied(rows, columns), WIDE)
    assert vectors(made) == sizes
    a = np.random.default_rng(0).random((rows, columns), np.float32)
    np.testing.assert_array_equal(run(made, {"A": a})["B"], a + a)


def test_long_rows_that_are_transposed_are_cut_once() -> None:
    made = tile(transposed(5, 2000), WIDE)
    assert vectors(made) == [15]
    a = np.random.default_rng(0).random((5, 2000), np.float32)
    np.testing.assert_array_equal(run(made, {"A": a})["B"], (a + a).T)
