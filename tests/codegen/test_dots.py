"""Tiles whose sums one instruction does: as described, in every width, at the extremes."""

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
import pytest

from ansorpy.codegen.llvm_ir import module_text
from ansorpy.expr.expr import Binary, Cast, Const, Expr
from ansorpy.loopir.interp import run as interpret
from ansorpy.loopir.nodes import Alloc, For, LoopKind, Program, Scope, Seq, Stmt, Store, Tile
from ansorpy.loopir.passes.promote_accumulators import promote_accumulators
from ansorpy.loopir.passes.tile import tile
from ansorpy.loopir.verify import check
from ansorpy.measure.host import local_target
from ansorpy.measure.verify.inputs import decode, encode
from ansorpy.oracle.reference import evaluate
from ansorpy.rewrites.intrinsics import VDPBF16PS, VECTORS, VPDPBUSD, Intrinsic
from ansorpy.target import Target
from tests.codegen.running import run_llvm, run_source
from tests.loopir.build import add, buffer, c, mul, parallel, program, read, store, v

Array = npt.NDArray[Any]
LOCAL = local_target(1)
SMALL = {"uint8": (0, 256), "int8": (-128, 128)}


def has(one: Intrinsic) -> pytest.MarkDecorator:
    there = one.on(LOCAL.features)
    return pytest.mark.skipif(not there, reason=f"this processor has no {one.name}")


def each(*ones: Intrinsic) -> Sequence[Any]:
    return [pytest.param(one, id=f"{one.name}-{one.lanes}", marks=has(one)) for one in ones]


def product(one: Intrinsic, swap: bool, k: str, rows: int, width: int) -> Expr:
    """A[i, 4 k + q] * B[jo, k, j, q], widened; `swap` gives A the right dtype of the pattern."""
    a, b = (one.right, one.left) if swap else (one.left, one.right)
    i = add(mul(v("io"), rows), v("i"))
    left = read("A", i, add(mul(v(k), one.steps), v("q")), dtype=a)
    right = read("B", v("jo"), v(k), v("j"), v("q"), dtype=b)
    return Binary("mul", Cast(one.into, left), Cast(one.into, right))


