"""Hoist allocations of scratch out of the loops that fill it, and merge those of one name.

for k in 12: alloc S: X; alloc S: Y      ->      alloc S: { for k in 12: X; Y }
"""

from collections.abc import Mapping
from dataclasses import replace

from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Alloc, Buffer, For, If, LoopKind, Program, Scope, Seq, Stmt
from ansorpy.loopir.rewrite import map_phases, walk_stmt

Held = Mapping[str, Buffer]


def hoist_alloc(program: Program) -> Program:
    """Return the program with every scratch buffer allocated once per task.

    Needs        a tiled program.
    Keeps        the meaning: scratch is undefined on entry, so that statements may share it.
    After        scratch (LOCAL) is allocated just inside of the parallel loops.
    Not handled  registers, whose scope tells the values that loops carry; and a name that stands
                 for registers as well.
    """
    return map_phases(program, _tasks)


def _tasks(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
        return replace(stmt, body=_tasks(stmt.body))
    held: dict[str, Buffer] = {}
    kept: set[str] = set()
    for part in walk_stmt(stmt):
        if isinstance(part, Alloc):
            buffer = part.buffer
            held[buffer.name] = _both(buffer, held.get(buffer.name, buffer))
            if buffer.scope is not Scope.LOCAL:
                kept.add(buffer.name)
    held = {name: buffer for name, buffer in held.items() if name not in kept}
    body = _pull(stmt, held)
    for buffer in reversed(held.values()):
        body = Alloc(buffer, body)
    return body


def _both(a: Buffer, b: Buffer) -> Buffer:
    """Return a buffer with room for either of two of one name."""
    if len(a.shape) != len(b.shape):
        return a
    extents = zip(a.extents, b.extents, strict=True)
    return replace(a, shape=tuple(Const(max(pair)) for pair in extents))


def _pull(stmt: Stmt, held: Held) -> Stmt:
    match stmt:
        case Alloc(buffer=buffer, body=body) if buffer.name in held:
            return _pull(body, held)
        case Alloc(body=body) | For(body=body):
            return replace(stmt, body=_pull(body, held))
        case Seq(stmts=stmts):
            return Seq(tuple(_pull(part, held) for part in stmts))
        case If(then=then, other=other):
            rest = None if other is None else _pull(other, held)
            return replace(stmt, then=_pull(then, held), other=rest)
        case _:
            return stmt
