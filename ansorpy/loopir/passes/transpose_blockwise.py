"""Store transposed tiles in a loop of square blocks, each transposed in registers.

tile w:56 lane f:16: B[f, w] = A[w, f]    ->    for q in 4: tile w:16 lane f:16: B[f, at + w] = ...
                                                with at = min(16 q, 40)

The last square ends at the end of the tile, and so overlaps the square before it. Unrolled squares
would be the longest code of a convolution; a loop over them costs no time.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Var, reads, substitute, variables
from ansorpy.expr.intervals import linear
from ansorpy.loopir.nodes import Alloc, For, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt

SHORT: Final = 16  # vectors of a tile that is not worth a loop


def transpose_blockwise(program: Program) -> Program:
    """Return the program with tiles that are transposed at their store cut into square tiles.

    Needs        a tiled program.
    Keeps        the meaning.
    After        a tile whose lanes are not adjacent in its target is one square, in a loop.
    Not handled  tiles that combine, tiles with a mask, and tiles of REGISTER buffers, whose points
                 must be constants.
    """
    return map_phases(program, _squares)


def _squares(body: Stmt) -> Stmt:
    held = {
        part.buffer.name
        for part in walk_stmt(body)
        if isinstance(part, Alloc) and part.buffer.scope is Scope.REGISTER
    }

    def change(stmt: Stmt) -> Stmt:
        return _in_squares(stmt) if isinstance(stmt, Tile) and _movable(stmt, held) else stmt

    return map_stmt(body, change)


def _movable(tile: Tile, held: set[str]) -> bool:
    """Return True if the points of a tile can run in a loop, in any order, and repeatedly."""
    store, read = tile.store, {each.tensor for value in tile.store.values for each in reads(value)}
    if store.combiner is not None or tile.mask is not None or tile.hints.reload:
        return False
    if not {name for name, _ in tile.dims} <= _mentioned(store.index):
        return False
    return not {*read, *store.buffers} & held and not read & set(store.buffers)


def _in_squares(tile: Tile) -> Stmt:
    rows = _rows(tile)
    if rows is None or tile.lane is None or prod(n for _, n in tile.dims) <= SHORT:
        return tile
    lanes, extent = tile.lane[1], dict(tile.dims)[rows]
    stmt: Stmt = replace(tile, dims=((rows, extent),))
    if extent > lanes:
        loop = f"{rows}.q"
        start: Expr = Binary("mul", Var(loop), Const(lanes))
        if extent % lanes:
            start = Binary("min", start, Const(extent - lanes))
        at = {rows: Binary("add", start, Var(rows))}
        store = replace(
            tile.store,
            index=tuple(substitute(e, at) for e in tile.store.index),
            values=tuple(substitute(e, at) for e in tile.store.values),
        )
        square = replace(tile, dims=((rows, lanes),), store=store)
        stmt = For(loop, Const(-(-extent // lanes)), square)
    for name, count in reversed([pair for pair in tile.dims if pair[0] != rows]):
        stmt = For(name, Const(count), stmt)
    return stmt


def _rows(tile: Tile) -> str | None:
    """Return the dimension that is contiguous in the target of a tile, if the lanes are not."""
    if tile.lane is None or tile.lane[0] not in _mentioned(tile.store.index[:-1]):
        return None
    last = linear(tile.store.index[-1])
    if last is None or tile.lane[0] in last[1]:
        return None
    return next((name for name, n in tile.dims if n > 1 and last[1].get(name) == 1), None)


def _mentioned(exprs: Sequence[Expr]) -> frozenset[str]:
    return frozenset[str]().union(*map(variables, exprs))
