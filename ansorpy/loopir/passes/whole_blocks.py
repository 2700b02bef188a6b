"""Store the registers of a block without conditions if the whole block lies within the output.

Tile(lanes t < 16): if 16 b + t < 1000: O[16 b + t] = C[t]
    ->      if 16 b + 15 < 1000: the tile without its condition; else: the tile

Both branches take the registers, so that compilers finish the sums before. They would move sums
that one branch takes into this branch, and hold the operands of all of them in registers.
"""

from collections.abc import Mapping
from dataclasses import replace

from ansorpy.expr.build import ZERO, add, mul
from ansorpy.expr.expr import Binary, Const, Expr, Var, reads
from ansorpy.expr.intervals import linear
from ansorpy.expr.products import conjunction, conjuncts
from ansorpy.loopir.nodes import Alloc, Buffer, If, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, rebuild_stmt, stmt_children


def whole_blocks(program: Program) -> Program:
    """Return the program with two copies of every masked store of registers by threads.

    Needs        a tiled program for a GPU.
    Keeps        the meaning.
    Not handled  conditions other than comparisons `a < b` of a linear `a` with a `b` that is equal
                 for all elements of the tile.
    """
    return map_phases(program, lambda body: _split(body, program.by_name))


def _split(stmt: Stmt, buffers: Mapping[str, Buffer]) -> Stmt:
    if isinstance(stmt, Alloc):
        buffers = {**buffers, stmt.buffer.name: stmt.buffer}
    if isinstance(stmt, Tile):
        whole = _whole(stmt, buffers)
        return stmt if whole is None else If(whole, replace(stmt, mask=None), stmt)
    parts = tuple(_split(part, buffers) for part in stmt_children(stmt))
    return rebuild_stmt(stmt, parts) if parts else stmt


def _whole(tile: Tile, buffers: Mapping[str, Buffer]) -> Expr | None:
    """Return the condition that the mask of a store of registers holds everywhere; or None."""
    store = tile.store
    taken = {read.tensor for value in store.values for read in reads(value)}
    held = {name for name in taken if buffers[name].scope is Scope.REGISTER}
    stored = {buffers[name].scope for name in store.buffers}
    if tile.mask is None or not tile.lanes or not held or Scope.REGISTER in stored:
        return None
    found = [_everywhere(part, dict(tile.spans)) for part in conjuncts(tile.mask)]
    known = [part for part in found if part is not None]
    return conjunction(known) if len(known) == len(found) else None


def _everywhere(cond: Expr, spans: Mapping[str, int]) -> Expr | None:
    """Return the condition at the greatest value of its left side; None if that is not known."""
    match cond:
        case Binary(op="lt", a=a, b=b) if (left := linear(a)) and (right := linear(b)):
            if not spans.keys().isdisjoint(right[1]):
                return None
            greatest: Expr = Const(left[0])
            for name, factor in left[1].items():
                last: Expr = Var(name)
                if name in spans:
                    last = Const(spans[name] - 1) if factor > 0 else ZERO
                greatest = add(greatest, mul(last, Const(factor)))
            return Binary("lt", greatest, b)
        case _:
            return None
