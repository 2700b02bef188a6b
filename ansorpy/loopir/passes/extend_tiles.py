"""Take iterations of a serial loop into the tile of sums inside of it.

for k in 16: Tile(i < 72, lanes t < 32): C += S[i, k]
    ->      for k in 2: Tile(k.u < 8, i < 72, lanes t < 32): C += S[i, 8 k + k.u]
"""

from collections.abc import Set
from dataclasses import replace
from functools import partial
from math import prod
from typing import Final

from ansorpy.expr.build import add, mul
from ansorpy.expr.expr import Const, Expr, Var, reads
from ansorpy.loopir.nodes import For, LoopKind, Program, Stmt, Tile
from ansorpy.loopir.passes.tile import POINTS
from ansorpy.loopir.rewrite import map_phases, map_stmt, substitute_stmt
from ansorpy.loopir.scratch import scratch_of

_STEP: Final = "u"  # suffix of the dimension of a tile that was a loop


def extend_tiles(program: Program) -> Program:
    """Return the program with as many iterations of a reduction in a tile as it may have.

    Needs        a tiled program for a GPU, with sums in registers; sums of matrices are tiles on
                 matrices already.
    Keeps        the meaning and the order of the additions.
    After        a loop of extent n around one tile of v sums of a thread, of operands in scratch,
                 has u iterations in the tile, with u the largest divisor of n for which u * v is at
                 most POINTS. Loads of an iteration then need not wait for the sums of the one
                 before.
    Not handled  operands in global memory, whose loads ptxas would all move to the front, and
                 spill; tiles with masks, and tiles on matrices.
    """

    def extended(body: Stmt) -> Stmt:
        scratch = {buffer.name for buffer in scratch_of(body)}
        return map_stmt(body, partial(_extended, scratch=scratch))

    return map_phases(program, extended)


def _extended(stmt: Stmt, scratch: Set[str]) -> Stmt:
    match stmt:
        case For(
            var=var,
            extent=Const(value=extent),
            kind=LoopKind.SERIAL,
            body=Tile(mask=None, dot=None, matrix=None) as tile,
        ) if tile.lanes and tile.store.combiner:
            taken = {read.tensor for value in tile.store.values for read in reads(value)}
            size, n = prod(n for _, n in tile.dims), int(extent)
            own = max((u for u in range(1, n + 1) if n % u == 0 and u * size <= POINTS), default=1)
            if own == 1 or not taken <= scratch:
                return stmt
            inner = f"{var}.{_STEP}"
            at: Expr = Var(inner)
            if own < n:
                at = add(mul(Var(var), Const(own)), at)
            moved = substitute_stmt(tile, {var: at})
            assert isinstance(moved, Tile)
            made = replace(moved, dims=((inner, own), *tile.dims))
            return replace(stmt, extent=Const(n // own), body=made) if own < n else made
        case _:
            return stmt
