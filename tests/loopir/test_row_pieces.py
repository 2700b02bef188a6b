"""Tails of a dim as written-out rows."""

import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Const, Expr, Var
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    LoopKind,
    Phase,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
)
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.loopir.row_pieces import EACH, MOST, in_pieces
from ansorpy.te.dims import Dim
from tests.loopir.build import read

N = Dim("N", 1, 15)
A = Buffer("A", "float32", (Const(15), Const(3)), Scope.INPUT)
C = Buffer("C", "float32", (Const(15),), Scope.OUTPUT)
SUM = Buffer("S", "float32", (Const(15),), Scope.LOCAL)


def rows(body: Stmt, kind: LoopKind = LoopKind.UNROLL) -> For:
    return For("i", N.var, body, kind)


def sums(target: str) -> Stmt:
    """Add the three columns of A, a column at a time, for all rows."""
    clean = rows(Store((target,), (Var("i"),), (Const(0.0, "float32"),)))
    added = rows(Store((target,), (Var("i"),), (read("A", Var("i"), Var("k")),), "sum"))
    return Seq((clean, For("k", Const(3), added)))


def scratch() -> Stmt:
    copied = rows(Store(("C",), (Var("i"),), (read("S", Var("i")),)), LoopKind.SERIAL)
    return Alloc(SUM, Seq((sums("S"), copied)))


def result(body: Stmt, size: int) -> list[float]:
    program = Program("f", (A, C), (Phase("f", body),), dims=(N,))
    given = np.arange(45, dtype=np.float32).reshape(15, 3)
    return list(run(program, {"A": given}, {N.var.name: size})["C"][:size])


@pytest.mark.parametrize("make", [lambda: sums("C"), scratch], ids=["in place", "in scratch"])
@pytest.mark.parametrize("most", [2, 3, 8, 16])
def test_every_size_is_a_sum_of_pieces(make: object, most: int) -> None:
    body = make()  # type: ignore[operator]
    pieces = in_pieces(body, N.var, most)
    assert pieces is not None
    for size in range(1, most):
        assert result(pieces, size) == result(body, size) == [9.0 * n + 3 for n in range(size)]
    extents = {stmt.extent for stmt in walk_stmt(pieces) if isinstance(stmt, For)}
    assert N.var not in extents
    longest = most - 1 if most <= EACH else most // 2
    assert max(int(e.value) for e in extents if isinstance(e, Const)) == max(3, longest)


def lanes() -> Stmt:
    clean = Store(("C",), (Var("i"),), (Const(0.0, "float32"),))
    return Seq((sums("C"), rows(clean, LoopKind.VECTOR)))


def sum_of_rows() -> Stmt:
    return rows(Store(("C",), (Const(0),), (read("A", Var("i"), Const(0)),), "sum"))


def two_axes() -> Stmt:
    index: Expr = Binary("add", Var("i"), Var("j"))
    return rows(For("j", N.var, Store(("C",), (index,), (Const(0.0, "float32"),))))


def read_beside() -> Stmt:
    copied = Store(("C",), (Var("j"),), (read("S", Var("j")),))
    whole = For("j", Binary("min", N.var, Const(15)), copied)
    return Alloc(SUM, Seq((sums("S"), whole)))


@pytest.mark.parametrize("make", [lanes, sum_of_rows, two_axes, read_beside])
def test_a_piece_that_is_not_right_alone_is_refused(make: object) -> None:
    assert in_pieces(make(), N.var, 8) is None  # type: ignore[operator]


def test_a_long_tail_stays_whole() -> None:
    assert in_pieces(sums("C"), N.var, MOST + 1) is None
