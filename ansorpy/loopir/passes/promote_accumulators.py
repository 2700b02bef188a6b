"""Keep accumulators in registers across reduction loops.

for k: C[i] += A[k, i]      ->      acc[i] = C[i];  for k: acc[i] += A[k, i];  C[i] = acc[i]
"""

from dataclasses import replace

from ansorpy.expr.expr import Const, Expr, Read, Var, reads, variables
from ansorpy.expr.products import conjunction, conjuncts
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.passes.scalar_replacement import VECTORS, vectors
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt


def promote_accumulators(program: Program) -> Program:
    """Return the program with accumulators of serial loops in register tiles.

    Needs        a tiled program.
    Keeps        the meaning and the order of the additions.
    After        a combining store whose target does not move in its innermost serial loops writes
                 to a REGISTER buffer.
    Not handled  targets of more than VECTORS vectors, targets that another statement of the loop
                 accesses, and matrix instructions.
    """
    scopes = {buffer.name: buffer for buffer in program.buffers}
    return map_phases(program, lambda body: _promote(body, dict(scopes)))


def _promote(stmt: Stmt, buffers: dict[str, Buffer]) -> Stmt:
    """Rewrite top-down, so that a promotion spans as many loops as possible."""
    match stmt:
        case Seq(stmts=stmts):
            return _sequence(stmts, buffers)
        case For():
            return _sequence((stmt,), buffers)
        case Alloc(buffer=buffer, body=body):
            return replace(stmt, body=_promote(body, {**buffers, buffer.name: buffer}))
        case If(then=then, other=other):
            rest = None if other is None else _promote(other, buffers)
            return replace(stmt, then=_promote(then, buffers), other=rest)
        case _:
            return stmt


def _sequence(stmts: tuple[Stmt, ...], buffers: dict[str, Buffer]) -> Stmt:
    done: list[Stmt] = []
    for stmt in stmts:
        if not isinstance(stmt, For):
            done.append(_promote(stmt, buffers))
            continue
        tile = _candidate(stmt, buffers) if stmt.kind is LoopKind.SERIAL else None
        if tile is None:
            done.append(replace(stmt, body=_promote(stmt.body, buffers)))
            continue
        before = done[-1] if done else None
        held = replace(tile, mask=_standing(tile.mask, stmt))
        first = _first_value(before, held)
        if first is not None:
            done.pop()
        done.append(_accumulate(stmt, tile, held, first, before, buffers))
    return done[0] if len(done) == 1 else Seq(tuple(done))


def _candidate(loop: For, buffers: dict[str, Buffer]) -> Tile | None:
    """Return a combining tile whose target does not move in the loop; None if there is none."""
    inside = {stmt.var for stmt in walk_stmt(loop) if isinstance(stmt, For)}
    for stmt in walk_stmt(loop.body):
        if not isinstance(stmt, Tile) or stmt.store.combiner is None or stmt.matrix:
            continue
        scope = buffers.get(stmt.store.buffers[0])
        if scope is None or scope.scope is Scope.REGISTER:
            continue
        moving = {name for index in stmt.store.index for name in variables(index)}
        if moving & inside or vectors(stmt, stmt.store.index) > VECTORS or not _alone(loop, stmt):
            continue
        return stmt
    return None


def _standing(mask: Expr | None, loop: For) -> Expr | None:
    """Return the loop-invariant part of a mask.

    The rest of the mask leaves out terms of the sum, but no elements of the target, which does
    not move in the loop.
    """
    inside = {stmt.var for stmt in walk_stmt(loop) if isinstance(stmt, For)}
    parts = () if mask is None else conjuncts(mask)
    kept = [part for part in parts if not variables(part) & inside]
    return conjunction(kept) if kept else None


def _alone(loop: For, tile: Tile) -> bool:
    """Return True if no other statement in the loop accesses the target of the tile."""
    names = set(tile.store.buffers)
    for stmt in walk_stmt(loop.body):
        if not isinstance(stmt, Tile):
            continue
        read = {each.tensor for value in stmt.store.values for each in reads(value)}
        if read & names or (stmt is not tile and names & set(stmt.store.buffers)):
            return False
    return True


def _variables(tile: Tile) -> list[tuple[str, int]]:
    """Return the tile variables that occur in the index of the target, in order."""
    used = {name for index in tile.store.index for name in variables(index)}
    every = tile.spans
    return [(name, extent) for name, extent in every if name in used]


def _first_value(before: Stmt | None, tile: Tile) -> Tile | None:
    """Return the tile just before that initialises the same elements, else None."""
    if isinstance(before, If) and before.other is None:
        before = before.then
    if not isinstance(before, Tile) or before.store.combiner is not None:
        return None
    same = (
        before.store.buffers == tile.store.buffers
        and before.store.index == tile.store.index
        and before.mask == tile.mask
        and _variables(before) == _variables(tile)
    )
    return before if same else None


def _accumulate(
    loop: For,
    tile: Tile,
    held: Tile,
    first: Tile | None,
    before: Stmt | None,
    buffers: dict[str, Buffer],
) -> Stmt:
    """Return the loop with its accumulators in registers.

    `held` is the tile with the mask of the loads before the loop and of the stores after it.
    """
    names = tuple(f"{name}.acc" for name in tile.store.buffers)
    used = _variables(tile)
    index = tuple(Var(name) for name, _ in used)
    shape = tuple(Const(extent) for _, extent in used)
    dims = tuple(pair for pair in used if pair not in tile.lanes)
    lanes = tuple(pair for pair in used if pair in tile.lanes)
    accs = tuple(
        Buffer(name, buffers[old].dtype, shape, Scope.REGISTER)
        for name, old in zip(names, tile.store.buffers, strict=True)
    )
    olds = tuple(Read(old, tile.store.index, buffers[old].dtype) for old in tile.store.buffers)
    mask = held.mask if held.mask is None or _covers(held, dims, lanes) else None
    load: Stmt = _each(names, index, olds, dims, lanes, mask)
    if first is not None:
        loads = any(reads(value) for value in first.store.values)
        start = _each(names, index, first.store.values, dims, lanes, mask if loads else None)
        load = If(before.cond, start, load) if isinstance(before, If) else start
    new = replace(tile, store=replace(tile.store, buffers=names, index=index))
    inner = map_stmt(loop, lambda stmt: new if stmt is tile else stmt)
    values = tuple(Read(acc.name, index, acc.dtype) for acc in accs)
    back = _each(tile.store.buffers, tile.store.index, values, dims, lanes, mask)
    stmt: Stmt = Seq((load, inner, back))
    for acc in accs:
        stmt = Alloc(acc, stmt)
    return stmt


def _covers(
    tile: Tile, dims: tuple[tuple[str, int], ...], lanes: tuple[tuple[str, int], ...]
) -> bool:
    """Return True if every tile variable of the mask occurs in the target."""
    assert tile.mask is not None
    mine = {name for name, _ in tile.spans}
    kept = {name for name, _ in (*dims, *lanes)}
    return not (variables(tile.mask) & mine) - kept


def _each(
    names: tuple[str, ...],
    index: tuple[Expr, ...],
    values: tuple[Expr, ...],
    dims: tuple[tuple[str, int], ...],
    lanes: tuple[tuple[str, int], ...],
    mask: Expr | None,
) -> Stmt:
    """Return one plain tile per buffer, because a plain store writes to one buffer."""
    tiles = tuple(
        Tile(dims, lanes, Store((name,), index, (value,)), mask)
        for name, value in zip(names, values, strict=True)
    )
    return tiles[0] if len(tiles) == 1 else Seq(tiles)
