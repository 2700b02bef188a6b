"""Every predicate of a valid program, by one program that breaks just it."""

import pytest

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Phase,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.verify import Level, check
from tests.loopir.build import add, buffer, c, f32, lt, mul, program, read, store, v
from tests.loopir.samples import argmax, matmul, padded_shift, symbolic_copy, tiled_matmul

A = buffer("A", 4, scope=Scope.INPUT)
O = buffer("O", 4, scope=Scope.OUTPUT)  # noqa: E741
N = buffer("N", 4, scope=Scope.OUTPUT, dtype="int32")
G = buffer("G", 4, scope=Scope.GLOBAL)
I = v("i")  # noqa: E741


def copy(value: Expr | None = None, index: Expr = I, name: str = "O") -> Store:
    return store(name, (index,), read("A", v("i")) if value is None else value)


def loop(body: Stmt, kind: LoopKind = LoopKind.SERIAL, var: str = "i", extent: int = 4) -> For:
    return For(var, c(extent), body, kind)


def stored(value: Expr) -> Program:
    return program((A, O), loop(copy(value)))


@pytest.mark.parametrize(
    ("sample", "level"),
    [
        (matmul(3, 4, 5), "bound"),
        (padded_shift(5), "bound"),
        (argmax(2, 3), "bound"),
        (matmul(3, 4, 5), "symbolic"),
        (symbolic_copy(10), "symbolic"),
        (tiled_matmul(5, 7, 4, 2, 4), "tiled"),
    ],
)
def test_the_samples_are_valid(sample: Program, level: Level) -> None:
    check(sample, level)


def test_sizes_stand_free_only_while_symbolic() -> None:
    check(symbolic_copy(10), "symbolic", sizes=("s",))
    with pytest.raises(LoweringError, match="nothing binds s"):
        check(symbolic_copy(10), "symbolic", sizes=("t",))
    with pytest.raises(LoweringError, match="nothing binds s"):
        check(symbolic_copy(10), "bound")


EXPRESSIONS = [
    (read("Z", I), "no buffer 'Z' in scope"),
    (read("A", I, I), "has 2 indices, A has rank 1"),
    (read("A", I, dtype="float64"), "is float32, not float64"),
    (Read("A", (I,), "float32", 1), "output 1"),
    (read("A", read("A", I)), r"A\[i\] is float32, not int64"),
    (read("A", lt(I, c(2))), "is bool, not int64"),
    (read("A", v("q")), "nothing binds q"),
    (add(read("A", I), c(1)), "mixes float32 and int64"),
    (I, "O holds float32, the value is int64"),
    (Cast("float32", Const(1.5, "int64")), "constant 1.5 is not a value of int64"),
    (Const(1.5, "f4"), "constant of dtype 'f4'"),
    (Cast("float8", I), "cast to 'float8'"),
    (Cast("float32", Call("exp", I)), "exp does not take int64"),
    (Cast("float32", Binary("div", I, I)), "/ does not take int64; integers divide by floordiv"),
    (Binary("mod", read("A", I), f32(2)), "% does not take float32"),
    (Cast("float32", Binary("and", I, I)), "and does not take int64"),
    (Cast("float32", Call("not", I)), "not does not take int64"),
    (Binary("xor", read("A", I), f32(2)), "operation 'xor' is not known"),
    (Select(I, f32(1), f32(2)), "i is int64, not bool"),
    (Select(lt(I, c(2)), f32(1), c(2)), "2 is int64, not float32"),
    (Cast("float32", Const(1, "bool")), "constant 1 is not a value of bool"),
]


@pytest.mark.parametrize(("value", "message"), EXPRESSIONS, ids=[m for _, m in EXPRESSIONS])
def test_an_invalid_value_is_refused(value: Expr, message: str) -> None:
    with pytest.raises(LoweringError, match=message) as error:
        check(stored(value), "bound")
    assert str(error.value).startswith("phase p0: O[i] = ")


