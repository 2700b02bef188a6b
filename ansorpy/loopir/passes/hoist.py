"""Hoist conditions out of loops that they do not depend on.

for k: for i in 8: if k > 0: C[i] += A[k, i]      ->      for k: if k > 0: for i in 8: C[i] += ...
"""

from dataclasses import replace

from ansorpy.expr.expr import Expr, variables
from ansorpy.expr.products import conjunction, conjuncts
from ansorpy.loopir.nodes import WRITTEN_OUT, Alloc, For, If, LoopKind, Program, Seq, Stmt
from ansorpy.loopir.rewrite import map_phases


def hoist(program: Program) -> Program:
    """Return the program with every condition just inside the innermost loop it depends on.

    Needs        a bound program.
    Keeps        the meaning.
    After        an `If` without `else` that was the whole body of serial loops is just inside the
                 innermost of these loops that its condition contains; a condition on a written-out
                 loop stays around the store.
    Not handled  an `If` with `else`, and conditions that would leave a parallel loop.
    """
    return map_phases(program, _closed)


def _closed(stmt: Stmt) -> Stmt:
    parts, inner = _opened(stmt)
    return _under(parts, inner)


def _opened(stmt: Stmt) -> tuple[tuple[Expr, ...], Stmt]:
    """Return the conditions that can be hoisted out of a statement, and its remainder."""
    match stmt:
        case If(cond=cond, then=then, other=None):
            parts, inner = _opened(then)
            return (*conjuncts(cond), *parts), inner
        case If(then=then, other=other):
            rest = None if other is None else _closed(other)
            return (), replace(stmt, then=_closed(then), other=rest)
        case For(kind=LoopKind.PARALLEL, body=body):
            return (), replace(stmt, body=_closed(body))
        case For(var=var, body=body, kind=kind):
            parts, inner = _opened(body)
            mine = tuple(part for part in parts if var in variables(part))
            free = tuple(part for part in parts if part not in mine)
            place = _innermost if kind in WRITTEN_OUT else _under
            return free, replace(stmt, body=place(mine, inner))
        case Alloc(body=body):
            return (), replace(stmt, body=_closed(body))
        case Seq(stmts=stmts):
            return (), Seq(tuple(map(_closed, stmts)))
        case _:
            return (), stmt


def _innermost(parts: tuple[Expr, ...], stmt: Stmt) -> Stmt:
    """Return a statement with conditions moved inside of its outermost written-out loops."""
    if isinstance(stmt, For) and stmt.kind in WRITTEN_OUT:
        return replace(stmt, body=_innermost(parts, stmt.body))
    return _under(parts, stmt)


def _under(parts: tuple[Expr, ...], stmt: Stmt) -> Stmt:
    if not parts:
        return stmt
    if isinstance(stmt, If) and stmt.other is None:
        return If(conjunction((*parts, *conjuncts(stmt.cond))), stmt.then)
    return If(conjunction(parts), stmt)
