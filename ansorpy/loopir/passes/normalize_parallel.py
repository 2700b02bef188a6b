"""Normalise parallel loops: perfectly nested, with constant extents.

for i in 4 parallel: for j in min(3, 10 - 3 i) parallel: body
    ->  for i in 4 parallel: for j in 3 parallel: if j < min(3, 10 - 3 i): body

for i in 8192 parallel: body    ->  for t in 256 parallel: for i in 32: body, with 32 t + i for i
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Var
from ansorpy.expr.intervals import Interval, bounds
from ansorpy.loopir.nodes import For, If, LoopKind, Program, Stmt
from ansorpy.loopir.rewrite import map_phases, substitute_stmt

MOST: Final = 256  # tasks of a phase, if a divisor of its innermost loop allows it: each is a call


def normalize_parallel(program: Program, most: int = MOST) -> Program:
    """Return the program with perfectly nested parallel loops of constant extents.

    Needs        a bound program that is not peeled.
    Keeps        the meaning.
    After        the parallel loops of a phase are perfectly nested, their extents are Const, and
                 their iterations are at most `most` if a divisor of the innermost extent allows it.
    Not handled  more iterations than `most` in the outer loops, or of a prime innermost extent.
    """
    return map_phases(program, lambda body: _grouped(_tasks(body, program.ranges, None), 1, most))


def _tasks(stmt: Stmt, ranges: Mapping[str, Interval], guard: Expr | None) -> Stmt:
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.PARALLEL:
        return stmt if guard is None else If(guard, stmt)
    most = bounds(stmt.extent, ranges)[1]
    if not isinstance(stmt.extent, Const):
        test = Binary("lt", Var(stmt.var), stmt.extent)
        guard = test if guard is None else Binary("and", guard, test)
    inside = {**ranges, stmt.var: (0, most - 1)}
    return replace(stmt, extent=Const(most), body=_tasks(stmt.body, inside, guard))


def _grouped(stmt: Stmt, before: int, most: int) -> Stmt:
    """Cut the innermost parallel loop if there are too many iterations, `before` outside of it."""
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.PARALLEL:
        return stmt
    assert isinstance(stmt.extent, Const)
    count = int(stmt.extent.value)
    if isinstance(stmt.body, For) and stmt.body.kind is LoopKind.PARALLEL:
        return replace(stmt, body=_grouped(stmt.body, before * count, most))
    cuts = (d for d in range(2, count) if count % d == 0 and before * count // d <= most)
    part = next(cuts, 1) if before * count > most else 1
    if part == 1:
        return stmt
    outer = f"{stmt.var}.t"
    place = Binary("add", Binary("mul", Var(outer), Const(part)), Var(stmt.var))
    body = substitute_stmt(stmt.body, {stmt.var: place})
    inner = For(stmt.var, Const(part), body)
    return For(outer, Const(count // part), inner, LoopKind.PARALLEL)
