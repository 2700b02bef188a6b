"""Small changes of tiled programs, to be put together into miscompiles."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

from ansorpy.expr.expr import Binary, Cast, Const, Expr, Read, Select, Var, transform
from ansorpy.loopir.nodes import For, If, Program, Seq, Stmt, Tile
from ansorpy.loopir.rewrite import map_own_exprs, map_phases, map_stmt

Edit = Callable[[Program], Program]
Change = Callable[[Stmt], Stmt]
Rewrite = Callable[[Expr], "Expr | None"]
Where = Callable[[Stmt], bool]

NOTHING: Final = Seq(())


def edit(where: Where, change: Change, only: int | None = 0) -> Edit:
    """Change the statements that `where` picks: number `only` of them (-1: the last), or all.

    The edit raises LookupError where there is no such statement: a base that has changed shows.
    """

    def apply(program: Program) -> Program:
        found: list[Stmt] = []

        def collect(stmt: Stmt) -> Stmt:
            found.extend([stmt] if where(stmt) else [])
            return stmt

        map_phases(program, lambda body: map_stmt(body, collect))
        wanted = range(len(found)) if only is None else (only % max(1, len(found)),)
        if not found or (only is not None and not -len(found) <= only < len(found)):
            raise LookupError(f"{program.name}: {len(found)} statements, number {only} is wanted")
        number = count()

        def one(stmt: Stmt) -> Stmt:
            return change(stmt) if where(stmt) and next(number) in wanted else stmt

        return map_phases(program, lambda body: map_stmt(body, one))

    return apply


def both(*edits: Edit) -> Edit:
    """Make several edits, in order."""

    def apply(program: Program) -> Program:
        for one in edits:
            program = one(program)
        return program

    return apply


# Changes of a tile.


def tile(name: str, combiner: str | None = "any", masked: bool | None = None) -> Where:
    """Pick tiles that store to `name`, by their combiner and by whether they have a mask."""

    def pick(stmt: Stmt) -> bool:
        if not isinstance(stmt, Tile) or stmt.store.buffers[0] != name:
            return False
        if combiner not in ("any", stmt.store.combiner):
            return False
        return masked is None or masked == (stmt.mask is not None)

    return pick


def loop(var: str) -> Where:
    """Pick the loop of a variable."""
    return lambda stmt: isinstance(stmt, For) and stmt.var == var


def branch(stmt: Stmt) -> bool:
    """Pick If statements."""
    return isinstance(stmt, If)


# How to change a statement.


def drop(stmt: Stmt) -> Stmt:
    """Leave it out."""
    return NOTHING


def twice(stmt: Stmt) -> Stmt:
    """Run it twice."""
    return Seq((stmt, stmt))


def combined(combiner: str | None) -> Change:
    """Store with another combiner."""
    return lambda stmt: _tile(stmt, lambda t: replace(t, store=replace(t.store, combiner=combiner)))


def masked(change: Callable[[Expr | None], Expr | None]) -> Change:
    """Change the mask of a tile."""
    return lambda stmt: _tile(stmt, lambda t: replace(t, mask=change(t.mask)))


def valued(change: Callable[[Expr], Expr], output: int = 0) -> Change:
    """Change the value that a tile stores."""

    def apply(one: Tile) -> Tile:
        values = list(one.store.values)
        values[output] = change(values[output])
        return replace(one, store=replace(one.store, values=tuple(values)))

    return lambda stmt: _tile(stmt, apply)


def placed(change: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]) -> Change:
    """Change where a tile stores."""
    return lambda stmt: _tile(
        stmt, lambda t: replace(t, store=replace(t.store, index=change(t.store.index)))
    )


def into(name: str) -> Change:
    """Store to another buffer."""
    return lambda stmt: _tile(
        stmt, lambda t: replace(t, store=replace(t.store, buffers=(name, *t.store.buffers[1:])))
    )


def longer(by: int) -> Change:
    """Run a loop `by` times more."""

    def apply(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, For)
        if isinstance(stmt.extent, Const):
            return replace(stmt, extent=Const(int(stmt.extent.value) + by))
        return replace(stmt, extent=plus(stmt.extent, by))

    return apply


def started(at: int) -> Change:
    """Leave out the first iterations of a loop."""

    def apply(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, For)
        cond = Binary("ge", Var(stmt.var), Const(at))
        return replace(stmt, body=If(cond, stmt.body))

    return apply


def exprs(change: Rewrite) -> Change:
    """Change the expressions of one statement, part by part."""
    return lambda stmt: map_own_exprs(stmt, lambda e: transform(e, change))


def _tile(stmt: Stmt, change: Callable[[Tile], Tile]) -> Stmt:
    assert isinstance(stmt, Tile)
    return change(stmt)


# How to change an expression.


def rewrite(change: Rewrite) -> Callable[[Expr], Expr]:
    """Change every part of an expression that `change` answers for."""
    return lambda expr: transform(expr, change)


def number(old: int | float, new: int | float) -> Rewrite:
    """Replace a literal."""

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Const) and expr.value == old and type(expr.value) is type(old):
            return replace(expr, value=new)
        return None

    return change


def swapped(op: str) -> Rewrite:
    """Swap the operands of an operator."""

    def change(expr: Expr) -> Expr | None:
        return Binary(op, expr.b, expr.a) if isinstance(expr, Binary) and expr.op == op else None

    return change


def operator(old: str, new: str) -> Rewrite:
    """Replace an operator."""

    def change(expr: Expr) -> Expr | None:
        return replace(expr, op=new) if isinstance(expr, Binary) and expr.op == old else None

    return change


def renamed(old: str, new: Expr) -> Rewrite:
    """Replace a variable."""
    return lambda expr: new if isinstance(expr, Var) and expr.name == old else None


def reading(name: str, change: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]) -> Rewrite:
    """Change the indices of reads of a buffer."""

    def apply(expr: Expr) -> Expr | None:
        if isinstance(expr, Read) and expr.tensor == name:
            return replace(expr, indices=change(expr.indices))
        return None

    return apply


def through(dtype: str, name: str = "") -> Rewrite:
    """Round loads (from `name`, or from any buffer) to a narrower dtype."""

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Read) and name in ("", expr.tensor):
            return Cast(expr.dtype, Cast(dtype, expr))
        return None

    return change


def unguarded(expr: Expr) -> Expr | None:
    """Take the first side of a Select always."""
    return expr.then if isinstance(expr, Select) else None


def otherwise(value: float) -> Rewrite:
    """Answer another number where the condition of a Select does not hold."""

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Select) and isinstance(expr.other, Const):
            return replace(expr, other=replace(expr.other, value=value))
        return None

    return change


def plus(expr: Expr, by: int) -> Expr:
    """Return an index expression, moved."""
    return Binary("add", expr, Const(by))


def on_axis(
    axis: int, change: Callable[[Expr], Expr]
) -> Callable[[tuple[Expr, ...]], tuple[Expr, ...]]:
    """Change one index of several."""

    def apply(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        at = axis % len(index)
        return (*index[:at], change(index[at]), *index[at + 1 :])

    return apply


def exchanged(a: int, b: int) -> Callable[[tuple[Expr, ...]], tuple[Expr, ...]]:
    """Exchange two indices."""

    def apply(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        order = list(index)
        order[a], order[b] = order[b], order[a]
        return tuple(order)

    return apply


# Whole phases and buffers.


def without_phase(name: str) -> Edit:
    """Leave a phase out."""
    return lambda p: replace(p, phases=tuple(x for x in p.phases if x.name != name))


def phases_swapped(a: int, b: int) -> Edit:
    """Exchange two phases."""

    def apply(program: Program) -> Program:
        order = list(program.phases)
        order[a], order[b] = order[b], order[a]
        return replace(program, phases=tuple(order))

    return apply


def marked_ahead(name: str) -> Edit:
    """Run a phase once, ahead of the calls."""
    return lambda p: replace(
        p, phases=tuple(replace(x, ahead=True) if x.name == name else x for x in p.phases)
    )
