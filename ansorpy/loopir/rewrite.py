"""Walk and rebuild the closed union of statements, so that a pass writes only its own case."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Expr, Read, Var, substitute, transform, variables
from ansorpy.loopir.nodes import Alloc, Buffer, For, If, Prefetch, Program, Seq, Stmt, Store, Tile


def stmt_children(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the direct sub-statements in order; a Tile is a leaf (its store is part of it)."""
    match stmt:
        case For(body=body) | Alloc(body=body):
            return (body,)
        case Seq(stmts=stmts):
            return stmts
        case If(then=then, other=other):
            return (then,) if other is None else (then, other)
        case Store() | Tile() | Prefetch():
            return ()


def rebuild_stmt(stmt: Stmt, parts: tuple[Stmt, ...]) -> Stmt:
    """Return `stmt` with its direct sub-statements replaced (same order as `stmt_children`)."""
    match stmt:
        case For(var=var, extent=extent, kind=kind):
            return For(var, extent, parts[0], kind)
        case Alloc(buffer=buffer):
            return Alloc(buffer, parts[0])
        case If(cond=cond):
            return If(cond, *parts)
        case Seq():
            return Seq(parts)
        case Store() | Tile() | Prefetch():
            return stmt


def map_stmt(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Rewrite bottom-up: `change` sees every statement after its sub-statements.

    An unchanged statement stays the same object, so a pass may test for change with `is`.
    """
    parts = stmt_children(stmt)
    new = tuple(map_stmt(part, change) for part in parts)
    kept = all(a is b for a, b in zip(parts, new, strict=True))
    return change(stmt if kept else rebuild_stmt(stmt, new))


def map_phases(program: Program, change: Callable[[Stmt], Stmt]) -> Program:
    """Replace the body of every phase by `change(body)`."""
    phases = tuple(replace(phase, body=change(phase.body)) for phase in program.phases)
    return replace(program, phases=phases)


def walk_stmt(stmt: Stmt) -> Iterator[Stmt]:
    """Yield every statement, parents first, in program order."""
    stack = [stmt]
    while stack:
        top = stack.pop()
        yield top
        stack += stmt_children(top)[::-1]


def stores(stmt: Stmt) -> tuple[Store, ...]:
    """Return every store in program order, those inside Tiles included."""
    stores = []
    for part in walk_stmt(stmt):
        if isinstance(part, Store):
            stores.append(part)
        elif isinstance(part, Tile):
            stores.append(part.store)
    return tuple(stores)


def stmt_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that stand in the statement itself, not in its sub-statements."""
    match stmt:
        case Store(index=index, values=values):
            return (*index, *values)
        case For(extent=extent):
            return (extent,)
        case If(cond=cond):
            return (cond,)
        case Seq():
            return ()
        case Alloc(buffer=buffer):
            return buffer.shape
        case Tile(store=store, mask=mask):
            return stmt_exprs(store) if mask is None else (*stmt_exprs(store), mask)
        case Prefetch(offset=offset):
            return (offset,)


def map_own_exprs(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """Replace the expressions of the statement itself, which `stmt_exprs` lists."""
    match stmt:
        case Store(buffers=buffers, index=index, values=values, combiner=combiner):
            return Store(buffers, _each(index, change), _each(values, change), combiner)
        case For(var=var, extent=extent, body=body, kind=kind):
            return For(var, change(extent), body, kind)
        case If(cond=cond):
            return replace(stmt, cond=change(cond))
        case Seq():
            return stmt
        case Alloc(buffer=buffer):
            return replace(stmt, buffer=map_shape(buffer, change))
        case Tile(store=store, mask=mask):
            inner = replace(
                store, index=_each(store.index, change), values=_each(store.values, change)
            )
            return replace(stmt, store=inner, mask=None if mask is None else change(mask))
        case Prefetch(offset=offset):
            return replace(stmt, offset=change(offset))


def rename_buffers(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    """Give buffers other names, where they are allocated and wherever they are accessed."""

    def new(name: str) -> str:
        return names.get(name, name)

    def read(expr: Expr) -> Expr | None:
        if not isinstance(expr, Read) or expr.tensor not in names:
            return None
        return replace(expr, tensor=new(expr.tensor), indices=_each(expr.indices, inside))

    def inside(expr: Expr) -> Expr:
        return transform(expr, read)

    def change(part: Stmt) -> Stmt:
        part = map_own_exprs(part, inside)
        match part:
            case Store(buffers=buffers):
                return replace(part, buffers=tuple(map(new, buffers)))
            case Tile(store=store):
                store = replace(store, buffers=tuple(map(new, store.buffers)))
                return replace(part, store=store)
            case Alloc(buffer=buffer):
                return replace(part, buffer=replace(buffer, name=new(buffer.name)))
            case Prefetch(buffer=name):
                return replace(part, buffer=new(name))
            case _:
                return part

    return map_stmt(stmt, change)


def map_shape(buffer: Buffer, change: Callable[[Expr], Expr]) -> Buffer:
    """Replace the extents of a buffer."""
    return replace(buffer, shape=_each(buffer.shape, change))


def bound_here(stmt: Stmt) -> tuple[str, ...]:
    """Return the variables that the statement itself binds, outermost first."""
    match stmt:
        case For(var=var):
            return (var,)
        case Tile(spans=spans):
            return tuple(var for var, _ in spans)
        case Store() | If() | Seq() | Alloc() | Prefetch():
            return ()


def substitute_stmt(stmt: Stmt, values: Mapping[str, Expr]) -> Stmt:
    """Replace free variables by expressions.

    Raises:
        LoweringError: a variable of a replacement is bound inside `stmt` and would be captured.
    """
    if not values:
        return stmt
    bound = bound_here(stmt)
    inner = {name: value for name, value in values.items() if name not in bound}
    for name, value in inner.items():
        captured = variables(value).intersection(bound)
        if captured:
            raise LoweringError(
                f"substituting {name} := {value}: {', '.join(sorted(captured))} is bound inside"
            )
    own = inner if isinstance(stmt, Tile) else values
    kept = map_own_exprs(stmt, lambda e: substitute(e, own))
    parts = tuple(substitute_stmt(part, inner) for part in stmt_children(stmt))
    return rebuild_stmt(kept, parts)


def number_loops(stmt: Stmt) -> Stmt:
    """Name the variables of loops and tiles by the order in which they are bound."""
    bound = dict.fromkeys(var for part in walk_stmt(stmt) for var in bound_here(part))
    names = {var: f"~{k}" for k, var in enumerate(bound)}
    values = {var: Var(name) for var, name in names.items()}

    def spans(given: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple((names[var], extent) for var, extent in given)

    def change(part: Stmt) -> Stmt:
        part = map_own_exprs(part, lambda expr: substitute(expr, values))
        match part:
            case For(var=var):
                return replace(part, var=names[var])
            case Tile(dims=dims, lanes=lanes, dot=dot, matrix=matrix):
                if dot is not None:
                    dot = names[dot[0]], dot[1]
                if matrix is not None:
                    row, group = names[matrix.row], names[matrix.group]
                    column = names.get(matrix.column, "")
                    matrix = replace(matrix, row=row, group=group, column=column)
                return replace(part, dims=spans(dims), lanes=spans(lanes), dot=dot, matrix=matrix)
            case _:
                return part

    return map_stmt(stmt, change)


def seq(*stmts: Stmt) -> Stmt:
    """Return the statements in order as one: nested Seqs flattened, a single one unwrapped."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(in_order(stmt))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def in_order(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the statements of a Seq, or the single one."""
    return stmt.stmts if isinstance(stmt, Seq) else (stmt,)


def nest(loops: tuple[tuple[str, Expr], ...], body: Stmt) -> Stmt:
    """Wrap `body` in serial loops, the first outermost."""
    for var, extent in reversed(loops):
        body = For(var, extent, body)
    return body


def _each(exprs: tuple[Expr, ...], change: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    return tuple(map(change, exprs))
