"""Convert UNROLL and VECTOR loops to register tiles.

unroll i in 8: vector l in 48: store      ->      Tile(i < 8, v < 3, lane l < 16): store
unroll i in 8: vector l in 48: dot q in 4: store
                                          ->      the same with q < 4, a dot-product instruction
thread t in 16: thread u in 16: unroll i in 8: store
                                          ->      Tile(i < 8, lanes t < 16, u < 16): store
unroll i in 32: vector l in 32: group g in 16: dot q in 4: store
                                          ->      a matrix instruction, if the target has one;
                                                  else a serial loop over g around the tile
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var, reads, substitute, variables
from ansorpy.expr.gathers import index_reads
from ansorpy.expr.intervals import Interval, bounds, linear
from ansorpy.loopir.nodes import (
    WRITTEN_OUT,
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Prefetch,
    Program,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.passes.dot import dot_function
from ansorpy.loopir.passes.matrices import matrix_tiles
from ansorpy.loopir.passes.scalar_replacement import held_vectors
from ansorpy.loopir.rewrite import map_phases, stmt_children
from ansorpy.target import GpuTarget, Target

VECTORS: Final = 64  # vectors per tile at most; longer code would exceed the instruction cache
# Vectors per tile along the lanes of a copy or a map that exceeds the registers: its vectors are
# not kept in registers, so that a larger tile gains nothing.
COPIED: Final = 16
POINTS: Final = 1024  # statements of one thread per tile at most
LONG: Final = 4  # vectors per tile of a vector loop of more than VECTORS vectors


@dataclass(frozen=True)
class _Tiling:
    buffers: Mapping[str, Buffer]
    target: Target
    longest: Mapping[str, int]  # most iterations of the vector loops of a variable, for a GPU


def tile(program: Program, target: Target) -> Program:
    """Return the program in which every store is a Tile.

    Needs        a bound, peeled program.
    Keeps        the meaning.
    After        all loops are SERIAL or PARALLEL.
    Not handled  written-out loops around several statements: they become serial.
    """

    def tiled(body: Stmt) -> Stmt:
        longest: dict[str, int] = {}
        if isinstance(target, GpuTarget):
            _collect_longest(body, program.ranges, longest)
        return _tile(body, _Tiling(program.by_name, target, longest), program.ranges)

    return map_phases(program, tiled)


def _collect_longest(stmt: Stmt, ranges: Mapping[str, Interval], longest: dict[str, int]) -> None:
    """Note the most iterations of the vector loops of every variable.

    Tiles along one variable then have equal lanes and equal dims, tails of a loop included: a tail
    masks threads, and sums of all of them stay in the same registers.
    """
    if isinstance(stmt, For):
        most = bounds(stmt.extent, ranges)[1]
        if stmt.kind is LoopKind.VECTOR:
            longest[stmt.var] = max(most, longest.get(stmt.var, 1))
        ranges = {**ranges, stmt.var: (0, max(0, most - 1))}
    for part in stmt_children(stmt):
        _collect_longest(part, ranges, longest)


def _tile(stmt: Stmt, how: _Tiling, ranges: Mapping[str, Interval]) -> Stmt:
    match stmt:
        case Store():
            return Tile((), (), stmt)
        case Tile() | Prefetch():
            return stmt
        case Seq(stmts=stmts):
            return Seq(tuple(_tile(part, how, ranges) for part in stmts))
        case If(then=then, other=other):
            rest = None if other is None else _tile(other, how, ranges)
            return replace(stmt, then=_tile(then, how, ranges), other=rest)
        case Alloc(buffer=buffer, body=body):
            inner = replace(how, buffers={**how.buffers, buffer.name: buffer})
            return replace(stmt, body=_tile(body, inner, ranges))
        case For():
            return _tile_for(stmt, how, ranges)


def _tile_for(loop: For, how: _Tiling, ranges: Mapping[str, Interval]) -> Stmt:
    inside = {**ranges, loop.var: (0, max(0, bounds(loop.extent, ranges)[1] - 1))}
    if loop.kind in (LoopKind.SERIAL, LoopKind.PARALLEL):
        return replace(loop, body=_tile(loop.body, how, inside))
    chain, cond, store = _chain(loop)
    if store is None:
        return replace(loop, kind=LoopKind.SERIAL, body=_tile(loop.body, how, inside))
    if any(each.kind is LoopKind.THREAD for each in chain):
        return _thread_tile(chain, cond, store)
    vector = next((each for each in chain if each.kind is LoopKind.VECTOR), None)
    whole = _on_matrices(chain, cond, store, how)
    if whole is not None:
        return whole
    groups = [each for each in chain if each.kind is LoopKind.GROUP]
    if groups:
        return _tile(_around(groups, chain, cond, store), how, ranges)
    dims = [each for each in chain if each is not vector]
    lanes, count = 1, 1
    if vector is not None:
        most = max(bounds(vector.extent, ranges)[1], how.longest.get(vector.var, 0))
        lanes = min(_lanes(store, vector.var, how), _power_of_two(most))
        count = -(-most // lanes)
        cut = _cut(chain, vector, cond, store, (lanes, count, held_vectors(how.target)))
        if cut is not None:
            return _tile(cut, how, ranges)
    function = None if cond else _instruction(chain, vector, store, lanes, how)
    steps = dims.pop() if function else None
    outside = _beyond(dims, count, VECTORS)
    dims = dims[len(outside) :]
    tiled = _register_tile(dims, vector, (lanes, count), cond, store, ranges)
    if function and steps is not None:
        tiled = _summed(tiled, steps, function)
    made: Stmt = tiled
    for each in reversed(outside):
        made = replace(each, kind=LoopKind.SERIAL, body=made)
    return made


def _thread_tile(chain: list[For], cond: Expr | None, store: Store) -> Stmt:
    """Return the tile of a nest with loops of threads, with the outermost other loops outside."""
    lanes = [each for each in chain if each.kind is LoopKind.THREAD]
    dims = [each for each in chain if each.kind is not LoopKind.THREAD]
    outside = _beyond(dims, 1, POINTS)
    pairs = [
        tuple((each.var, int(each.extent.value)) for each in part if isinstance(each.extent, Const))
        for part in (dims[len(outside) :], lanes)
    ]
    made: Stmt = Tile(pairs[0], pairs[1], store, cond)
    for each in reversed(outside):
        made = replace(each, kind=LoopKind.SERIAL, body=made)
    return made


def _beyond(dims: list[For], count: int, most: int) -> list[For]:
    """Return the outermost loops to move out of a tile, so that it has at most `most` vectors."""
    first = 0
    while first < len(dims) and _vectors(dims[first:], count) > most:
        first += 1
    return dims[:first]


def _on_matrices(chain: list[For], cond: Expr | None, store: Store, how: _Tiling) -> Stmt | None:
    """Return the tiles of a matrix instruction; None if a dot-product instruction is better.

    A single remaining group has no loop: a dot-product instruction takes it, if there is one.
    """
    vector = next((each for each in chain if each.kind is LoopKind.VECTOR), None)
    if vector is None or cond is not None or chain[-1].kind is not LoopKind.DOT:
        return None
    if not any(each.kind is LoopKind.GROUP for each in chain):
        lanes = how.target.lanes(how.buffers[store.buffers[0]].dtype)
        if dot_function(store, chain[-1], vector.var, lanes, how.buffers, how.target):
            return None
    return matrix_tiles(chain, store, how.buffers, how.target)


def _cut(
    chain: list[For], vector: For, cond: Expr | None, store: Store, size: tuple[int, int, int]
) -> For | None:
    """Return a chain as serial loops around a smaller chain; None if its tile is small enough.

    Args:
        size: the number of lanes, of vectors along them, and of vectors that stay in registers.
    """
    (lanes, count, held), dims = size, [each for each in chain if each is not vector]
    rows = _rows_outside(dims, vector, count, store, held)
    if rows:
        return _around(rows, chain, cond, store)
    part = _part(dims, vector, size, store)
    return _strip(chain[0], vector, lanes * part) if part < count else None


def _rows_outside(dims: list[For], vector: For, count: int, store: Store, held: int) -> list[For]:
    """Return the rows of a copy or a map to move out of its tile, to access memory in order.

    Return none if lanes of an access are not adjacent: these are transposed, several rows at a
    time.
    """
    places = [store.index, *(read.indices for v in store.values for read in reads(v))]
    if _vectors(dims, count) <= held or _accumulates(store):
        return []
    if not all(_lies_along(each, vector.var) for each in places):
        return []
    return _beyond(dims, count, COPIED)


def _lies_along(indices: tuple[Expr, ...], lane: str) -> bool:
    """Return True if the lanes of an access are adjacent, or all at one address."""
    moving = [index for index in indices if lane in variables(index)]
    if not moving:
        return True
    form = linear(indices[-1])
    return moving == [indices[-1]] and form is not None and form[1].get(lane) == 1


def _around(outside: list[For], chain: list[For], cond: Expr | None, store: Store) -> For:
    """Return a chain with some of its loops as serial loops outside of the others."""
    body: Stmt = store if cond is None else If(cond, store)
    for each in reversed([each for each in chain if each not in outside]):
        body = replace(each, body=body)
    for each in reversed(outside):
        body = replace(each, kind=LoopKind.SERIAL, body=body)
    assert isinstance(body, For)
    return body


def _part(dims: list[For], vector: For, size: tuple[int, int, int], store: Store) -> int:
    """Return the number of vectors along the lanes, out of `count`, that stay in one tile."""
    lanes, count, held = size
    if count > VECTORS:
        rows = 1 if _accumulates(store) else _vectors(dims, 1)
        return max(1, min(LONG, COPIED // rows))
    even = vector.extent == Const(count * lanes)
    if _vectors(dims, count) <= held or _accumulates(store) or not even:
        return count
    return _even_part(count, COPIED // _vectors(dims, 1))


def _accumulates(store: Store) -> bool:
    """Return True if a store accumulates, or initialises an accumulator."""
    return store.combiner is not None or not any(True for v in store.values for _ in reads(v))


def _even_part(count: int, most: int) -> int:
    """Return the largest divisor of `count` that is at most `most`, at least 1."""
    return max((part for part in range(1, most + 1) if count % part == 0), default=1)


def _instruction(
    chain: list[For], vector: For | None, store: Store, lanes: int, how: _Tiling
) -> str | None:
    """Return the instruction that sums over the last loop of a chain, if one does."""
    if vector is None or chain[-1].kind is not LoopKind.DOT:
        return None
    return dot_function(store, chain[-1], vector.var, lanes, how.buffers, how.target)


def _chain(loop: For) -> tuple[list[For], Expr | None, Store | None]:
    """Return the perfect nest of written-out loops, the condition inside, and the store.

    The store is None if the nest has another body.
    """
    chain = []
    stmt: Stmt = loop
    while isinstance(stmt, For) and stmt.kind in WRITTEN_OUT:
        chain.append(stmt)
        stmt = stmt.body
    vectors = sum(each.kind is LoopKind.VECTOR for each in chain)
    cond = None
    if isinstance(stmt, If) and stmt.other is None:
        cond, stmt = stmt.cond, stmt.then
    return chain, cond, stmt if isinstance(stmt, Store) and vectors <= 1 else None


def _lanes(store: Store, lane: str, how: _Tiling) -> int:
    """Return the lanes of the widest dtype, without the indices of a row that all lanes share."""
    taken = [read for value in store.values for read in reads(value)]
    inner = frozenset[Read]().union(*map(index_reads, store.values))
    found = {how.buffers[name].dtype for name in store.buffers}
    found |= {r.dtype for r in taken if r not in inner or lane in variables(r)}
    found |= {value.dtype for value in store.values if reads(value)}
    return how.target.lanes(max(found, key=lambda dtype: SIZE_BYTES[dtype]))


def _power_of_two(most: int) -> int:
    return 1 << max(0, most - 1).bit_length()


def _vectors(dims: list[For], count: int) -> int:
    for each in dims:
        assert isinstance(each.extent, Const)
        count *= int(each.extent.value)
    return count


def _strip(loop: For, vector: For, width: int) -> For:
    """Cut a vector loop into a serial loop over shorter ones, outside of the chain."""
    outer = f"{vector.var}.s"
    left = Binary("sub", vector.extent, Binary("mul", Var(outer), Const(width)))
    place: Expr = Binary("add", Binary("mul", Var(outer), Const(width)), Var(vector.var))

    def cut(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, For | If | Store)
        swap = {vector.var: place}
        if isinstance(stmt, If):
            return If(substitute(stmt.cond, swap), cut(stmt.then))
        if isinstance(stmt, Store):
            index = tuple(substitute(e, swap) for e in stmt.index)
            values = tuple(substitute(e, swap) for e in stmt.values)
            return replace(stmt, index=index, values=values)
        extent = part if stmt is vector else stmt.extent
        return replace(stmt, extent=extent, body=cut(stmt.body))

    if isinstance(vector.extent, Const) and vector.extent.value % width == 0:
        part: Expr = Const(width)
        return For(outer, Const(vector.extent.value // width), cut(loop))
    part = Binary("min", Const(width), left)
    whole = Binary("add", vector.extent, Const(width - 1))
    return For(outer, Binary("floordiv", whole, Const(width)), cut(loop))


def _register_tile(
    dims: list[For],
    vector: For | None,
    size: tuple[int, int],
    cond: Expr | None,
    store: Store,
    ranges: Mapping[str, Interval],
) -> Tile:
    pairs = []
    for each in dims:
        assert isinstance(each.extent, Const)
        pairs.append((each.var, int(each.extent.value)))
    if vector is None:
        return Tile(tuple(pairs), (), store, cond)
    most = bounds(vector.extent, ranges)[1]
    lanes, count = size
    lane = f"{vector.var}.l"
    place: Expr = Var(lane)
    if count > 1:
        pairs.append((f"{vector.var}.n", count))
        place = Binary("add", Binary("mul", Var(f"{vector.var}.n"), Const(lanes)), place)
    mask: Expr | None = None
    if not (isinstance(vector.extent, Const) and most == count * lanes):
        mask = Binary("lt", place, vector.extent)
    swap = {vector.var: place}
    index = tuple(substitute(e, swap) for e in store.index)
    values = tuple(substitute(e, swap) for e in store.values)
    if cond is not None:
        cond = substitute(cond, swap)
        mask = cond if mask is None else Binary("and", mask, cond)
    if lanes == 1 and count == 1:
        only = {lane: Const(0)}
        store = replace(
            store,
            index=tuple(substitute(e, only) for e in index),
            values=tuple(substitute(e, only) for e in values),
        )
        return Tile(tuple(pairs), (), store, None if mask is None else substitute(mask, only))
    return Tile(tuple(pairs), ((lane, lanes),), replace(store, index=index, values=values), mask)


def _summed(tile: Tile, steps: For, function: str) -> Tile:
    """Return a tile whose last dimension is summed by a dot-product instruction."""
    assert isinstance(steps.extent, Const)
    dims = (*tile.dims, (steps.var, int(steps.extent.value)))
    return replace(tile, dims=dims, dot=(steps.var, function))
