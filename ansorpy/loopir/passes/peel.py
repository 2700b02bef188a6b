"""Peel the tails of register tiles whose sizes do not divide the extent.

for j in E: vector l in min(48, N - 48 j)      ->      for j in N / 48: vector l in 48
                                                       the rest, with vector l in N mod 48
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, substitute, variables
from ansorpy.expr.intervals import (
    NO_FACTS,
    Facts,
    Interval,
    assume,
    bounds,
    linear,
    simplify,
)
from ansorpy.loopir.nodes import Alloc, For, If, LoopKind, Program, Seq, Stmt
from ansorpy.loopir.passes.bind_sizes import refold
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt
from ansorpy.loopir.row_pieces import each_count

WRITTEN_OUT: Final = (LoopKind.UNROLL, LoopKind.VECTOR, LoopKind.GROUP)
_COUNTED: Final = (LoopKind.UNROLL, LoopKind.GROUP)
DEPTH: Final = 3  # axes whose tails are peeled at most; each doubles the code


def peel(program: Program) -> Program:
    """Return the program with constant extents for the UNROLL loops of whole tiles.

    Needs        a bound program.
    Keeps        the meaning.
    After        an UNROLL loop has a constant extent; a VECTOR loop has one as well, or its extent
                 becomes a mask; a GROUP loop may have an open extent.
    Not handled  more than DEPTH axes with tails: their loops become serial.
    """
    dims = frozenset(program.ranges)
    return map_phases(program, lambda body: _settle(_peel(body, program.ranges, DEPTH, dims)))


def _peel(
    stmt: Stmt,
    ranges: Mapping[str, Interval],
    depth: int,
    dims: frozenset[str],
    facts: Facts = NO_FACTS,
) -> Stmt:
    match stmt:
        case For(var=var, extent=extent, body=body, kind=kind) if kind not in WRITTEN_OUT:
            inside = {**ranges, var: (0, max(0, bounds(extent, ranges)[1] - 1))}
            tail = _tail(body, inside) if depth and not _parallel(body) else None
            if tail is None:
                return replace(stmt, body=_peel(body, inside, depth, dims, facts))
            split = _split(stmt, tail, ranges, inside)
            if split is not None:
                rest = [_peel(part, ranges, depth - 1, dims, facts) for part in split if part]
                return Seq(tuple(rest))
            chosen = _chosen(body, tail, inside, dims, facts)
            return replace(stmt, body=_peel(chosen, inside, depth - 1, dims, facts))
        case Seq(stmts=stmts):
            return Seq(tuple(_peel(part, ranges, depth, dims, facts) for part in stmts))
        case If(cond=cond, then=then, other=other):
            last = None
            if other is not None:
                by_call = not dims.isdisjoint(variables(cond))
                denied = assume(cond, ranges, facts, holds=False) if by_call else facts
                last = _peel(_bounded(other, ranges, denied), ranges, depth, dims, denied)
            return replace(stmt, then=_peel(then, ranges, depth, dims, facts), other=last)
        case Alloc(body=body):
            return replace(stmt, body=_peel(body, ranges, depth, dims, facts))
        case _:
            return stmt


def _parallel(body: Stmt) -> bool:
    """Return True if the body is a parallel loop: no statement may be between parallel loops."""
    return isinstance(body, For) and body.kind is LoopKind.PARALLEL


def _tail(body: Stmt, ranges: Mapping[str, Interval]) -> Expr | None:
    """Return an open extent of a written-out loop that depends on outer loops only."""
    for stmt in walk_stmt(body):
        if not isinstance(stmt, For) or stmt.kind not in WRITTEN_OUT or _known(stmt.extent):
            continue
        if variables(stmt.extent) <= set(ranges):
            return stmt.extent
    return None


def _known(extent: Expr) -> bool:
    return isinstance(extent, Const)


def _both(body: Stmt, tail: Expr, ranges: Mapping[str, Interval]) -> tuple[Stmt, Stmt]:
    """Return the body for whole tiles, and for the tail."""
    most = bounds(tail, ranges)[1]
    rest = _rest(tail, most)
    return _with_extent(body, tail, Const(most)), _with_extent(body, tail, rest)


def _chosen(
    body: Stmt, tail: Expr, ranges: Mapping[str, Interval], dims: frozenset[str], facts: Facts
) -> Stmt:
    """Return `if the tile is whole: the body for whole tiles, else: the body for the tail`.

    Each branch is folded under its condition, which decides inner guards and extents. A tail that
    a call decides has code for each number of rows, alone if the facts say that no tile is whole.
    """
    whole, rest = _both(body, tail, ranges)
    most = Const(bounds(tail, ranges)[1])
    if variables(tail) & dims:
        known = bounds(tail, ranges, facts)[1]
        if known < most.value:
            return each_count(body, tail, known + 1) or body
        rest = each_count(body, tail, int(most.value)) or rest
    conds = [Binary("ge", part, most) for part in _parts(tail) if not _known(part)]
    changed = frozenset({*variables(tail), *_bounded_by(tail, body)})
    chosen = If(reduce(partial(Binary, "and"), conds), whole, rest)
    return refold(chosen, ranges, changed) or Seq(())


def _bounded(stmt: Stmt, ranges: Mapping[str, Interval], facts: Facts) -> Stmt:
    """Return a statement whose loops along lanes are as short as facts of calls say.

    A fold drops the min of `vector l in min(16, N - 16 j)` in the branch of the tail; lanes would
    then be as many as for the largest N.
    """

    def change(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.kind is not LoopKind.VECTOR or _known(stmt.extent):
            return stmt
        most = bounds(stmt.extent, ranges, facts)[1] + 1
        if not 0 < most < bounds(stmt.extent, ranges)[1]:
            return stmt
        return replace(stmt, extent=Binary("min", Const(most), stmt.extent))

    return map_stmt(stmt, change) if facts else stmt


def _parts(tail: Expr) -> Iterator[Expr]:
    """Yield the operands of the min that an extent is."""
    match tail:
        case Binary(op="min", a=a, b=b):
            yield from _parts(a)
            yield from _parts(b)
        case _:
            yield tail


def _with_extent(body: Stmt, old: Expr, new: Expr) -> Stmt:
    def change(stmt: Stmt) -> Stmt:
        match stmt:
            case For(extent=extent, kind=kind) if kind in _COUNTED and extent == old:
                return replace(stmt, extent=new)
            # A tail keeps the shape of the whole tile; the open extent becomes a mask.
            case For(extent=extent, kind=LoopKind.VECTOR) if extent == old and _known(new):
                return replace(stmt, extent=new)
        return stmt

    return map_stmt(body, change)


def _rest(tail: Expr, most: int) -> Expr:
    """Return the extent of the tail, as a number if the sizes determine it."""
    form = None
    match tail:
        case Binary(op="min", a=Const(), b=left) | Binary(op="min", a=left, b=Const()):
            form = linear(left)
        case _:
            form = linear(tail)
    if form is None:
        return tail
    constant, terms = form
    if terms and all(factor % most == 0 for factor in terms.values()) and constant % most:
        return Const(constant % most)
    return tail


def _split(
    loop: For, tail: Expr, ranges: Mapping[str, Interval], inside: Mapping[str, Interval]
) -> tuple[Stmt | None, Stmt | None] | None:
    """Return the loop as whole tiles and a last iteration; None if that is not possible.

    Both are folded before inner tails are peeled, because the new ranges may decide them; a whole
    tile would otherwise run as a loop of single vectors.
    """
    if loop.kind is not LoopKind.SERIAL or not isinstance(loop.extent, Const):
        return None
    if variables(tail) != {loop.var}:
        return None
    last = int(loop.extent.value) - 1
    most = bounds(tail, inside)[1]
    before = bounds(tail, {loop.var: (0, last - 1)}) if last else (0, 0)
    if before[0] < most:
        return None
    whole, _ = _both(loop.body, tail, inside)
    size = simplify(substitute(tail, {loop.var: Const(last)}), {})
    rest = _with_extent(loop.body, tail, size)
    changed = frozenset({loop.var, *_bounded_by(tail, loop.body)})
    last_one = refold(rest, ranges, changed, {loop.var: last})
    if last == 1:
        return refold(whole, ranges, changed, {loop.var: 0}), last_one
    return refold(replace(loop, extent=Const(last), body=whole), ranges, changed), last_one


def _bounded_by(tail: Expr, body: Stmt) -> Iterator[str]:
    """Yield the variables of the loops whose extent is the tail."""
    for stmt in walk_stmt(body):
        if isinstance(stmt, For) and stmt.extent == tail:
            yield stmt.var


def _settle(body: Stmt) -> Stmt:
    """Make every UNROLL loop of open extent serial."""

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLL and not _known(stmt.extent):
            return replace(stmt, kind=LoopKind.SERIAL)
        return stmt

    return map_stmt(body, change)
