"""Replace scratch buffers by registers if every access is the same register tile (mem2reg)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from ansorpy.expr.expr import Const, Expr, Read, Var, reads, transform, variables
from ansorpy.expr.intervals import linear
from ansorpy.loopir.nodes import Alloc, Buffer, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt
from ansorpy.target import GpuTarget, Target

VECTORS: Final = 32  # vectors of a register tile at most; AVX-512 has 32 registers
HELD: Final = 128  # registers of a thread that hold a row, or its sums; it has 255

Dimension = tuple[tuple[int, bool], ...]  # extents of tile variables, and whether each is a lane
Shape = tuple[Dimension, ...]  # the dimensions of a buffer


def held_vectors(target: Target) -> int:
    """Return how many vectors of a register tile stay in registers; lanes of a GPU are threads."""
    return HELD if isinstance(target, GpuTarget) else VECTORS


def scalar_replacement(program: Program, most: int = VECTORS, threads: bool = False) -> Program:
    """Return the program with scratch buffers (LOCAL) replaced by registers (REGISTER).

    Needs        a tiled program.
    Keeps        the meaning.
    After        a LOCAL buffer is accessed by two different tiles, or exceeds `most` vectors.
    Not handled  argmax and argmin whose value and index have different tiles.

    Args:
        most: the vectors that a buffer may take; the registers of a thread, if lanes are threads.
        threads: whether lanes are threads; a lane may then be anywhere in an index, as in (quad,
            thread, neighbour), else only in the last place.
    """
    return map_phases(
        program, lambda body: map_stmt(body, lambda stmt: _promote(stmt, most, threads))
    )


def vectors(tile: Tile, indices: Sequence[Expr]) -> int:
    """Return the number of vectors of a tile that differ by the given indices."""
    names = frozenset[str]().union(*map(variables, indices))
    return prod(n for name, n in tile.dims if name in names)


def _promote(stmt: Stmt, most: int, threads: bool) -> Stmt:
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
        _shape(tile, index, threads) for tile, index in _accesses(body, names)
    }  # all accesses must be the same register tile
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None:
        return stmt
    digits = [digit for dimension in shape for digit in dimension]
    own = tuple(extent for extent, lane in digits if not lane)
    if prod(own) > most:
        return stmt
    extents = (*own, *(extent for extent, lane in digits if lane))
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


def _shape(tile: Tile, index: tuple[Expr, ...], mixed: bool) -> Shape | None:
    """Return the tile variables of every dimension of an index; None for another form of index.

    If `mixed`, lanes may stand anywhere; else they come last.

    A tile may be smaller than the buffer (a tail): if all accesses are the same tile, the rest of
    the buffer is never accessed.
    """
    extents, lanes = dict(tile.spans), dict(tile.lanes)
    used: list[str] = []
    shape = []
    for position in index:
        names = _digits(position, extents)
        if names is None:
            return None
        used += names
        shape.append(tuple((extents[name], name in lanes) for name in names))
    if mixed and not set(lanes).isdisjoint(used) and not set(lanes) <= set(used):
        return None  # some threads would share a register
    for group in (tile.dims, tile.lanes) if mixed else (tile.spans,):
        order = [name for name, _ in group]
        if [name for name in used if name in order] != [name for name in order if name in used]:
            return None
    return tuple(shape)


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
        used = {each for position in index for each in _digits(position, extents) or ()}
        return tuple(Var(name) for name in extents if name in used)

    def change(part: Expr) -> Expr | None:
        if isinstance(part, Read) and part.tensor in names:
            return replace(part, indices=flat(part.indices))
        return None

    store = stmt.store
    values = tuple(transform(value, change) for value in store.values)
    index = flat(store.index) if names & set(store.buffers) else store.index
    return replace(stmt, store=replace(store, values=values, index=index))
