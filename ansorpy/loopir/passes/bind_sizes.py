"""Substitute sizes, fold the expressions they decide, drop loops of zero or one iteration.

for i in min(T, N): C[i] = ...      ->      for i in 8: C[i] = ...      with T = 8, N = 64
"""

from collections.abc import Mapping
from dataclasses import replace

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Binary, Const, Expr, Var
from ansorpy.expr.intervals import Fact, Interval, assume, bounds, linear
from ansorpy.loopir.nodes import (
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
from ansorpy.loopir.passes.simplify_scope import SimplifyScope

Facts = tuple[Fact, ...]


def bind_sizes(program: Program, values: Mapping[str, int]) -> Program:
    """Return the bound program: every size replaced by its value.

    Needs        a symbolic program, and a value for each of its sizes.
    Keeps        the meaning.
    After        every shape is Const, no loop has the constant extent 1, and no min, comparison
                 or guard is left that the ranges of the loop variables decide.
    Not handled  a program with tiles.

    Raises:
        LoweringError: a shape still mentions a variable.
    """
    scope = SimplifyScope(values, program.ranges)
    phases = []
    for phase in program.phases:
        body = _fold(phase.body, scope)
        if body is not None:
            phases.append(replace(phase, body=body))
    buffers = tuple(_shape(buffer, scope) for buffer in program.buffers)
    return replace(program, buffers=buffers, phases=tuple(phases))


def refold(
    stmt: Stmt,
    ranges: Mapping[str, Interval],
    changed: frozenset[str],
    values: Mapping[str, int] | None = None,
) -> Stmt | None:
    """Return a statement of a bound program folded once more, None if it has no effect.

    Args:
        ranges: first and last value of the loop variables around the statement.
        changed: variables whose ranges or values are now known more precisely.
        values: numbers for some of these variables.
    """
    fixed = {var: low for var, (low, high) in ranges.items() if low == high}
    return _fold(stmt, SimplifyScope({**fixed, **(values or {})}, ranges, changed=changed))


def _fold(stmt: Stmt, scope: SimplifyScope) -> Stmt | None:
    """Return the folded statement, None if it has no effect."""
    match stmt:
        case Store(buffers=buffers, index=index, values=values, combiner=combiner):
            first, second = map(scope.simple, index), map(scope.simple, values)
            return Store(buffers, tuple(first), tuple(second), combiner)
        case For():
            return _fold_for(stmt, scope.simple(stmt.extent), scope)
        case If():
            return _fold_if(stmt, scope.simple(stmt.cond), scope)
        case Seq(stmts=stmts):
            parts = [_fold(part, scope) for part in stmts]
            kept = tuple(part for part in parts if part is not None)
            return (kept[0] if len(kept) == 1 else Seq(kept)) if kept else None
        case Alloc(buffer=buffer, body=body):
            inner = _fold(body, scope)
            return None if inner is None else Alloc(_shape(buffer, scope), inner)
        case Tile() | Prefetch():
            raise LoweringError("cannot bind sizes of a program with tiles; expected loops")


def _fold_for(stmt: For, extent: Expr, scope: SimplifyScope) -> Stmt | None:
    extent = _whole_tile(extent, scope.ranges, scope.facts)
    low, high = bounds(extent, scope.ranges, scope.facts)
    if low != high:
        low, high = bounds(_spread(extent), scope.ranges, scope.facts)
        extent = Const(low) if low == high else extent
    if high <= 0:
        return None
    if low == high == 1:
        return _fold(stmt.body, scope.inside(stmt.var, value=0))
    if high == 1 < bounds(extent, scope.ranges)[1] and stmt.kind is LoopKind.VECTOR:
        # The facts leave one element, which lanes as many as the ranges allow cannot share.
        once = _fold(stmt.body, scope.inside(stmt.var, value=0))
        return None if once is None else If(Binary("gt", extent, Const(0)), once)
    new = extent is not stmt.extent or scope.concerns(extent)
    inside = scope.inside(stmt.var, interval=(0, high - 1), new=new)
    if low != high:
        inside = inside.where(_below(Var(stmt.var), extent, inside.ranges, scope.facts))
    body = _fold(stmt.body, inside)
    return None if body is None else For(stmt.var, extent, body, stmt.kind)


def _whole_tile(extent: Expr, ranges: Mapping[str, Interval], facts: Facts) -> Expr:
    """Return c for min(c, left) if `left` is positive and always a multiple of c."""
    match extent:
        case (
            Binary(op="min", a=Const() as most, b=left)
            | Binary(op="min", a=left, b=Const() as most)
        ):
            form, c = linear(left), int(most.value)
            if form is None or c < 1 or any(n % c for n in (form[0], *form[1].values())):
                return extent
            return most if bounds(left, ranges, facts)[0] >= 1 else extent
        case _:
            return extent


def _spread(extent: Expr) -> Expr:
    """Return an extent with every min outermost, so that facts about its parts can decide it.

    min(1, min(a, b) - i)      ->      min(1, min(a - i, b - i))
    """
    match extent:
        case Binary(op="min", a=a, b=b):
            return Binary("min", _spread(a), _spread(b))
        case Binary(op="add" | "sub" | "floordiv" as op, a=a, b=b):
            least = _spread(a)
            if not isinstance(least, Binary) or least.op != "min":
                return extent
            if op == "floordiv" and not _positive(b):
                return extent
            return Binary("min", *(_spread(Binary(op, part, b)) for part in (least.a, least.b)))
        case _:
            return extent


def _positive(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value > 0


def _below(var: Expr, extent: Expr, ranges: Mapping[str, Interval], facts: Facts) -> Facts:
    """Return the facts of `var < extent`, one for each part of a min or ceil division."""
    match extent:
        case Binary(op="min", a=a, b=b):
            return _below(var, b, ranges, _below(var, a, ranges, facts))
        case Binary(op="floordiv", a=a, b=Const(value=c)) if c > 0:
            # var + 1 <= a // c  says  c * var + c <= a
            most = Binary("add", Binary("mul", Const(c), var), Const(c))
            return assume(Binary("le", most, a), ranges, facts)
        case _:
            return assume(Binary("lt", var, extent), ranges, facts)


def _fold_if(stmt: If, cond: Expr, scope: SimplifyScope) -> Stmt | None:
    if isinstance(cond, Const):
        chosen = stmt.then if cond.value else stmt.other
        return None if chosen is None else _fold(chosen, scope)
    then = _fold(stmt.then, scope.where(assume(cond, scope.ranges, scope.facts)))
    other = None
    if stmt.other is not None:
        denied = assume(cond, scope.ranges, scope.facts, holds=False)
        other = _fold(stmt.other, scope.where(denied))
    if then is None and other is None:
        return None
    return If(cond, Seq(()) if then is None else then, other)


def _shape(buffer: Buffer, scope: SimplifyScope) -> Buffer:
    shape = tuple(scope.simple(extent) for extent in buffer.shape)
    if not all(isinstance(extent, Const) for extent in shape):
        raise LoweringError(f"buffer {buffer.name!r}: shape {tuple(map(str, shape))} is not known")
    return replace(buffer, shape=shape)
