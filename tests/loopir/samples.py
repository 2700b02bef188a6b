"""Small hand-written programs of every level, shared by the loop IR tests."""

from ansorpy.expr.expr import Binary, Cast, Const, Select
from ansorpy.loopir.nodes import Alloc, For, If, Program, Scope, Store, Tile
from ansorpy.loopir.rewrite import nest, seq
from tests.loopir.build import (
    add,
    buffer,
    c,
    f32,
    lt,
    mul,
    parallel,
    program,
    read,
    store,
    v,
)


def matmul(m: int, n: int, k: int) -> Program:
    """C[i, j] = sum over k of A[i, k] * B[k, j]; scalar loops, rows in parallel."""
    ijk = mul(read("A", v("i"), v("k")), read("B", v("k"), v("j")))
    inner = For("k", c(k), store("C", (v("i"), v("j")), ijk, "sum"))
    start = store("C", (v("i"), v("j")), f32(0.0))
    body = parallel("i", m, For("j", c(n), seq(start, inner)))
    return program(
        (
            buffer("A", m, k),
            buffer("B", k, n),
            buffer("C", m, n, scope=Scope.OUTPUT),
        ),
        body,
    )


def tiled_matmul(m: int, n: int, k: int, rows: int, lanes: int) -> Program:
    """The same with a register tile of `rows` x `lanes`; tails are masked, nothing need divide."""
    i = add(mul(v("i0"), rows), v("i1"))
    j = add(mul(v("j0"), lanes), v("j1"))
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
    columns = For("j0", c(-(-n // lanes)), Alloc(registers, body))
    loops = parallel("i0", -(-m // rows), columns)
    return program(matmul(m, n, k).buffers, loops)


def padded_shift(n: int) -> Program:
    """out[i] = A[i - 1], 0 before the start; then out[i] doubled where i is even."""
    shifted = Select(Binary("ge", v("i"), c(1)), read("A", Binary("sub", v("i"), c(1))), f32(0.0))
    even = Binary("eq", Binary("mod", v("i"), c(2)), c(0))
    twice = mul(read("T", v("i")), f32(2.0))
    final = If(even, store("O", (v("i"),), twice), store("O", (v("i"),), read("T", v("i"))))
    return program(
        (
            buffer("A", n),
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
            buffer("A", rows, n),
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
        (buffer("A", n), buffer("O", n, scope=Scope.OUTPUT)),
        nest((("i0", outer), ("i1", v("s"))), body),
    )
