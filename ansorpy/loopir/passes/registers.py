"""Keep scratch buffers in registers where every access is the same register tile."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ansorpy.loopir.nodes import Alloc, Buffer, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt
from ansorpy.te.expr import Const, Expr, Read, Var, reads, transform
from ansorpy.te.intervals import linear

VECTORS: Final = 32  # more than this cannot live in registers

Shape = tuple[tuple[int, ...], ...]  # per buffer dimension: the extents of its tile variables


def registers(program: Program) -> Program:
    """Return the program with LOCAL buffers turned into REGISTER ones where that is possible.

    Needs a tiled program. Keeps the meaning. Afterwards a LOCAL buffer is left only where two
    accesses cut it differently, or it is too large for the registers.
    """
    return map_phases(program, lambda body: map_stmt(body, _promote))


def _promote(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Alloc) or stmt.buffer.scope is not Scope.LOCAL:
        return stmt
    shapes = set()
    for tile in _tiles(stmt.body, stmt.buffer.name):
        for index in _accesses(tile, stmt.buffer.name):
            shapes.add(_shape(tile, index))
    if len(shapes) != 1:
        return stmt
    shape = shapes.pop()
    if shape is None:
        return stmt
    extents = tuple(extent for dimension in shape[0] for extent in dimension)
    lanes = extents[-1] if shape[1] and extents else 1
    count = 1
    for extent in extents:
        count *= extent
    if count // lanes > VECTORS:
        return stmt
    buffer = Buffer(
        stmt.buffer.name, stmt.buffer.dtype, tuple(Const(n) for n in extents), Scope.REGISTER
    )
    return Alloc(buffer, map_stmt(stmt.body, lambda part: _renamed(part, buffer.name)))


def _tiles(body: Stmt, name: str) -> Iterator[Tile]:
    for stmt in walk_stmt(body):
        if isinstance(stmt, Tile) and any(True for _ in _accesses(stmt, name)):
            yield stmt


def _accesses(tile: Tile, name: str) -> Iterator[tuple[Expr, ...]]:
    """Yield the index of every access of a tile to a buffer."""
    if name in tile.store.buffers:
        yield tile.store.index
    for value in tile.store.values:
        for read in reads(value):
            if read.tensor == name:
                yield read.indices


def _shape(tile: Tile, index: tuple[Expr, ...]) -> tuple[Shape, bool] | None:
    """Return how an index is made of whole tile variables in order; None if it is not.

    A tile may be smaller than the buffer (a tail): where all accesses are the same tile, nothing
    else of the buffer is ever touched.
    """
    extents = dict(tile.dims)
    if tile.lane is not None:
        extents[tile.lane[0]] = tile.lane[1]
    order = list(extents)
    used: list[str] = []
    shape = []
    for position in index:
        names = _digits(position, extents)
        if names is None:
            return None
        used += names
        shape.append(tuple(extents[name] for name in names))
    if used != [name for name in order if name in used]:
        return None
    lane = tile.lane is not None and tile.lane[0] in used
    return tuple(shape), lane


def _digits(position: Expr, extents: dict[str, int]) -> list[str] | None:
    """Return the variables of a row-major index over them, outermost first; None otherwise."""
    form = linear(position)
    if form is None or form[0] != 0 or any(name not in extents for name in form[1]):
        return None
    names = sorted(form[1], key=lambda name: -form[1][name])
    stride = 1
    for name in reversed(names):
        if form[1][name] != stride:
            return None
        stride *= extents[name]
    return names


def _renamed(stmt: Stmt, name: str) -> Stmt:
    """Index the register tile by the tile variables themselves."""
    if not isinstance(stmt, Tile):
        return stmt
    extents = dict(stmt.dims)
    if stmt.lane is not None:
        extents[stmt.lane[0]] = stmt.lane[1]

    def flat(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        names = [each for position in index for each in _digits(position, extents) or ()]
        return tuple(Var(each) for each in names)

    def change(part: Expr) -> Expr | None:
        if isinstance(part, Read) and part.tensor == name:
            return replace(part, indices=flat(part.indices))
        return None

    store = stmt.store
    values = tuple(transform(value, change) for value in store.values)
    index = flat(store.index) if name in store.buffers else store.index
    return replace(stmt, store=replace(store, values=values, index=index))