def matmul(one: Intrinsic, n: int, m: int, k: int, swap: bool = False, rows: int = 3) -> Program:
    """C = A @ B with B packed in blocks of two vectors; tails in n and m; not yet tiled."""
    width, steps = 2 * one.lanes, k // one.steps
    blocks, row_tiles = -(-m // width), -(-n // rows)
    a, b = (one.right, one.left) if swap else (one.left, one.right)
    i = add(mul(v("io"), rows), v("i"))
    j = add(mul(v("jo"), width), v("j"))
    left_i = Binary("sub", c(n), mul(v("io"), rows))
    left_j = Binary("sub", c(m), mul(v("jo"), width))
    high = Binary("min", c(rows), left_i) if n % rows else c(rows)
    wide = Binary("min", c(width), left_j) if m % width else c(width)
    zero = Const(0.0 if one.into == "float32" else 0, one.into)

    def around(stmt: Stmt) -> Stmt:
        return For("i", high, For("j", wide, stmt, LoopKind.VECTOR), LoopKind.SERIAL)

    summed = For("q", c(one.steps), store("C", (i, j), product(one, swap, "k", rows, width), "sum"),
                 LoopKind.DOT)  # fmt: skip
    body = Seq((around(store("C", (i, j), zero)), For("k", c(steps), around(summed))))
    buffers = [
        buffer("A", n, k, dtype=a),
        buffer("B", blocks, steps, width, one.steps, dtype=b),
        buffer("C", n, m, scope=Scope.OUTPUT, dtype=one.into),
    ]
    return program(buffers, parallel("io", row_tiles, For("jo", c(blocks), body)))


def packed(one: Intrinsic, b: Array) -> Array:
    """B[k, j] as B[jo, k, j, q]."""
    k, m = b.shape
    width = 2 * one.lanes
    blocks = -(-m // width)
    whole = np.zeros((k, blocks * width), b.dtype)
    whole[:, :m] = b
    parts = whole.reshape(k // one.steps, one.steps, blocks, width).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(parts)


def drawn(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """The whole range of an integer, its ends often; a bfloat16 in small integers."""
    if dtype == "bfloat16":
        return encode(rng.integers(-8, 9, shape).astype(np.float64), dtype)
    low, high = SMALL[dtype]
    values = rng.integers(low, high, shape)
    ends = rng.choice([low, high - 1], shape)
    return np.where(rng.random(shape) < 0.5, ends, values).astype(dtype)


def whole(array: Array, dtype: str) -> Array:
    return decode(array, dtype) if dtype == "bfloat16" else array.astype(np.int64)


def dots(prog: Program) -> list[str]:
    found = []

    def look(stmt: Stmt) -> None:
        if isinstance(stmt, Tile) and stmt.dot is not None:
            found.append(stmt.dot[1])
        for part in (
            stmt.stmts if isinstance(stmt, Seq)
            else (stmt.body,) if isinstance(stmt, For | Alloc) else ()
        ):  # fmt: skip
            look(part)

    for phase in prog.phases:
        look(phase.body)
    return found


@pytest.mark.parametrize("source", [False, True], ids=["llvm", "numba"])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("one", each(*VECTORS))
def test_a_matmul_by_one_instruction_is_exact(one: Intrinsic, swap: bool, source: bool) -> None:
    if source and (one.lanes != 16 or swap):
        pytest.skip("numba compiles slowly: one of them is enough")
    rng = np.random.default_rng(one.lanes)
    n, m, k = 7, 2 * one.lanes + 5, 6 * one.steps
    target = Target(
        vector_bits=32 * one.lanes, cpu=LOCAL.cpu, features=LOCAL.features, registers=32
    )
    prog = promote_accumulators(tile(matmul(one, n, m, k, swap), target))
    check(prog, level="tiled")
    assert set(dots(prog)) == {one.function}
    dtypes = (one.right, one.left) if swap else (one.left, one.right)
    a, b = (drawn(d, s, rng) for d, s in zip(dtypes, ((n, k), (k, m)), strict=True))
    inputs = {"A": a, "B": packed(one, b)}
    got = run_source(prog, inputs) if source else run_llvm(prog, inputs, target)
    wanted = whole(a, dtypes[0]) @ whole(b, dtypes[1])
    np.testing.assert_array_equal(got["C"].astype(wanted.dtype), wanted)


@pytest.mark.parametrize("one", each(VPDPBUSD[0], VDPBF16PS[0]))
def test_the_instruction_agrees_with_its_pattern(one: Intrinsic) -> None:
    rng = np.random.default_rng(3)
    left, right = (drawn(d, (1, one.lanes, one.steps), rng) for d in (one.left, one.right))
    into = rng.integers(-1000, 1000, (1, one.lanes)).astype(one.into)
    at = (c(0), v("j"))
    value = Binary(
        "mul",
        Cast(one.into, read("left", *at, v("q"), dtype=one.left)),
        Cast(one.into, read("right", *at, v("q"), dtype=one.right)),
    )
    summed = For("q", c(one.steps), store("C", at, value, "sum"), LoopKind.DOT)
    body = Seq((
        For("j", c(one.lanes), store("C", at, read("into", *at, dtype=one.into)), LoopKind.VECTOR),
        For("j", c(one.lanes), summed, LoopKind.VECTOR),
    ))  # fmt: skip
    shape = (1, one.lanes, one.steps)
    buffers = [
        buffer("into", 1, one.lanes, dtype=one.into),
        buffer("left", *shape, dtype=one.left), buffer("right", *shape, dtype=one.right),
        buffer("C", 1, one.lanes, scope=Scope.OUTPUT, dtype=one.into),
    ]  # fmt: skip
    prog = tile(program(buffers, body), LOCAL)
    assert dots(prog) == [one.function]
    got = run_llvm(prog, {"into": into, "left": left, "right": right}, LOCAL)["C"]
    (wanted,) = evaluate(one.pattern, {"into": into[0], "left": left[0], "right": right[0]})
    np.testing.assert_array_equal(got[0].astype(np.float64), wanted.astype(np.float64))


def test_sums_wrap_and_do_not_saturate() -> None:
    one = VPDPBUSD[0]
    if not one.on(LOCAL.features):
        pytest.skip("this processor has no vpdpbusd")
    prog = promote_accumulators(tile(matmul(one, 1, 16, 80_000, rows=1), LOCAL))
    a, b = np.full((1, 80_000), 255, np.uint8), np.full((80_000, 16), 127, np.int8)
    got = run_llvm(prog, {"A": a, "B": packed(one, b)}, LOCAL)["C"]
    assert np.all(got == np.int64(80_000 * 255 * 127).astype(np.int32))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: Store(s.buffers, s.index, s.values, "max"), "not a sum"),
        (lambda s: Store(s.buffers, s.index, (Cast("int32", read("A", *_a(), dtype="uint8")),),
                         "sum"), "no product"),
    ],
)  # fmt: skip
def test_a_sum_without_a_pattern_takes_no_dot_instruction(change: Any, why: str) -> None:
    one = VPDPBUSD[0]
    prog = matmul(one, 3, 32, 8)
    changed = program(prog.buffers, _mapped(prog.phases[0].body, change))
    target = Target(vector_bits=512, features=("avx512f", "avx512vnni", "avx512vl"))
    assert dots(tile(changed, target)) == [], why


def _a() -> tuple[Expr, Expr]:
    return add(mul(v("io"), 3), v("i")), add(mul(v("k"), 4), v("q"))


def _mapped(stmt: Stmt, change: Any) -> Stmt:
    from ansorpy.loopir.rewrite import map_stmt

    return map_stmt(stmt, lambda s: change(s) if isinstance(s, Store) and s.combiner else s)


@pytest.mark.parametrize("one", [VPDPBUSD[0], VDPBF16PS[0]], ids=lambda one: one.name)
def test_a_dot_without_the_feature_has_the_same_result(one: Intrinsic) -> None:
    prog = promote_accumulators(tile(matmul(one, 4, 37, 2 * one.steps), Target(vector_bits=512)))
    assert dots(prog) == []
    rng = np.random.default_rng(0)
    a, b = drawn(one.left, (4, 2 * one.steps), rng), drawn(one.right, (2 * one.steps, 37), rng)
    got = run_llvm(prog, {"A": a, "B": packed(one, b)})["C"]
    wanted = whole(a, one.left) @ whole(b, one.right)
    np.testing.assert_array_equal(got.astype(wanted.dtype), wanted)


def test_the_interpreter_computes_a_dot_exactly() -> None:
    one = VPDPBUSD[0]
    target = Target(vector_bits=512, features=("avx512f", "avx512vnni"))
    prog = tile(matmul(one, 4, 37, 8), target)
    assert dots(prog)
    rng = np.random.default_rng(0)
    a, b = drawn("uint8", (4, 8), rng), drawn("int8", (8, 37), rng)
    got = interpret(prog, {"A": a, "B": packed(one, b)})["C"]
    np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("one", [VPDPBUSD[0], VDPBF16PS[0]], ids=lambda one: one.name)
def test_the_text_names_the_instruction(one: Intrinsic) -> None:
    features = ("avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16")
    target = Target(vector_bits=512, features=features, cpu="x86-64")
    text = module_text(promote_accumulators(tile(matmul(one, 6, 64, 8), target)), target)
    assert f'@"{one.function}"' in text
    llvm.parse_assembly(text).verify()
