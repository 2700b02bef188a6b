"""Split a loop where the choice between tensors changes, so that no iteration chooses.

for i in 9: C[i] = A[i] if i < 4 else B[i - 4]     ->      for i in 4: C[i] = A[i]
                                                           for i in 5: C[i + 4] = B[i]
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final

from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import Binary, Const, Expr, Select, Var, reads, variables, walk
from ansorpy.expr.intervals import Interval, bounds, linear
from ansorpy.loopir.nodes import Alloc, For, If, LoopKind, Program, Seq, Stmt
from ansorpy.loopir.passes.bind_sizes import refold
from ansorpy.loopir.rewrite import map_phases, seq, stores, substitute_stmt, walk_stmt

MOST_PARTS: Final = 64  # copies of a body at most, over all loops around it
COMPARISONS: Final = ("lt", "le", "gt", "ge")


def split_choices(program: Program) -> Program:
    """Return the program with serial loops split where a Select between two tensors is decided.

    Needs        a bound program without tiles.
    Keeps        the meaning.
    After        an iteration whose tile lies in one part of a Concat reads this part only. Loads of
                 the others are masked at every lane, and slow: their addresses may be unmapped.
    Not handled  parallel loops; reduce loops, whose accumulators are one loop's; choices by values
                 of tensors; Selects of a tensor or a number (padding), see `partition_boundary`.
    """
    return map_phases(program, lambda body: _divided(body, program.ranges, MOST_PARTS))


def _divided(stmt: Stmt, ranges: Mapping[str, Interval], most: int) -> Stmt:
    match stmt:
        case For(var=var, extent=extent, body=body, kind=kind):
            edges = sorted({*_edges(stmt, ranges)}) if kind is LoopKind.SERIAL else []
            if edges and most > 1:
                edges = edges[:: -(-len(edges) // (most - 1))]
                places = [0, *edges, int(bounds(extent, ranges)[1])]
                parts = [_part(stmt, low, high, ranges) for low, high in pairwise(places)]
                left = most // len(parts)
                return seq(*(_divided(part, ranges, left) for part in parts if part))
            inside = {**ranges, var: (0, max(0, bounds(extent, ranges)[1] - 1))}
            return replace(stmt, body=_divided(body, inside, most))
        case Seq(stmts=stmts):
            return Seq(tuple(_divided(part, ranges, most) for part in stmts))
        case If(then=then, other=other):
            rest = None if other is None else _divided(other, ranges, most)
            return replace(stmt, then=_divided(then, ranges, most), other=rest)
        case Alloc(body=body):
            return replace(stmt, body=_divided(body, ranges, most))
        case _:
            return stmt


def _edges(loop: For, ranges: Mapping[str, Interval]) -> Iterator[int]:
    """Yield the iterations of a spatial loop from which on a choice is not decided, or is again."""
    if not isinstance(loop.extent, Const):
        return
    stored = [index for store in stores(loop.body) for index in store.index]
    if not any(loop.var in variables(index) for index in stored):
        return
    last = int(loop.extent.value) - 1
    inside = {**ranges, loop.var: (0, last)}
    for part in walk_stmt(loop.body):
        if isinstance(part, For):
            inside[part.var] = (0, max(0, bounds(part.extent, inside)[1] - 1))
    for cond in dict.fromkeys(_choices(loop)):
        decided = partial(_bounds_at, cond, loop.var, inside)
        first, final = decided(0), decided(last)
        if first != final:  # one changes into the other once, because the condition is affine
            yield 1 + bisect_left(range(1, last), True, key=lambda at: decided(at) != first)
            yield 1 + bisect_left(range(1, last), True, key=lambda at: decided(at) == final)


def _bounds_at(cond: Expr, var: str, ranges: Mapping[str, Interval], place: int) -> Interval:
    return bounds(cond, {**ranges, var: (place, place)})


def _choices(loop: For) -> Iterator[Expr]:
    """Yield the affine comparisons with the variable of a loop that choose between tensors."""
    for store in stores(loop.body):
        for value in store.values:
            for part in walk(value):
                if not isinstance(part, Select) or not reads(part.then) or not reads(part.other):
                    continue
                cond = part.cond
                if isinstance(cond, Binary) and cond.op in COMPARISONS and cond.a.dtype == INDEX:
                    form = linear(Binary("sub", cond.a, cond.b))
                    if form is not None and loop.var in form[1]:
                        yield cond


def _part(loop: For, low: int, high: int, ranges: Mapping[str, Interval]) -> Stmt | None:
    """Return the iterations from `low` to `high`, folded; None if they have no effect."""
    place: Expr = Binary("add", Var(loop.var), Const(low)) if low else Var(loop.var)
    body = substitute_stmt(loop.body, {loop.var: place}) if low else loop.body
    made = replace(loop, extent=Const(high - low), body=body)
    return refold(made, ranges, frozenset({loop.var}))