def pairs(buffers: tuple[str, ...], values: tuple[Expr, ...], combiner: str | None) -> Program:
    return program((A, O, N, G), loop(Store(buffers, (I,), values, combiner)))


A_I, I32 = read("A", I), Cast("int32", I)
STORES = [
    (program((A, O), loop(copy(name="A"))), "A is input and must not be stored"),
    (program((O,), loop(store("O", (I, I), f32(1)))), "2 indices, O has rank 1"),
    (program((A, O), loop(copy(index=lt(I, c(1))))), "is not int64"),
    (program((A, O), loop(copy(index=A_I))), "reads a buffer where only loop variables may stand"),
    (pairs(("O",), (A_I,), "mean"), "unknown combiner 'mean'"),
    (pairs(("O",), (A_I, I32), None), "2 values for 1 buffers"),
    (pairs(("O",), (A_I,), "argmax"), "1 values for 1 buffers"),
    (pairs(("O", "N"), (A_I, I32), "sum"), "sum takes 1 buffers, not 2"),
    (pairs(("O", "G"), (A_I, A_I), "argmin"), "G must hold integers"),
    (pairs(("O", "O"), (A_I, A_I), None), "stored buffer 'O' occurs twice"),
]


@pytest.mark.parametrize(("wrong", "message"), STORES, ids=[m for _, m in STORES])
def test_an_invalid_store_is_refused(wrong: Program, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        check(wrong, "bound")


LOCAL = buffer("L", 4, scope=Scope.LOCAL)
LOOPS = [
    (loop(loop(copy())), "i is already bound"),
    (loop(loop(copy(), var="j"), LoopKind.SERIAL, "j"), "j is already bound"),
    (For("i", v("i"), copy()), "nothing binds i"),
    (For("i", lt(c(1), c(2)), copy()), "is not int64"),
    (loop(loop(copy(), LoopKind.PARALLEL), var="j"), "must be the outermost of its phase"),
    (Seq((loop(copy(), LoopKind.PARALLEL),)), "must be the outermost of its phase"),
    (Alloc(LOCAL, loop(copy(), LoopKind.PARALLEL)), "must be the outermost of its phase"),
    (
        loop(For("j", add(v("i"), c(1)), copy(), LoopKind.PARALLEL), LoopKind.PARALLEL),
        "the extent of a parallel loop must be a number",
    ),
    (
        loop(loop(copy(), var="i"), LoopKind.PARALLEL, "p"),
        "tasks of p would all store the same O",
    ),
    (loop(loop(copy(), LoopKind.VECTOR, "j"), LoopKind.VECTOR), "inside a vector loop"),
    (loop(If(add(I, c(1)), copy())), "is not bool"),
    (loop(If(lt(v("q"), c(1)), copy())), "nothing binds q"),
    (loop(Alloc(O, copy())), "buffer 'O' exists already"),
    (loop(Alloc(buffer("L", 4, scope=Scope.GLOBAL), copy())), "scope must be one of local"),
    (loop(Alloc(buffer("L", 0, scope=Scope.LOCAL), copy())), "extent 0 is not a positive"),
    (loop(Alloc(buffer("L", I, scope=Scope.LOCAL), copy())), "extent i is not a number"),
    (Seq((Alloc(LOCAL, Seq(())), loop(copy(read("L", I))))), "no buffer 'L' in scope"),
    (loop(Tile((), (), copy())), "a tile at level 'bound'"),
]


@pytest.mark.parametrize(("body", "message"), LOOPS, ids=range(len(LOOPS)))
def test_an_invalid_loop_or_scope_is_refused(body: Stmt, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        check(program((A, O), body), "bound")


def test_a_guard_or_one_task_makes_a_shared_store_single() -> None:
    guarded = loop(If(Binary("eq", v("p"), c(0)), loop(copy())), LoopKind.PARALLEL, "p")
    check(program((A, O), guarded), "bound")
    check(program((A, O), loop(loop(copy()), LoopKind.PARALLEL, "p", 1)), "bound")


def test_scratch_may_not_depend_on_a_loop_even_while_symbolic() -> None:
    body = loop(Alloc(buffer("L", add(I, v("s")), scope=Scope.LOCAL), copy()))
    with pytest.raises(LoweringError, match="depends on a loop"):
        check(program((A, O), body))


ACC = buffer("R", 2, 4, scope=Scope.REGISTER)
DIMS, LANES = (("d", 2),), (("l", 4),)


def tile(
    *index: Expr, dims: tuple[tuple[str, int], ...] = DIMS, mask: Expr | None = None
) -> Program:
    body = Seq(
        (
            Alloc(ACC, Tile(dims, LANES, store("R", index, f32(0)), mask)),
            loop(copy()),
        )
    )
    return program((A, O), body)


TILES = [
    (tile(v("d"), v("l"), dims=(("d", 0),)), "d has extent 0 < 1"),
    (tile(v("d"), v("l"), dims=(("l", 2),)), "variable 'l' occurs twice"),
    (tile(v("l"), v("d")), "not indexed by a sub-sequence"),
    (tile(v("d"), v("d")), "not indexed by a sub-sequence"),
    (tile(v("d"), add(v("l"), c(0))), "not indexed by a sub-sequence"),
    (tile(v("d"), v("l"), dims=(("d", 3),)), "d runs past the extent 2 of register R"),
    (tile(v("d"), v("l"), mask=v("d")), "is not bool"),
    (tile(v("d"), v("l"), mask=lt(v("x"), c(1))), "nothing binds x"),
    (program((A, O), loop(copy(), LoopKind.VECTOR)), "a vector loop is left after tiling"),
    (program((A, O), loop(copy(), LoopKind.UNROLL)), "a unroll loop is left after tiling"),
    (
        program((A, O), loop(Alloc(ACC, copy(read("R", c(0), c(0)))))),
        "register R is touched outside a tile",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), TILES, ids=range(len(TILES)))
def test_an_invalid_tile_is_refused(wrong: Program, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        check(wrong, "tiled")


def test_a_register_may_be_read_along_a_sub_sequence() -> None:
    check(tile(v("d"), v("l"), mask=lt(v("d"), c(1))), "tiled")
    row = buffer("R", 4, scope=Scope.REGISTER)
    fill = Tile((), LANES, store("R", (v("l"),), f32(0)))
    use = Tile(DIMS, LANES, store("L", (v("l"),), mul(f32(2), read("R", v("l"))), None))
    body = Alloc(LOCAL, Alloc(row, Seq((fill, use, loop(copy())))))
    check(program((A, O), body), "tiled")


def phases(*bodies: tuple[Stmt, bool], buffers: tuple[Buffer, ...] = (A, O, G)) -> Program:
    made = (Phase(f"p{n}", body, ahead) for n, (body, ahead) in enumerate(bodies))
    return Program("p", buffers, tuple(made))


WRITE_G, READ_G = loop(copy(name="G")), loop(copy(read("G", I)))
PROGRAMS = [
    (phases((READ_G, False), (WRITE_G, False)), "phase p0: G is read before it is written"),
    (
        phases((WRITE_G, False), (READ_G, True)),
        "phase p1: ahead, but G is not known ahead",
    ),
    (phases((WRITE_G, False)), "output O is never stored"),
    (phases((loop(copy()), False), buffers=(A, O, O)), "buffer 'O' occurs twice"),
    (Program("p", (A, O), (Phase("p", loop(copy())),) * 2), "phase 'p' occurs twice"),
    (phases((loop(copy()), False), buffers=(A, O, LOCAL)), "scope must be one of input"),
    (
        phases((loop(copy()), False), buffers=(A, O, Buffer("X", "f4", (), Scope.GLOBAL))),
        "unknown dtype",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_an_invalid_program_is_refused(wrong: Program, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        check(wrong, "bound")


def test_buffers_written_ahead_may_be_read() -> None:
    check(phases((WRITE_G, True), (READ_G, False)), "bound")
