"""Written-out rows of a tail, for an extent that a call decides.

unroll i in r: C[t + i] = ...
    ->      if r == 1: C[t] = ...;  if r == 2: unroll i in 2: C[t + i] = ...        with r < 3

A loop over the rows would keep no sums in registers. Pieces of 8, 4, 2 and 1 rows are half as much
code, but each piece reads the other operands again: 9 rows of a product took 1.12 times as long.
"""

from collections.abc import Set
from dataclasses import replace
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, variables
from ansorpy.loopir.nodes import For, If, LoopKind, Stmt
from ansorpy.loopir.rewrite import map_stmt, seq, walk_stmt

MOST: Final = 16  # rows of a tile; a longer tail runs row by row


def each_count(body: Stmt, tail: Expr, most: int) -> Stmt | None:
    """Return code for each value of `tail`, at least 1 and below `most`; None if no loop has rows.

    All loops of that extent get the number, also those along lanes.
    """
    loops = [stmt for stmt in walk_stmt(body) if isinstance(stmt, For) and stmt.extent == tail]
    if most > MOST or all(loop.kind is not LoopKind.UNROLL for loop in loops):
        return None
    counts = map(Const, range(1, most))
    return seq(*(If(Binary("eq", tail, one), _counted(body, tail, one)) for one in counts))


def is_piece(stmt: Stmt, dims: Set[str]) -> bool:
    """Return True for the code of one number of rows; `dims` are variables of sizes."""
    if not isinstance(stmt, If) or not isinstance(stmt.cond, Binary) or stmt.cond.op != "eq":
        return False
    return bool(variables(stmt.cond) & dims)


def _counted(body: Stmt, tail: Expr, count: Const) -> Stmt:
    def change(stmt: Stmt) -> Stmt:
        return (
            replace(stmt, extent=count) if isinstance(stmt, For) and stmt.extent == tail else stmt
        )

    return map_stmt(body, change)
