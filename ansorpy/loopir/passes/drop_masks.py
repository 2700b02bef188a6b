"""Drop the mask of a store to a register tile if every load of the tile has the same mask.

if l < 14: acc[l] += X[l] * w;  if l < 14: C[l] = acc[l]
        ->      acc[l] += (X[l] if l < 14 else 0) * w;  if l < 14: C[l] = acc[l]

A masked accumulation preserves the other lanes, which costs a blend and a move per register. A
masked load needs no blend, because its other lanes are zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from ansorpy.expr.build import zero
from ansorpy.expr.dtypes import FLOATS
from ansorpy.expr.expr import (
    Binary,
    Const,
    Expr,
    Read,
    Select,
    Var,
    children,
    reads,
    rebuild,
    substitute,
    variables,
)
from ansorpy.expr.intervals import Interval, bounds
from ansorpy.expr.products import conjunction, conjuncts
from ansorpy.loopir.nodes import Alloc, For, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt


def drop_masks(program: Program) -> Program:
    """Return the program with register tiles written without the masks that all readers have.

    Needs        a tiled program.
    Keeps        the meaning of everything outside of register tiles.
    After        a tile that stores to a REGISTER buffer has no condition on its points that all
                 tiles reading the buffer have as well; its loads from other buffers are zero for
                 points that fail the condition.
    Not handled  integers (a division by zero would trap), dot-product and matrix instructions.
    """

    def change(body: Stmt) -> Stmt:
        allocs = [part for part in walk_stmt(body) if isinstance(part, Alloc)]
        tiles = frozenset(a.buffer.name for a in allocs if a.buffer.scope is Scope.REGISTER)
        if not tiles:
            return body
        loops = _ranges(body, program.ranges)
        return map_stmt(body, lambda part: _unobserved(part, tiles, loops))

    return map_phases(program, change)


def _ranges(body: Stmt, dims: Mapping[str, Interval]) -> dict[str, Interval]:
    """Return the range of every variable of a phase; loops of one name are merged."""
    ranges = dict(dims)
    for part in walk_stmt(body):
        if isinstance(part, For):
            _, most = bounds(part.extent, ranges)
            _, before = ranges.get(part.var, (0, 0))
            ranges[part.var] = (0, max(most - 1, before))
    return ranges


def _unobserved(stmt: Stmt, registers: frozenset[str], loops: Mapping[str, Interval]) -> Stmt:
    if not isinstance(stmt, Alloc) or stmt.buffer.scope is not Scope.REGISTER:
        return stmt
    if stmt.buffer.dtype not in FLOATS:  # 1 / 0 is infinity for floats, a trap for integers
        return stmt
    looked_at = [
        frozenset(_conditions(tile, read.indices))
        for tile in walk_stmt(stmt.body)
        if isinstance(tile, Tile)
        for value in tile.store.values
        for read in reads(value)
        if read.tensor == stmt.buffer.name
    ]
    common = reduce(frozenset.intersection, looked_at) if looked_at else frozenset()
    if not common:
        return stmt

    def change(part: Stmt) -> Stmt:
        if not isinstance(part, Tile) or part.store.buffers != (stmt.buffer.name,):
            return part
        return _without(part, stmt, common, registers, loops)

    return replace(stmt, body=map_stmt(stmt.body, change))


def _conditions(tile: Tile, index: tuple[Expr, ...]) -> dict[Expr, Expr]:
    """Return the conjuncts of a mask over the variables of an index, by position and as they are.

    The keys name an index by its position, so that conditions of several tiles can be compared.
    """
    own = {name for name, _ in tile.spans}
    place = {e.name: Var(f"#{k}") for k, e in enumerate(index) if isinstance(e, Var)}
    place = {name: var for name, var in place.items() if name in own}
    parts = () if tile.mask is None else conjuncts(tile.mask)
    return {substitute(part, place): part for part in parts if variables(part) <= place.keys()}


def _without(
    tile: Tile,
    held: Alloc,
    common: frozenset[Expr],
    registers: frozenset[str],
    loops: Mapping[str, Interval],
) -> Tile:
    """Return a tile that stores to the buffer of `held`, without the common conditions."""
    if tile.mask is None or tile.dot is not None or tile.matrix is not None:
        return tile
    taken = [read for value in tile.store.values for read in reads(value)]
    if any(read.tensor in registers or any(map(reads, read.indices)) for read in taken):
        return tile
    found = _conditions(tile, tile.store.index)
    dropped = [part for meaning, part in found.items() if meaning in common]
    left = [part for part in conjuncts(tile.mask) if part not in dropped]
    if not dropped or not _fits(tile, held) or not _meet(tile, dropped, left, loops):
        return tile
    values = tuple(_guarded(value, conjunction(dropped)) for value in tile.store.values)
    store = replace(tile.store, values=values)
    return replace(tile, mask=conjunction(left) if left else None, store=store)


def _meet(
    tile: Tile, dropped: Sequence[Expr], left: Sequence[Expr], loops: Mapping[str, Interval]
) -> bool:
    """Return True if some lane satisfies all conditions for any value of the other variables.

    Loads that do not depend on the dropped conditions then happen in the original program as
    well. For example, X[j + r - 1] under 0 < j + r holds at the first lane except for r = 0.
    """
    own = dict(tile.spans)
    moved = frozenset[str]().union(*map(variables, dropped))
    conds = [*dropped, *(part for part in left if not moved.isdisjoint(variables(part)))]
    still = {name: (0, 0) if name in moved else (0, n - 1) for name, n in own.items()}
    name, count = tile.lane or ("", 1)
    return any(
        all(bounds(cond, {**loops, **still, name: (place, place)})[0] for cond in conds)
        for place in range(count if name in moved else 1)
    )


def _fits(tile: Tile, held: Alloc) -> bool:
    """Return True if all points of a tile are within the buffer."""
    extent = dict(tile.spans)
    return all(
        isinstance(size, Const) and extent[e.name] <= size.value
        for e, size in zip(tile.store.index, held.buffer.shape, strict=True)
        if isinstance(e, Var) and e.name in extent
    )


def _guarded(value: Expr, cond: Expr, every: bool = False) -> Expr:
    """Return a value whose loads are zero for the points that fail a condition.

    Args:
        every: also guard loads that do not depend on the condition, because they are within a
            branch that was chosen by it.
    """
    match value:
        case Select(cond=inside, then=Read(), other=Const(value=0)):
            return replace(value, cond=Binary("and", _guarded(inside, cond, every), cond))
        case Select(cond=inside, then=then, other=other):
            test, chosen = _guarded(inside, cond, every), every or _related(inside, cond)
            return Select(test, _guarded(then, cond, chosen), _guarded(other, cond, chosen))
        case Read() if every or _related(value, cond):
            return Select(cond, value, zero(value.dtype))
        case Read():
            return value
        case _:
            return rebuild(value, tuple(_guarded(part, cond, every) for part in children(value)))


def _related(a: Expr, b: Expr) -> bool:
    return bool(variables(a) & variables(b))
