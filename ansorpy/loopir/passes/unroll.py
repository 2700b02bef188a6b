"""Unroll the innermost reduction loop within the unroll budget.

for k in 64: acc += A[k]      ->      for k in 16: acc += A[4 k]; ... acc += A[4 k + 3]
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import partial
from math import prod
from typing import Final

from ansorpy.expr.expr import Binary, Const, Var, reads, variables
from ansorpy.expr.intervals import simplify
from ansorpy.expr.products import conjuncts
from ansorpy.loopir.nodes import For, LoopKind, Program, Seq, Stmt, Tile
from ansorpy.loopir.passes.scalar_replacement import vectors
from ansorpy.loopir.rewrite import in_order, map_phases, map_stmt, seq, substitute_stmt, walk_stmt
from ansorpy.loopir.row_pieces import is_piece

LONGEST: Final = 16  # iterations of a loop that is unrolled for the sake of masks
PIECES: Final = 16  # pieces of a tail, about: together they are as long as a whole tile
_NOTHING: Final = Seq(())


def unroll(program: Program, budgets: Mapping[str, int], registers: int) -> Program:
    """Return the program with innermost serial loops unrolled.

    Needs        a tiled program; `budgets` are the vector statements per unrolled body by stage.
    Keeps        the meaning and the order of the additions.
    After        a loop of extent n around one tile of v vectors is unrolled u times, with u the
                 largest divisor of n for which u * v is within the budget; a short loop that
                 occurs in a mask together with points of the tile is unrolled completely, which
                 decides the mask. Copies whose operands do not fit into the registers two at a
                 time are `in_order`.
                 A piece of a tail, of which there are many, has a share of the budget.
    Not handled  a tile whose sums and operands exceed `registers` vectors: LLVM would schedule
                 the loads of several copies too early, and spill.
    """
    dims = frozenset(dim.var.name for dim in program.dims)

    def change(pieces: Set[int], stmt: Stmt) -> Stmt:
        match stmt:
            case For(
                extent=Const(value=extent), body=Tile(mask=None) as tile, kind=LoopKind.SERIAL
            ):
                sums, operands = vectors(tile, tile.store.index), _operands(tile)
                if sums + operands > registers:
                    return stmt
                if sums + 2 * operands > registers:
                    tile = replace(tile, hints=replace(tile.hints, in_order=True))
                share = PIECES if id(stmt.body) in pieces else 1
                return _unroll(stmt, tile, int(extent), budget_of(stmt, budgets) // share)
            case _:
                return stmt

    def unrolled(body: Stmt) -> Stmt:
        decided = map_stmt(body, _decided)
        # An unchanged statement stays the same object: `change` meets these very tiles.
        pieces = {
            id(part)
            for piece in walk_stmt(decided)
            if is_piece(piece, dims)
            for part in walk_stmt(piece)
            if isinstance(part, Tile)
        }
        return map_stmt(decided, partial(change, pieces))

    return map_phases(program, unrolled)


def budget_of(loop: For, budgets: Mapping[str, int]) -> int:
    """Return the budget of the stage that a loop belongs to, or 0."""
    return budgets.get(loop.var.split(":", 1)[0], 0)


def _decided(stmt: Stmt) -> Stmt:
    """Return a short loop unrolled completely if that decides masks of its tiles.

    It decides each part of a mask that contains only this loop and points of the tile. If other
    loops are in between, the result has at most LONGEST tiles.
    """
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.SERIAL:
        return stmt
    if not isinstance(stmt.extent, Const) or int(stmt.extent.value) > LONGEST:
        return stmt
    extent, direct = int(stmt.extent.value), in_order(stmt.body)
    tiles = [part for part in walk_stmt(stmt.body) if isinstance(part, Tile)]
    close = all(isinstance(part, Tile) for part in direct)
    if not close and extent * len(tiles) > LONGEST:
        return stmt
    if not any(_waits(tile, stmt.var) for tile in tiles):
        return stmt
    copies = [
        map_stmt(substitute_stmt(part, {stmt.var: Const(i)}), partial(_simpler, reload=close))
        for i in range(extent)
        for part in direct
    ]
    return seq(*copies)


def _waits(tile: Tile, var: str) -> bool:
    points = {name for name, _ in tile.spans}
    parts = () if tile.mask is None else conjuncts(tile.mask)
    return any(var in variables(part) and variables(part) <= points | {var} for part in parts)


def _simpler(stmt: Stmt, reload: bool) -> Stmt:
    """Return a tile with its mask simplified by the ranges of its points; () for no point."""
    if isinstance(stmt, For) and stmt.body == _NOTHING:
        return _NOTHING
    if not isinstance(stmt, Tile):
        return stmt
    stmt = replace(stmt, hints=replace(stmt.hints, reload=reload or stmt.hints.reload))
    if stmt.mask is None:
        return stmt
    ranges = {name: (0, n - 1) for name, n in stmt.dims}
    left = simplify(stmt.mask, ranges)
    if not isinstance(left, Const):
        return replace(stmt, mask=left)
    return replace(stmt, mask=None) if left.value else _NOTHING


def _operands(tile: Tile) -> int:
    """Return the vectors of the operands of a tile."""
    used = [read.indices for value in tile.store.values for read in reads(value)]
    return sum(vectors(tile, each) for each in used)


def _unroll(loop: For, body: Tile, extent: int, budget: int) -> Stmt:
    size = prod(n for _, n in body.dims)
    times = max(
        (u for u in range(1, extent + 1) if extent % u == 0 and u * size <= budget), default=1
    )
    if times == 1:
        return loop
    copies = []
    for i in range(times):
        base = Binary("mul", Var(loop.var), Const(times)) if times < extent else Const(0)
        at = Binary("add", base, Const(i)) if times < extent else Const(i)
        copies.append(substitute_stmt(body, {loop.var: at}))
    if times == extent:
        return Seq(tuple(copies))
    return replace(loop, extent=Const(extent // times), body=Seq(tuple(copies)))
