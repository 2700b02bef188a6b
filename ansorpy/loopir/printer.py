"""Loop IR as text for people and goldens: one statement a line, two spaces a level."""

from collections.abc import Iterator

from ansorpy.expr.expr import Binary, Expr
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Phase,
    Prefetch,
    Program,
    Seq,
    Stmt,
    Store,
    Tile,
)

INDENT = "  "
_ASSIGN = {None: "=", "sum": "+=", "prod": "*="}  # the others read "max=", "argmin=" ...


def text(program: Program) -> str:
    """Return the whole program; equal programs give equal text (literals show no dtype)."""
    lines = [f"program {program.name}"]
    lines += [f"{INDENT}{describe(buffer)}" for buffer in program.buffers]
    for phase in program.phases:
        lines += _phase(phase)
    return "\n".join(lines) + "\n"


def stmt_text(stmt: Stmt) -> str:
    """Return one statement with all that is inside it."""
    return "\n".join(_lines(stmt, 0))


def headline(stmt: Stmt) -> str:
    """Return the first line of a statement: enough to name it in a message."""
    return next(_lines(stmt, 0))


def describe(buffer: Buffer) -> str:
    """Return a buffer as `scope name: dtype[extents]`."""
    return f"{buffer.scope.value} {buffer.name}: {buffer.dtype}[{_list(buffer.shape)}]"


def _phase(phase: Phase) -> Iterator[str]:
    tasks = "" if phase.tasks is None else f" of {_bare(phase.tasks)} tasks"
    yield f"phase {phase.name}{' ahead' if phase.ahead else ''}{tasks}:"
    yield from _lines(phase.body, 1)


def _lines(stmt: Stmt, depth: int) -> Iterator[str]:
    pad = INDENT * depth
    match stmt:
        case Store() | Tile() | Prefetch():
            yield pad + _leaf(stmt)
        case Seq(stmts=stmts):
            if not stmts:
                yield pad + "pass"
            for part in stmts:
                yield from _lines(part, depth)
        case For(var=var, extent=extent, body=body, kind=kind):
            mark = "" if kind is LoopKind.SERIAL else f" {kind.value}"
            yield f"{pad}for {var} in {_bare(extent)}{mark}:"
            yield from _lines(body, depth + 1)
        case If(cond=cond, then=then, other=other):
            yield f"{pad}if {_bare(cond)}:"
            yield from _lines(then, depth + 1)
            if other is not None:
                yield f"{pad}else:"
                yield from _lines(other, depth + 1)
        case Alloc(buffer=buffer, body=body):
            yield f"{pad}alloc {describe(buffer)}:"
            yield from _lines(body, depth + 1)


def _leaf(stmt: Store | Tile | Prefetch) -> str:
    if isinstance(stmt, Store):
        return _store(stmt)
    if isinstance(stmt, Tile):
        return _tile(stmt)
    return f"prefetch {stmt.buffer}[{_bare(stmt.offset)}]"


def _tile(tile: Tile) -> str:
    dims = "".join(f" {var}:{extent}" for var, extent in tile.dims)
    lanes = "".join(f" lane {var}:{extent}" for var, extent in tile.lanes)
    mask = "" if tile.mask is None else f" if {_bare(tile.mask)}"
    dot = "" if tile.dot is None else f" by {tile.dot[1]} over {tile.dot[0]}"
    if tile.matrix is not None:
        fresh = " from 0" if tile.matrix.fresh else ""
        dot += f" on {tile.matrix.row} by {tile.matrix.group}{fresh}"
    width = f" by {tile.access_width} elements" if tile.access_width > 1 else ""
    hints = f" hints({tile.hints})" if str(tile.hints) else ""
    late = " asynchronous" if tile.asynchronous else ""
    return f"tile{dims}{lanes}{mask}{dot}{width}{late}{hints}: {_store(tile.store)}"


def _store(store: Store) -> str:
    places = ", ".join(f"{name}[{_list(store.index)}]" for name in store.buffers)
    sign = _ASSIGN.get(store.combiner, f"{store.combiner}=")
    return f"{places} {sign} {_list(store.values)}"


def _list(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(map(_bare, exprs))


def _bare(expr: Expr) -> str:
    """Return an expression without the parentheses around the whole of it."""
    full = str(expr)
    outer = isinstance(expr, Binary) and full.startswith("(") and full.endswith(")")
    return full[1:-1] if outer else full
