"""Hoist allocations of scratch out of the loops that fill it, and merge equal names.

for k in 12: alloc S: X; alloc S: Y      ->      alloc S: { for k in 12: X; Y }
"""

from collections.abc import Mapping
from dataclasses import replace

from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Alloc, Buffer, For, If, LoopKind, Program, Scope, Seq, Stmt
from ansorpy.loopir.rewrite import map_phases, map_stmt, rename_buffers
from ansorpy.loopir.scratch import scratch_of

Held = Mapping[str, Buffer]


def hoist_alloc(program: Program) -> Program:
    """Return the program with every scratch buffer allocated once per task.

    Needs        a tiled program.
    Keeps        the meaning: scratch is undefined on entry, so that statements may share it.
    After        scratch (LOCAL) is allocated just inside of the parallel loops, and its name stands
                 for nothing else: registers of the same name, as a tail of one element has them,
                 get a name of their own.
    Not handled  registers, whose scope tells the values that loops carry.
    """
    return map_phases(program, lambda body: _tasks(_apart(body)))


def _apart(body: Stmt) -> Stmt:
    """Rename the registers whose name stands for scratch as well."""
    scratch = {buffer.name for buffer in scratch_of(body)}

    def change(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Alloc) or stmt.buffer.scope is not Scope.REGISTER:
            return stmt
        name = stmt.buffer.name
        return rename_buffers(stmt, {name: f"{name}.held"}) if name in scratch else stmt

    return map_stmt(body, change)


def _tasks(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
        return replace(stmt, body=_tasks(stmt.body))
    held: dict[str, Buffer] = {}
    for buffer in scratch_of(stmt):
        held[buffer.name] = _both(buffer, held.get(buffer.name, buffer))
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
