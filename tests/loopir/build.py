"""Short names for the nodes of loop IR, for programs that tests write by hand.

Arithmetic is kept as it is written; the functions of `ansorpy.expr.build` simplify it.
"""

from collections.abc import Sequence

from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.loopir.nodes import Buffer, For, LoopKind, Phase, Program, Scope, Stmt, Store


def c(value: float, dtype: str = "int64") -> Const:
    return Const(value, dtype)


def f32(value: float) -> Const:
    return Const(value, "float32")


def v(name: str) -> Var:
    return Var(name)


def add(*parts: Expr) -> Expr:
    total, *rest = parts
    for part in rest:
        total = Binary("add", total, part)
    return total


def mul(a: Expr, b: Expr | int) -> Expr:
    return Binary("mul", a, c(b) if isinstance(b, int) else b)


def lt(a: Expr, b: Expr | int) -> Expr:
    return Binary("lt", a, c(b) if isinstance(b, int) else b)


def read(name: str, *indices: Expr, dtype: str = "float32") -> Read:
    return Read(name, indices, dtype)


def buffer(
    name: str, *shape: int | Expr, scope: Scope = Scope.INPUT, dtype: str = "float32"
) -> Buffer:
    return Buffer(name, dtype, tuple(c(n) if isinstance(n, int) else n for n in shape), scope)


def store(name: str, index: Sequence[Expr], value: Expr, combiner: str | None = None) -> Store:
    return Store((name,), tuple(index), (value,), combiner)


def parallel(var: str, extent: int, body: Stmt) -> For:
    return For(var, c(extent), body, LoopKind.PARALLEL)


def loops(body: Stmt, *heads: tuple[str, Expr, LoopKind]) -> Stmt:
    """Wrap `body` in loops, the first head outermost."""
    for var, extent, kind in reversed(heads):
        body = For(var, extent, body, kind)
    return body


def program(buffers: Sequence[Buffer], *bodies: Stmt) -> Program:
    """Return a program with a phase for each body: p0, p1, ..."""
    phases = tuple(Phase(f"p{n}", body) for n, body in enumerate(bodies))
    return Program("p", tuple(buffers), phases)
