"""Let a thread load and store several neighbouring elements at once.

Tile(i < 8, j < 4, lanes t < 16): if n + j < 1000: C[i, 16 t + j] = ...
    ->      the same with accesses of 4 elements, and the condition at j = 0
"""

from collections.abc import Mapping
from dataclasses import replace

from ansorpy.expr.build import ZERO, add, mul
from ansorpy.expr.coalescing import ACCESS_BYTES
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr, Var, reads, substitute, variables
from ansorpy.expr.groups import even
from ansorpy.expr.intervals import form
from ansorpy.expr.products import conjunction, conjuncts
from ansorpy.loopir.nodes import Alloc, Buffer, For, If, Program, Scope, Seq, Stmt, Tile

Place = tuple[Buffer, tuple[Expr, ...]]


def vectors(program: Program) -> Program:
    """Return the program with the width of accesses in its tiles.

    Needs        a tiled program for a GPU.
    Keeps        the meaning.
    After        a tile has accesses of 16 bytes if some access to memory runs along a dimension of
                 the tile in aligned groups. If its store does, along the last dimension of one
                 group, no condition depends on this dimension.
    Not handled  groups that a condition may cut.
    """
    return replace(
        program,
        phases=tuple(
            replace(phase, body=_widened(phase.body, program.by_name)) for phase in program.phases
        ),
    )


def _widened(stmt: Stmt, buffers: Mapping[str, Buffer]) -> Stmt:
    match stmt:
        case Tile():
            return _tile(stmt, buffers)
        case Alloc(buffer=buffer, body=body):
            return replace(stmt, body=_widened(body, {**buffers, buffer.name: buffer}))
        case For(body=body):
            return replace(stmt, body=_widened(body, buffers))
        case Seq(stmts=stmts):
            return Seq(tuple(_widened(part, buffers) for part in stmts))
        case If(then=then, other=other):
            rest = None if other is None else _widened(other, buffers)
            return replace(stmt, then=_widened(then, buffers), other=rest)
        case _:
            return stmt


def _tile(tile: Tile, buffers: Mapping[str, Buffer]) -> Tile:
    store = tile.store
    taken = [read for value in store.values for read in reads(value)]
    places = [(buffers[read.tensor], read.indices) for read in taken]
    stored = [(buffers[name], store.index) for name in store.buffers]
    memory = [place for place in (*stored, *places) if place[0].scope is not Scope.REGISTER]
    if not tile.lanes or tile.dot or tile.matrix or not memory:
        return tile
    wide = ACCESS_BYTES // max(SIZE_BYTES[buffer.dtype] for buffer, _ in memory)
    if wide == 1 or any(buffer.dtype == "bool" for buffer, _ in memory):
        return tile
    along = {name for place in memory for name in [_along(place, tile, wide)] if name}
    if not along:
        return tile
    tile = replace(tile, access_width=wide)
    if tile.mask is None or len(stored) > 1 or _along(stored[0], tile, wide) != tile.dims[-1][0]:
        return tile
    last, extent = tile.dims[-1]
    parts = conjuncts(tile.mask)
    if extent != wide or not all(even(part, last, wide) for part in parts):
        return tile
    return replace(tile, mask=conjunction([substitute(part, {last: ZERO}) for part in parts]))


def group_dim(buffer: Buffer, index: tuple[Expr, ...], tile: Tile) -> str:
    """Return the dimension along which an access of a tile runs in groups of its width; or ""."""
    wide = tile.access_width
    return _along((buffer, index), tile, wide) if wide > 1 else ""


def _along(place: Place, tile: Tile, wide: int) -> str:
    """Return the dimension along which an access runs in aligned groups; "" if there is none."""
    buffer, index = place
    size, offset = 1, Const(0)
    total: Expr = offset
    for part, extent in zip(reversed(index), reversed(buffer.extents), strict=True):
        total = add(total, mul(part, Const(size)))
        size *= extent
    whole = form(total)
    if size % wide or whole.const % wide:
        return ""
    factors = {str(atom): n for atom, n in whole.terms.items()}
    inside = [variables(atom) for atom in whole.terms if not isinstance(atom, Var)]
    near = [
        name
        for name, n in tile.dims
        if factors.get(name) == 1 and n % wide == 0 and not any(name in part for part in inside)
    ]
    others = all(n % wide == 0 for name, n in factors.items() if name not in near[:1])
    return near[0] if near and others else ""
