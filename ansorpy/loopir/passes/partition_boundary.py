"""Partition a loop into first, middle and last iterations if a boundary condition decides there.

for h in 4: unroll i in 7: if 7 h + i > 0: S     ->     unroll i in 7: if i > 0: S
                                                        for h in 3: unroll i in 7: S
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Var, variables
from ansorpy.expr.intervals import Interval, bounds
from ansorpy.expr.products import conjuncts
from ansorpy.loopir.nodes import WRITTEN_OUT, Alloc, For, If, LoopKind, Program, Seq, Stmt
from ansorpy.loopir.passes.bind_sizes import refold
from ansorpy.loopir.rewrite import map_phases, seq, stmt_children, stores, substitute_stmt

DEPTH: Final = 2  # axes that are split at most; each multiplies the code by 3


def partition_boundary(program: Program) -> Program:
    """Return the program with serial loops split into first, middle and last iterations.

    Needs        a bound program.
    Keeps        the meaning.
    After        in the middle iterations of a spatial loop, most conditions on written-out loops
                 are decided.
    Not handled  reduce loops, see `unroll`.
    """
    return map_phases(program, lambda body: _border(body, program.ranges, DEPTH))


def _border(stmt: Stmt, ranges: Mapping[str, Interval], depth: int) -> Stmt:
    match stmt:
        case For(var=var, extent=extent, body=body, kind=kind) if kind not in WRITTEN_OUT:
            if depth and kind is LoopKind.SERIAL and _decides(var, body):
                parts = [_border(part, ranges, depth - 1) for part in _split(stmt, ranges) if part]
                return seq(*parts)
            inside = {**ranges, var: (0, max(0, bounds(extent, ranges)[1] - 1))}
            return replace(stmt, body=_border(body, inside, depth))
        case Seq(stmts=stmts):
            return Seq(tuple(_border(part, ranges, depth) for part in stmts))
        case If(then=then, other=other):
            rest = None if other is None else _border(other, ranges, depth)
            return replace(stmt, then=_border(then, ranges, depth), other=rest)
        case Alloc(body=body):
            return replace(stmt, body=_border(body, ranges, depth))
        case _:
            return stmt


def _decides(var: str, body: Stmt) -> bool:
    """Return True if a condition depends on a spatial loop and on a written-out loop."""
    stored = {name for store in stores(body) for index in store.index for name in variables(index)}
    return var in stored and any(var in names for names in _mentioned(body, frozenset()))


def _mentioned(stmt: Stmt, written: frozenset[str]) -> Iterator[frozenset[str]]:
    """Yield the variables that occur in a condition together with a written-out loop's."""
    if isinstance(stmt, If):
        for part in conjuncts(stmt.cond):
            if variables(part) & written:
                yield variables(part) - written
    if isinstance(stmt, For) and stmt.kind in WRITTEN_OUT:
        written = written | {stmt.var}
    for child in stmt_children(stmt):
        yield from _mentioned(child, written)


def _split(loop: For, ranges: Mapping[str, Interval]) -> Iterator[Stmt | None]:
    """Yield the first, the middle and the last iterations of a loop, or a loop of open extent.

    Each statement is folded, and is None if it has no effect.
    """
    if not isinstance(loop.extent, Const):
        yield loop
        return
    count, changed = int(loop.extent.value), frozenset({loop.var})
    yield refold(loop.body, ranges, changed, {loop.var: 0})
    if count > 2:
        later: Expr = Binary("add", Var(loop.var), Const(1))
        between = substitute_stmt(loop.body, {loop.var: later})
        yield refold(replace(loop, extent=Const(count - 2), body=between), ranges, changed)
    yield refold(loop.body, ranges, changed, {loop.var: count - 1})
