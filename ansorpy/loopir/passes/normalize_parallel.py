"""Normalise parallel loops: perfectly nested, with extents that a call knows.

for i in 4 parallel: for j in min(3, 10 - 3 i) parallel: body
    ->  for i in 4 parallel: for j in 3 parallel: if j < min(3, 10 - 3 i): body

for i in 8192 parallel: body    ->  for t in 256 parallel: for i in 32: body, with 32 t + i for i
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Var, variables
from ansorpy.expr.intervals import Interval, bounds
from ansorpy.loopir.nodes import For, If, LoopKind, Program, Stmt
from ansorpy.loopir.rewrite import map_phases, substitute_stmt

MOST: Final = 256  # tasks of a phase, if a divisor of its innermost loop allows it: each is a call


def normalize_parallel(program: Program, most: int = MOST) -> Program:
    """Return the program with perfectly nested parallel loops whose extents a call knows.

    Needs        a bound program that is not peeled.
    Keeps        the meaning.
    After        the parallel loops of a phase are perfectly nested, their extents are Const or
                 expressions of dims, and their iterations are at most `most` if a divisor of the
                 innermost extent, of the largest size, allows it.
    Not handled  more iterations than `most` in the outer loops, or of a prime innermost extent.
    """
    ranges = program.ranges

    def change(body: Stmt) -> Stmt:
        return _grouped(_tasks(body, ranges, None, frozenset(ranges)), ranges, 1, most)

    return map_phases(program, change)


def _tasks(
    stmt: Stmt, ranges: Mapping[str, Interval], guard: Expr | None, dims: frozenset[str]
) -> Stmt:
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.PARALLEL:
        return stmt if guard is None else If(guard, stmt)
    most, extent = bounds(stmt.extent, ranges)[1], stmt.extent
    if not isinstance(extent, Const) and not (dims and variables(extent) <= dims):
        test = Binary("lt", Var(stmt.var), extent)
        guard = test if guard is None else Binary("and", guard, test)
        extent = Const(most)
    inside = {**ranges, stmt.var: (0, most - 1)}
    return replace(stmt, extent=extent, body=_tasks(stmt.body, inside, guard, dims))


def _grouped(stmt: Stmt, ranges: Mapping[str, Interval], before: int, most: int) -> Stmt:
    """Cut the innermost parallel loop if there are too many iterations, `before` outside of it."""
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.PARALLEL:
        return stmt
    count = bounds(stmt.extent, ranges)[1]
    if isinstance(stmt.body, For) and stmt.body.kind is LoopKind.PARALLEL:
        return replace(stmt, body=_grouped(stmt.body, ranges, before * count, most))
    cuts = (d for d in range(2, count) if count % d == 0 and before * count // d <= most)
    part = next(cuts, 1) if before * count > most else 1
    if part == 1:
        return stmt
    outer = f"{stmt.var}.t"
    place = Binary("add", Binary("mul", Var(outer), Const(part)), Var(stmt.var))
    body = substitute_stmt(stmt.body, {stmt.var: place})
    groups: Expr = Const(count // part)
    if not isinstance(stmt.extent, Const):
        body = If(Binary("lt", place, stmt.extent), body)
        groups = Binary("floordiv", Binary("add", stmt.extent, Const(part - 1)), Const(part))
    inner = For(stmt.var, Const(part), body)
    return For(outer, groups, inner, LoopKind.PARALLEL)
