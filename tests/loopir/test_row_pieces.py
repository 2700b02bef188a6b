"""Tails of a dim as written-out rows."""

from collections.abc import Callable

import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Const, Var
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
from ansorpy.loopir.row_pieces import MOST, each_count
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


def lanes() -> Stmt:
    clean = Store(("C",), (Var("i"),), (Const(0.0, "float32"),))
    return Seq((rows(clean, LoopKind.VECTOR), sums("C")))


def read_beside() -> Stmt:
    copied = Store(("C",), (Var("j"),), (read("S", Var("j")),))
    whole = For("j", Binary("min", N.var, Const(15)), copied)
    return Alloc(SUM, Seq((sums("S"), whole)))


@pytest.mark.parametrize("make", [lambda: sums("C"), scratch, lanes, read_beside])
@pytest.mark.parametrize("most", [2, 3, 8, 16])
def test_every_count_has_code_of_its_own(make: Callable[[], Stmt], most: int) -> None:
    body = make()
    counted = each_count(body, N.var, most)
    assert counted is not None
    for size in range(1, most):
        assert result(counted, size) == result(body, size) == [9.0 * n + 3 for n in range(size)]
    extents = {stmt.extent for stmt in walk_stmt(counted) if isinstance(stmt, For)}
    assert N.var not in extents
    assert extents >= set(map(Const, range(1, most)))


def test_a_long_tail_stays_whole() -> None:
    assert each_count(sums("C"), N.var, MOST + 1) is None


def test_a_tail_along_lanes_alone_is_a_mask() -> None:
    clean = Store(("C",), (Var("i"),), (Const(0.0, "float32"),))
    assert each_count(rows(clean, LoopKind.VECTOR), N.var, 8) is None
