"""Small hand-written programs of every level, shared by the loop IR tests."""

from ansorpy.expr.expr import Binary, Cast, Const, Expr, Read, Select, Var
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Phase,
    Program,
    Scope,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.rewrite import nest, seq


def c(value: int) -> Const:
    return Const(value)


def f32(value: float) -> Const:
    return Const(value, "float32")


def v(name: str) -> Var:
    return Var(name)


def add(a: Expr, b: Expr) -> Expr:
    return Binary("add", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    return Binary("mul", a, b)


def lt(a: Expr, b: Expr) -> Expr:
    return Binary("lt", a, b)


def read(name: str, *indices: Expr, dtype: str = "float32") -> Read:
    return Read(name, indices, dtype)


def buffer(name: str, *shape: int | Expr, scope: Scope, dtype: str = "float32") -> Buffer:
    extents = tuple(Const(s) if isinstance(s, int) else s for s in shape)
    return Buffer(name, dtype, extents, scope)


def store(name: str, index: tuple[Expr, ...], value: Expr, combiner: str | None = None) -> Store:
    return Store((name,), index, (value,), combiner)


def program(buffers: tuple[Buffer, ...], *bodies: Stmt) -> Program:
    return Program("p", buffers, tuple(Phase(f"p{n}", body) for n, body in enumerate(bodies)))


def matmul(m: int, n: int, k: int) -> Program:
    """C[i, j] = sum over k of A[i, k] * B[k, j]; scalar loops, rows in parallel."""
    ijk = mul(read("A", v("i"), v("k")), read("B", v("k"), v("j")))
    inner = For("k", c(k), store("C", (v("i"), v("j")), ijk, "sum"))
    start = store("C", (v("i"), v("j")), f32(0.0))
    body = For("i", c(m), nest((("j", c(n)),), seq(start, inner)), LoopKind.PARALLEL)
    return program(
        (
            buffer("A", m, k, scope=Scope.INPUT),
            buffer("B", k, n, scope=Scope.INPUT),
            buffer("C", m, n, scope=Scope.OUTPUT),
        ),
        body,
    )


def tiled_matmul(m: int, n: int, k: int, rows: int, lanes: int) -> Program:
    """The same with a register tile of `rows` x `lanes`; tails are masked, nothing need divide."""
    i = add(mul(v("i0"), c(rows)), v("i1"))
    j = add(mul(v("j0"), c(lanes)), v("j1"))
    mask = Binary("and", lt(i, c(m)), lt(j, c(n)))
    dims, wide = (("i1", rows),), (("j1", lanes),)
    acc = (v("i1"), v("j1"))
    product = mul(read("A", i, v("k")), read("B", v("k"), j))
    body = seq(
        Tile(dims, wide, store("acc", acc, f32(0.0))),
        For("k", c(k), Tile(dims, wide, store("acc", acc, product, "sum"), mask)),
        Tile(dims, wide, store("C", (i, j), read("acc", *acc)), mask),
    )
    registers = buffer("acc", rows, lanes, scope=Scope.REGISTER)
    loops = For(
        "i0",
        c(-(-m // rows)),
        For("j0", c(-(-n // lanes)), Alloc(registers, body)),
        LoopKind.PARALLEL,
    )
    return program(matmul(m, n, k).buffers, loops)


def padded_shift(n: int) -> Program:
    """out[i] = A[i - 1], 0 before the start; then out[i] doubled where i is even."""
    shifted = Select(Binary("ge", v("i"), c(1)), read("A", Binary("sub", v("i"), c(1))), f32(0.0))
    even = Binary("eq", Binary("mod", v("i"), c(2)), c(0))
    twice = mul(read("T", v("i")), f32(2.0))
    final = If(even, store("O", (v("i"),), twice), store("O", (v("i"),), read("T", v("i"))))
    return program(
        (
            buffer("A", n, scope=Scope.INPUT),
            buffer("T", n, scope=Scope.GLOBAL),
            buffer("O", n, scope=Scope.OUTPUT),
        ),
        For("i", c(n), store("T", (v("i"),), shifted)),
        For("i", c(n), final),
    )


def argmax(rows: int, n: int) -> Program:
    """(V, I)[r] = argmax over j of A[r, j]."""
    start = Store(("V", "I"), (v("r"),), (f32(float("-inf")), Const(2**31 - 1, "int32")))
    pair = (read("A", v("r"), v("j")), Cast("int32", v("j")))
    loop = For("j", c(n), Store(("V", "I"), (v("r"),), pair, "argmax"))
    return program(
        (
            buffer("A", rows, n, scope=Scope.INPUT),
            buffer("V", rows, scope=Scope.OUTPUT),
            buffer("I", rows, scope=Scope.OUTPUT, dtype="int32"),
        ),
        For("r", c(rows), seq(start, loop)),
    )


def symbolic_copy(n: int) -> Program:
    """O = A in tiles of the open size "s", the tail guarded."""
    at = add(mul(v("i0"), v("s")), v("i1"))
    outer = Binary("floordiv", Binary("sub", add(c(n), v("s")), c(1)), v("s"))
    body = If(lt(at, c(n)), store("O", (at,), read("A", at)))
    return program(
        (buffer("A", n, scope=Scope.INPUT), buffer("O", n, scope=Scope.OUTPUT)),
        nest((("i0", outer), ("i1", v("s"))), body),
    )
