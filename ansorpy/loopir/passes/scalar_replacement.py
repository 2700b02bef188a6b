"""Replace scratch buffers by registers if every access is the same register tile (mem2reg)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from ansorpy.expr.expr import Const, Expr, Read, Var, reads, transform, variables
from ansorpy.expr.intervals import linear
from ansorpy.loopir.nodes import Alloc, Buffer, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt
from ansorpy.target import Target

VECTORS: Final = 32  # vectors of a register tile at most; AVX-512 has 32 registers
ROW: Final = 64  # registers of a thread that hold a row; it has 255

Shape = tuple[tuple[int, ...], ...]  # per buffer dimension: the extents of its tile variables


def held_vectors(target: Target) -> int:
    """Return how many vectors of a register tile stay in registers; lanes of a GPU are threads."""
    return ROW if target.kind == "cuda" else VECTORS


def scalar_replacement(program: Program, most: int = VECTORS) -> Program:
    """Return the program with scratch buffers (LOCAL) replaced by registers (REGISTER).

    Needs        a tiled program.
    Keeps        the meaning.
    After        a LOCAL buffer is accessed by two different tiles, or exceeds `most` vectors.
    Not handled  argmax and argmin whose value and index have different tiles.
    """
    return map_phases(program, lambda body: map_stmt(body, lambda stmt: _promote(stmt, most)))


def vectors(tile: Tile, indices: Sequence[Expr]) -> int:
    """Return the number of vectors of a tile that differ by the given indices."""
    names = frozenset[str]().union(*map(variables, indices))
    return prod(n for name, n in tile.dims if name in names)


def _promote(stmt: Stmt, most: int) -> Stmt:
    if not isinstance(stmt, Alloc) or stmt.buffer.scope is not Scope.LOCAL:
        return stmt
    chain: list[Buffer] = []
    body: Stmt = stmt
    while isinstance(body, Alloc):
        chain.append(body.buffer)
        body = body.body
    names = _stored_together(body, stmt.buffer.name)
    if any(tile.matrix for tile, _ in _accesses(body, names)):
        return stmt  # a matrix instruction loads its operands from memory
    if not names <= {buffer.name for buffer in chain if buffer.scope is Scope.LOCAL}:
        return stmt  # the value and the index of an argmax must be replaced together
    shapes = {
        _shape(tile, index) for tile, index in _accesses(body, names)
    }  # all accesses must be the same register tile
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None:
        return stmt
    extents = tuple(extent for dimension in shape[0] for extent in dimension)
    if prod(extents[:-1] if shape[1] else extents) > most:
        return stmt
    body = map_stmt(body, lambda part: _renamed(part, names))
    for buffer in reversed(chain):
        if buffer.name in names:
            size = tuple(Const(extent) for extent in extents)
            buffer = replace(buffer, shape=size, scope=Scope.REGISTER)
        body = Alloc(buffer, body)
    return body


def _stored_together(body: Stmt, name: str) -> frozenset[str]:
    """Return the buffers that some store writes along with `name`, itself included."""
    names = {name}
    for stmt in walk_stmt(body):
        if isinstance(stmt, Tile) and name in stmt.store.buffers:
            names.update(stmt.store.buffers)
    return frozenset(names)


def _accesses(body: Stmt, names: frozenset[str]) -> Iterator[tuple[Tile, tuple[Expr, ...]]]:
    """Yield the tile and index of every access to one of the buffers."""
    for tile in walk_stmt(body):
        if not isinstance(tile, Tile):
            continue
        if names & set(tile.store.buffers):
            yield tile, tile.store.index
        for value in tile.store.values:
            for read in reads(value):
                if read.tensor in names:
                    yield tile, read.indices


def _shape(tile: Tile, index: tuple[Expr, ...]) -> tuple[Shape, bool] | None:
    """Return the tile variables of every dimension of an index; None for another form of index.

    A tile may be smaller than the buffer (a tail): if all accesses are the same tile, the rest of
    the buffer is never accessed.
    """
    extents = dict(tile.spans)
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
    """Return the variables of a row-major index, outermost first; None for another form."""
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


def _renamed(stmt: Stmt, names: frozenset[str]) -> Stmt:
    """Index the register tiles directly by the tile variables."""
    if not isinstance(stmt, Tile):
        return stmt
    extents = dict(stmt.spans)

    def flat(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        used = [each for position in index for each in _digits(position, extents) or ()]
        return tuple(Var(each) for each in used)

    def change(part: Expr) -> Expr | None:
        if isinstance(part, Read) and part.tensor in names:
            return replace(part, indices=flat(part.indices))
        return None

    store = stmt.store
    values = tuple(transform(value, change) for value in store.values)
    index = flat(store.index) if names & set(store.buffers) else store.index
    return replace(stmt, store=replace(store, values=values, index=index))
