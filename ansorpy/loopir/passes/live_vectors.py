"""Leave out vectors of a tail that a call does not need.

j in 4, l in 16 if j * 16 + l < r: C[j * 16 + l] = exp(A[j * 16 + l])
    ->  if r > 48: as before
        else: for j in (r + 15) / 16: l in 16 if j * 16 + l < r: C[j * 16 + l] = exp(...)

The tail of a number has as many vectors as it needs. The mask of a tail that a call decides has as
many as the largest tail: 3 elements would take as long as 64.
"""

from dataclasses import replace

from ansorpy.expr.build import ceildiv
from ansorpy.expr.expr import Binary, Const, Expr, reads, variables
from ansorpy.expr.intervals import linear
from ansorpy.expr.products import conjuncts
from ansorpy.loopir.nodes import Alloc, For, If, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt


def live_vectors(program: Program) -> Program:
    """Return the program with a loop over the vectors of a tail that a call decides.

    Needs        a tiled program.
    Keeps        the meaning.
    After        a tile with such a tail along its lanes writes vectors with a live lane only.
    Not handled  tiles of registers, whose vectors have numbers, and sums.
    """
    if not program.dims:
        return program
    dims = frozenset(program.ranges)

    def change(body: Stmt) -> Stmt:
        allocs = [part.buffer for part in walk_stmt(body) if isinstance(part, Alloc)]
        held = {buffer.name for buffer in allocs if buffer.scope is Scope.REGISTER}
        return map_stmt(body, lambda part: _looped(part, held, dims))

    return map_phases(program, change)


def _looped(stmt: Stmt, held: set[str], dims: frozenset[str]) -> Stmt:
    """Return a loop around a tile, or the statement as it is."""
    if not isinstance(stmt, Tile) or stmt.mask is None or stmt.store.combiner is not None:
        return stmt
    used = {read for value in stmt.store.values for read in reads(value)}
    touched = {*stmt.store.buffers, *(read.tensor for read in used if read.indices)}
    if stmt.dot is not None or stmt.matrix is not None or touched & held:
        return stmt
    if {read.tensor for read in used} & {*stmt.store.buffers}:
        return stmt  # an earlier vector may be read
    for var, extent in stmt.dims:
        left = _left(stmt, var)
        if left is not None and not dims.isdisjoint(variables(left)):
            (_, lanes), *_ = stmt.lanes
            kept = tuple(one for one in stmt.dims if one[0] != var)
            some = For(var, ceildiv(left, Const(lanes)), replace(stmt, dims=kept))
            return If(Binary("gt", left, Const((extent - 1) * lanes)), stmt, some)
    return stmt


def _left(tile: Tile, var: str) -> Expr | None:
    """Return r if the mask of a tile has `var * lanes + lane < r`, and no other part has `var`."""
    assert tile.mask is not None
    found = None
    for part in conjuncts(tile.mask):
        if var not in variables(part):
            continue
        if found is not None or tile.lane is None:
            return None
        match part:
            case Binary(op="lt", a=place, b=left) if linear(place) == _place(var, *tile.lane):
                found = left
            case _:
                return None
    own = {name for name, _ in tile.spans}
    return None if found is None or variables(found) & own else found


def _place(var: str, lane: str, lanes: int) -> tuple[int, dict[str, int]]:
    return 0, {var: lanes, lane: 1}
