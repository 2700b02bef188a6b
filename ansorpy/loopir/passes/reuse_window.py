"""Move the loop over a sliding window into the tile, so that each vector is loaded once.

for r: for s: acc[u, l] += X[u + r, l + s] * W[r, s]      ->      the same as one tile, u first

If the loops are outside, every point of the window loads its vectors again: a window of 3 x 3
loads most rows three times. If they are inside, row u + 1 finds two of its three rows in registers.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ansorpy.expr.expr import Const, Read, reads, variables
from ansorpy.expr.intervals import linear
from ansorpy.loopir.nodes import For, LoopKind, Program, Stmt, Tile
from ansorpy.loopir.passes.unroll import budget_of
from ansorpy.loopir.rewrite import map_phases, rebuild_stmt, stmt_children


def reuse_window(program: Program, budgets: Mapping[str, int]) -> Program:
    """Return the program with the loops over sliding windows inside of the tiles.

    Needs        a tiled program; the `budgets` of the pass `unroll`.
    Keeps        the meaning and the order of the additions.
    After        a perfect nest of serial loops around a tile is part of the tile, if the unroll
                 budget allows it and rows of the tile read overlapping windows.
    Not handled  tiles with a mask, and dot-product instructions.
    """
    return map_phases(program, lambda body: _slide(body, budgets))


def _slide(stmt: Stmt, budgets: Mapping[str, int]) -> Stmt:
    if isinstance(stmt, For):
        loops, tile = _window(stmt)
        if tile is not None and _fits(loops, tile, budgets) and _overlaps(loops, tile):
            inner = tuple((loop.var, _extent(loop)) for loop in loops)
            return replace(tile, dims=(*tile.dims, *inner))
    return rebuild_stmt(stmt, tuple(_slide(part, budgets) for part in stmt_children(stmt)))


def _window(stmt: Stmt) -> tuple[list[For], Tile | None]:
    """Return a perfect nest of loops of constant extent, and the tile inside or None."""
    loops: list[For] = []
    while isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and _extent(stmt):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt if isinstance(stmt, Tile) else None


def _extent(loop: For) -> int:
    """Return the extent of a loop, or 0 if it is not constant."""
    return int(loop.extent.value) if isinstance(loop.extent, Const) else 0


def _fits(loops: list[For], tile: Tile, budgets: Mapping[str, int]) -> bool:
    plain = (
        tile.mask is None and tile.dot is None and tile.lane is not None and not tile.hints.reload
    )
    if not loops or not plain or tile.store.combiner is None:
        return False
    vectors = prod(extent for _, extent in tile.dims)
    inside = {name for index in tile.store.index for name in variables(index)}
    moves = any(loop.var in inside for loop in loops)
    return not moves and vectors * prod(map(_extent, loops)) <= budget_of(loops[-1], budgets)


def _overlaps(loops: list[For], tile: Tile) -> bool:
    """Return True if two rows of a tile read the same vectors at different window points."""
    window = {loop.var: _extent(loop) for loop in loops}
    rows = {name for name, _ in tile.dims}
    return any(_shared(read, tile, rows, window) for v in tile.store.values for read in reads(v))


def _shared(read: Read, tile: Tile, rows: set[str], window: Mapping[str, int]) -> bool:
    assert tile.lane is not None
    forms = [linear(index) for index in read.indices]
    if not forms or any(form is None for form in forms):
        return False
    steps = [form[1] for form in forms if form is not None]
    used = {name for step in steps for name in step}
    if steps[-1].get(tile.lane[0]) != 1 or not rows <= used:
        return False
    return any(
        abs(step[row]) < abs(step[point]) * window[point]
        for step in steps
        for row in rows & set(step)
        for point in window.keys() & set(step)
    )
