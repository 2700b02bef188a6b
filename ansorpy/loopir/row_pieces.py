"""Written-out rows of a tail, for an extent that a call decides.

A tail of at most 7 rows has code for each number of rows; a longer one is in pieces of 8, 4, 2 and
1 rows, whose code is as long as the code of the whole tile:

unroll i in r: C[t + i] = ...
    ->      if r == 1: C[t] = ...;  if r == 2: unroll i in 2: C[t + i] = ...        with r < 3
    ->      if r // 4 % 2 == 1: unroll i in 4: C[t + i] = ...                      with r < 16
            if r // 2 % 2 == 1: unroll i in 2: C[t + r // 4 * 4 + i] = ...
            if r % 2 == 1: C[t + r // 2 * 2] = ...                  and so on

Each piece reads the other operands again. A loop over the rows would keep no sums in registers.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ansorpy.expr.build import ONE, ZERO, add, floordiv, mod, mul
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var, children, reads, rebuild, variables
from ansorpy.loopir.nodes import Alloc, For, If, LoopKind, Prefetch, Stmt, Store, Tile
from ansorpy.loopir.rewrite import (
    map_own_exprs,
    rebuild_stmt,
    seq,
    stmt_children,
    stores,
    walk_stmt,
)

EACH: Final = 8  # rows of a tile, up to which each number of rows in its tail has code of its own
MOST: Final = 16  # rows of a tile; a longer tail runs row by row


def in_pieces(body: Stmt, tail: Expr, most: int) -> Stmt | None:
    """Return a body whose loops of extent `tail`, at least 1 and below `most`, are in pieces.

    Return None if a piece would not be right alone: a loop of that extent is along lanes, a sum
    runs over the rows, or scratch of the rows is used beside them.
    """
    if most > MOST or not _apart(body, tail):
        return None
    rows = _scratch_of_rows(body, tail)
    if most <= EACH:
        counts = [Const(count) for count in range(1, most)]
        return seq(*(If(eq(tail, one), _piece(body, tail, one, ZERO, rows)) for one in counts))
    pieces = []
    size = 1
    while size < most:
        whole, count = Const(size), Const(2 * size)
        offset = mul(floordiv(tail, count), count) if 2 * size < most else ZERO
        part = _piece(body, tail, whole, offset, rows)
        pieces.append(If(eq(mod(floordiv(tail, whole), Const(2)), ONE), part))
        size *= 2
    return seq(*reversed(pieces))


def eq(a: Expr, b: Expr) -> Expr:
    """Return the condition that two integers are equal."""
    return Binary("eq", a, b)


def _loops(body: Stmt, tail: Expr) -> Iterator[For]:
    for stmt in walk_stmt(body):
        if isinstance(stmt, For) and stmt.extent == tail:
            yield stmt


def _scratch_of_rows(body: Stmt, tail: Expr) -> frozenset[str]:
    """Return the buffers of the body that only loops over the rows touch: they begin at row 0."""
    own = {stmt.buffer.name for stmt in walk_stmt(body) if isinstance(stmt, Alloc)}
    return frozenset(own - _touched_outside(body, tail))


def _touched_outside(stmt: Stmt, tail: Expr) -> set[str]:
    """Return the buffers that statements outside of the loops over the rows touch."""
    if isinstance(stmt, For) and stmt.extent == tail:
        return set()
    found = set[str]()
    for part in stmt_children(stmt):
        found |= _touched_outside(part, tail)
    if isinstance(stmt, Store):
        found.update(stmt.buffers)
        found.update(read.tensor for value in stmt.values for read in reads(value))
    return found


def _apart(body: Stmt, tail: Expr) -> bool:
    """Return True if the rows of the body can be computed some at a time, in any order."""
    loops = list(_loops(body, tail))
    if any(loop.kind not in (LoopKind.UNROLL, LoopKind.SERIAL) for loop in loops):
        return False
    if any(inner is not loop for loop in loops for inner in _loops(loop, tail)):
        return False  # two axes of one extent
    stored = {name for loop in loops for store in stores(loop) for name in store.buffers}
    if stored & _touched_outside(body, tail):
        return False  # a statement beside the rows may need all of them
    return _summed_apart(body, tail, frozenset())


def _summed_apart(stmt: Stmt, tail: Expr, rows: frozenset[str]) -> bool:
    """Return True if every sum is of one row, or belongs to the body alone."""
    match stmt:
        case Store(combiner=combiner, index=index):
            kept = frozenset[str]().union(*map(variables, index))
            return combiner is None or bool(rows & kept)
        case Tile() | Prefetch():
            return False
        case For(var=var, extent=extent) if extent == tail:
            rows = rows | {var}
        case _:
            pass
    return all(_summed_apart(part, tail, rows) for part in stmt_children(stmt))


def _piece(stmt: Stmt, tail: Expr, count: Const, offset: Expr, own: frozenset[str]) -> Stmt:
    """Return a body of `count` rows, the first of which is row `offset` of the tail."""
    parts = tuple(_piece(part, tail, count, offset, own) for part in stmt_children(stmt))
    stmt = rebuild_stmt(stmt, parts) if parts else stmt
    if not isinstance(stmt, For) or stmt.extent != tail:
        return stmt
    return replace(stmt, extent=count, body=_moved(stmt.body, stmt.var, offset, own))


def _moved(stmt: Stmt, var: str, offset: Expr, own: frozenset[str]) -> Stmt:
    """Return a statement with a variable moved by `offset`, except in scratch of the rows."""
    place = add(offset, Var(var))

    def change(expr: Expr) -> Expr:
        match expr:
            case Var(name=name) if name == var:
                return place
            case Read(tensor=tensor) if tensor in own:
                return expr
            case _:
                return rebuild(expr, tuple(map(change, children(expr))))

    if isinstance(stmt, Store) and set(stmt.buffers) <= own:
        return replace(stmt, values=tuple(map(change, stmt.values)))
    stmt = map_own_exprs(stmt, change)
    parts = tuple(_moved(part, var, offset, own) for part in stmt_children(stmt))
    return rebuild_stmt(stmt, parts) if parts else stmt
