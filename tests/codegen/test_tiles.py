"""Every shape of tile statement, against the interpreter of the loop IR, on guarded buffers."""

import re
from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.llvm_ir import module_text
from ansorpy.codegen.loader import build, build_source, load
from ansorpy.codegen.numba_source import emit
from ansorpy.expr.dtypes import INTS
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Select, Var
from ansorpy.loopir.hints import Hints
from ansorpy.loopir.interp import run as interpret
from ansorpy.loopir.nodes import (
    Alloc,
    For,
    If,
    LoopKind,
    Prefetch,
    Program,
    Scope,
    Seq,
    Store,
    Tile,
)
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import verify
from ansorpy.measure.verify.guard_pages import Arena, Side
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from tests.codegen.programs import Array
from tests.codegen.running import AVX2, SSE, run_all
from tests.loopir.build import add, buffer, c, f32, lt, mul, parallel, program, read, store
from tests.night import night

RNG = np.random.default_rng(7)
TRANSPOSING = [*product((4, 8, 16), (2, 5, 16, 19), ("", "rows", "lanes", "both"))]
PADDED = [*product((4, 8, 16), (5, 23, 33), (1, 3), (0, 3))]
UNDER_A_ROW = [*product((8, 16, 32), (3, 7, 8, 12, 16), (0, 1))]
SIDES: tuple[Side, ...] = ("left", "right")
L, U, V = Var("l"), Var("u"), Var("v")
AVX512 = Target(vector_bits=512, features=("avx512f", "avx512vl"), cpu="x86-64-v4")


def normal(*shape: int) -> Array:
    return RNG.integers(-9, 9, shape).astype(np.float32)


def agree(prog: Program, inputs: Mapping[str, Array], source: bool = True) -> dict[str, Array]:
    """Small integers in float32 are exact, so the interpreter must be met to the bit."""
    found = run_all(prog, inputs, source)
    for name, array in interpret(prog, inputs).items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    return found


def out(shape: tuple[int, ...], dtype: str = "float32", name: str = "C"):  # type: ignore[no-untyped-def]
    return buffer(name, *shape, scope=Scope.OUTPUT, dtype=dtype)


# ---- stores


@pytest.mark.parametrize(("lanes", "rows", "masked"), night(TRANSPOSING, day=TRANSPOSING[::5]))
def test_a_transposing_store_equals_the_interpreter(lanes: int, rows: int, masked: str) -> None:
    n, m = (rows - 1 if masked in ("rows", "both") else rows), lanes * 2
    m -= 3 if masked in ("lanes", "both") else 0
    column = add(mul(V, lanes), L)
    parts = [lt(U, n)] if masked in ("rows", "both") else []
    parts += [lt(column, m)] if masked in ("lanes", "both") else []
    mask: Expr | None = None
    for part in parts:
        mask = part if mask is None else Binary("and", mask, part)
    tile = Tile((("u", rows), ("v", 2)), (("l", lanes),),
                store("C", (column, U), read("A", U, column)), mask)  # fmt: skip
    prog = program([buffer("A", n, m), out((m, n))], tile)
    agree(prog, {"A": normal(n, m)}, source=rows == 5)


def test_a_transposing_store_combines_with_its_target() -> None:
    tile = Tile((("u", 5),), (("l", 8),), store("C", (L, U), read("A", U, L), "sum"), lt(L, 7))
    zero = For("i", c(7), Tile((), (("l", 8),), store("C", (Var("i"), L), f32(2.0)), lt(L, 5)))
    prog = program([buffer("A", 5, 7), out((7, 5))], Seq((zero, tile)))
    agree(prog, {"A": normal(5, 7)})


def test_scattered_stores_and_strided_loads_equal_the_interpreter() -> None:
    tile = Tile((), (("l", 8),), store("C", (mul(L, 3),), read("A", mul(L, 2))), lt(L, 7))
    fill = Tile((), (("l", 32),), store("C", (L,), f32(1.0)), lt(L, 19))
    prog = program([buffer("A", 13), out((19,))], Seq((fill, tile)))
    agree(prog, {"A": normal(13)})


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 15])
@pytest.mark.parametrize("first", [0, 1])
def test_a_masked_load_of_every_other_element_stays_inside_the_buffer(
    count: int, first: int
) -> None:
    # A ends with the last element that is read.
    value = read("A", add(mul(L, 2), c(first)))
    tile = Tile((), (("l", 16),), store("C", (L,), value), lt(L, count))
    size = 2 * count - 1 + first
    prog = program([buffer("A", size), out((count,))], tile)
    agree(prog, {"A": normal(size)}, source=count in (7, 9))


def guarded(prog: Program, inputs: Mapping[str, Array]) -> Iterator[Array]:
    """Yield C of runs beside a guard page on each side, compiled for this machine and for AVX2."""
    for target in (Target(), AVX2):
        built = load(build(prog, target))
        for side in SIDES:
            arena = Arena(prog.buffers, side)
            arena.fill(inputs, "nan")
            built.run(arena.addresses)
            yield arena.array("C")


@pytest.mark.parametrize(("lanes", "size", "left", "moving"), night(PADDED, day=PADDED[::5]))
def test_a_padded_load_of_every_other_element_reads_allowed_lanes_only(
    lanes: int, size: int, left: int, moving: int
) -> None:
    """Places 2 l - left + moving * i of rows of A, and of row i - 1: zero outside of A."""
    place = add(mul(L, 2), mul(Var("i"), moving), c(-left))
    inside = Binary("and", Binary("ge", place, c(0)), lt(place, size))
    above = Binary("and", Binary("ge", Var("i"), c(1)), inside)
    zero = f32(0.0)
    value = add(
        Select(inside, read("A", Var("i"), place), zero),
        Select(above, read("A", add(Var("i"), c(-1)), place), zero),
    )
    tile = Tile((), (("l", lanes),), store("C", (Var("i"), L), value))
    buffers = [buffer("A", 3, size), out((3, lanes))]
    prog = program(buffers, For("i", c(3), tile))
    inputs = {"A": normal(3, size)}
    expected = agree(prog, inputs, source=lanes == 8 and (left, moving) in ((1, 3), (3, 0)))["C"]
    for found in guarded(prog, inputs):
        np.testing.assert_array_equal(found, expected)
    if lanes == 16:
        assert ".masked.gather." not in module_text(prog, AVX512)


@pytest.mark.parametrize(("lanes", "size", "left"), night(UNDER_A_ROW, day=UNDER_A_ROW[::3]))
def test_a_padded_load_under_a_condition_of_the_row_reads_allowed_lanes_only(
    lanes: int, size: int, left: int
) -> None:
    """Lanes that are off in every row, a known number of them, beside a row that is outside."""
    place = add(L, c(-left))
    inside = Binary("and", Binary("ge", place, c(0)), lt(place, size))
    allowed = Binary("and", Binary("ge", Var("i"), c(1)), inside)
    value = Select(allowed, read("A", add(Var("i"), c(-1)), place), f32(0.0))
    tile = Tile((), (("l", lanes),), store("C", (Var("i"), L), value), lt(L, min(lanes, size + 2)))
    buffers = [buffer("A", 2, size), out((3, lanes))]
    prog = program(buffers, For("i", c(3), tile))
    inputs = {"A": normal(2, size)}
    expected = np.zeros((3, lanes), np.float32)
    last = min(size, lanes - left)
    expected[1:, left : left + last] = inputs["A"][:, :last]
    stored = min(lanes, size + 2)
    for found in guarded(prog, inputs):
        np.testing.assert_array_equal(found[:, :stored], expected[:, :stored])


def test_reversed_and_broadcast_loads_equal_the_interpreter() -> None:
    value = add(read("A", Binary("sub", c(15), L)), read("A", c(3)), read("A", Var("i")))
    loop = For("i", c(3), Tile((), (("l", 16),), store("C", (Var("i"), L), value)))
    agree(program([buffer("A", 16), out((3, 16))], loop), {"A": normal(16)})


def test_division_of_lane_indices_equals_the_interpreter() -> None:
    index = add(mul(Var("i"), 16), L)
    value = read("A", Binary("floordiv", index, c(6)), Binary("mod", index, c(6)))
    loop = For("i", c(3), Tile((), (("l", 16),), store("C", (index,), value), lt(index, 42)))
    agree(program([buffer("A", 7, 6), out((42,))], loop), {"A": normal(7, 6)})


def test_embedding_gathers_rows() -> None:
    row = Cast("int64", read("I", Var("i"), dtype="int32"))
    one = Tile((), (("l", 8),), store("C", (Var("i"), L), read("W", row, L)), lt(L, 6))
    column = Cast("int64", read("I", L, dtype="int32"))
    two = Tile((), (("l", 8),), store("D", (L,), read("W", column, c(2))), lt(L, 5))
    buffers = [buffer("I", 5, dtype="int32"), buffer("W", 9, 6),
               out((5, 6)), out((5,), name="D")]  # fmt: skip
    prog = program(buffers, For("i", c(5), one), two)
    inputs = {"I": np.array([3, 8, 0, 5, 8], np.int32), "W": normal(9, 6)}
    found = run_all(prog, inputs)
    np.testing.assert_array_equal(found["C"], inputs["W"][inputs["I"]])
    np.testing.assert_array_equal(found["D"], inputs["W"][inputs["I"], 2])


# ---- masks and selects


def test_padding_reads_nothing_outside_the_buffer() -> None:
    """A 3-tap window over a row with one zero of padding on either side."""
    taps: list[Expr] = []
    for shift in (-1, 0, 1):
        place = add(mul(Var("jo"), 8), L, c(shift))
        inside = Binary("and", Binary("ge", place, c(0)), lt(place, 21))
        taps.append(Select(inside, read("A", Var("i"), place), f32(0.0)))
    column = add(mul(Var("jo"), 8), L)
    tile = Tile((), (("l", 8),), store("C", (Var("i"), column), add(*taps)), lt(column, 21))
    nest = parallel("i", 4, For("jo", c(3), tile))
    prog = program([buffer("A", 4, 21), out((4, 21))], nest)
    agree(prog, {"A": normal(4, 21)})


@pytest.mark.parametrize(("edge", "selects"), [(0.0, False), (-0.0, True), (0.5, True)])
@pytest.mark.parametrize("rows", [False, True])
def test_a_masked_load_is_zero_in_other_lanes(edge: float, selects: bool, rows: bool) -> None:
    """Vectors of 8 from columns i to i + 8 of 12, or from rows that begin at -1."""
    place = add(Var("i"), c(-1)) if rows else add(Var("i"), L)
    inside = Binary("ge", place, c(0)) if rows else lt(place, 10)
    found = read("A", place, L) if rows else read("A", c(2), place)
    tile = Tile((), (("l", 8),), store("C", (Var("i"), L), Select(inside, found, f32(edge))))
    prog = program([buffer("A", 4, 12), out((4, 8))], For("i", c(4), tile))
    a = normal(4, 12)
    got, expected = agree(prog, {"A": a}), interpret(prog, {"A": a})
    np.testing.assert_array_equal(np.signbit(got["C"]), np.signbit(expected["C"]))
    chosen = [line for line in module_text(prog, AVX512).splitlines() if " = select " in line]
    assert any("float" in line for line in chosen) == selects


def test_padding_of_rows_is_a_scalar_condition() -> None:
    row = add(Var("i"), U, c(-1))
    inside = Binary("and", Binary("ge", row, c(0)), lt(row, 4))
    vector = Select(inside, read("A", row, L), f32(0.5))
    scalar = Select(inside, read("B", row), f32(-1.0))
    tile = Tile((("u", 3),), (("l", 8),), store("C", (Var("i"), U, L), add(vector, scalar)))
    prog = program(
        [buffer("A", 4, 8), buffer("B", 4), out((4, 3, 8))],
        parallel("i", 4, tile),
    )
    agree(prog, {"A": normal(4, 8), "B": normal(4)})


def test_a_select_on_data_equals_the_interpreter() -> None:
    x, y = read("A", L), read("B", L)
    value = Select(Binary("gt", x, y), Binary("sub", x, y), Select(lt(L, 4), y, f32(7.0)))
    tile = Tile((), (("l", 16),), store("C", (L,), value), Binary("ne", L, c(5)))
    fill = Tile((), (("l", 16),), store("C", (L,), f32(0.0)))
    prog = program([buffer("A", 16), buffer("B", 16), out((16,))],
                   Seq((fill, tile)))  # fmt: skip
    agree(prog, {"A": normal(16), "B": normal(16)})


def test_a_masked_scalar_tile_with_dims_equals_the_interpreter() -> None:
    i = add(mul(Var("io"), 4), U)
    tile = Tile((("u", 4),), (), store("C", (i,), mul(read("A", i), read("A", i))), lt(i, 10))
    prog = program([buffer("A", 10), out((10,))], parallel("io", 3, tile))
    agree(prog, {"A": normal(10)})


@pytest.mark.parametrize("times", [1, 3_000_000_000, -3_000_000_000])
@pytest.mark.parametrize("op", ["lt", "ge", "eq"])
def test_comparisons_beyond_32_bits_do_not_overflow(op: str, times: int) -> None:
    limit = mul(Var("i"), c(times // 3 if times > 1 else times))
    cond = Binary(op, mul(L, c(times)), limit)
    chosen = Select(cond, read("X", Var("i"), L), Const(1.0, "float32"))
    prog = program(
        (buffer("X", 40, 16), out((40, 16))),
        For("i", c(40), Tile((), (("l", 16),), store("C", (Var("i"), L), chosen))),
    )
    got = agree(prog, {"X": normal(40, 16)})["C"]
    assert (got == 1.0).any()


def test_a_disjunction_as_mask_equals_the_interpreter() -> None:
    cond = Binary("or", lt(L, 3), Binary("eq", add(L, Var("i")), c(12)))
    tile = Tile((), (("l", 16),), store("C", (Var("i"), L), read("A", L), "sum"), cond)
    fill = Tile((), (("l", 16),), store("C", (Var("i"), L), f32(1.0)))
    prog = program([buffer("A", 16), out((3, 16))], For("i", c(3), Seq((fill, tile))))
    agree(prog, {"A": normal(16)})


@pytest.mark.parametrize("columns", [96, 90])
def test_loads_of_four_vectors_come_before_their_stores(columns: int) -> None:
    at = add(mul(V, 16), L)
    mask = lt(at, columns) if columns < 96 else None
    tile = Tile(
        (("v", 6),), (("l", 16),), store("C", (at,), add(read("A", at), read("B", at))), mask
    )
    buffers = [buffer("A", columns), buffer("B", columns)]
    prog = program([*buffers, out((columns,))], tile)
    agree(prog, {"A": normal(columns), "B": normal(columns)})
    text = module_text(prog, AVX512)
    body = text.split("define", 1)[1]
    order = re.findall(r"(load|store)[^\n]*<16 x float>", body)
    assert order == ["load"] * 8 + ["store"] * 4 + ["load"] * 4 + ["store"] * 2


def test_a_tile_that_reads_its_target_keeps_the_order_of_loads_and_stores() -> None:
    step = store("C", (add(V, c(1)), L), add(read("C", V, L), read("A", V, L)))
    tile = Tile((("v", 6),), (("l", 16),), step)
    first = Tile((), (("l", 16),), store("C", (c(0), L), f32(1.0)))
    prog = program([buffer("A", 6, 16), out((7, 16))], Seq((first, tile)))
    agree(prog, {"A": normal(6, 16)})


def _non_temporal(rows: int, width: int) -> Program:
    """C[i, j] = A[i, j] + 1, in tiles that go past the caches."""
    at, row = add(mul(V, 16), L), Var("i") if rows > 1 else c(0)
    value = add(read("A", row, at), f32(1.0))
    mask = lt(at, width) if width % 16 else None
    dims = (("v", -(-width // 16)),)
    tile = Tile(
        dims, (("l", 16),), store("C", (row, at), value), mask, hints=Hints(non_temporal=True)
    )
    shapes = buffer("A", rows, width), out((rows, width))
    tasks = For("i", c(rows), tile, kind=LoopKind.PARALLEL) if rows > 1 else tile
    return program([*shapes], tasks)


@pytest.mark.parametrize(("rows", "width", "past"), [(3, 80, 5), (3, 84, 0), (1, 70, 4)])
def test_whole_cache_lines_use_non_temporal_stores(rows: int, width: int, past: int) -> None:
    prog = _non_temporal(rows, width)
    text = module_text(prog, AVX512)
    assert text.count("!nontemporal") == past
    assert text.count('call void @"llvm.x86.sse.sfence"()') == 1
    assert re.search(r'sfence"\(\)\s+ret void', text)
    agree(prog, {"A": normal(rows, width)})


@pytest.mark.parametrize("shift", [0, 4, 32, 60])
def test_non_temporal_stores_may_begin_at_any_address(shift: int) -> None:
    prog = _non_temporal(3, 80)
    given, whole = normal(3, 80), np.full(3 * 80 * 4 + 256, 7, np.uint8)
    begin = -whole.ctypes.data % 64 + shift
    for built in (build(prog, Target()), build_source(emit(prog, Target()), Target())):
        whole[:] = 7
        load(built).run([given.ctypes.data, whole.ctypes.data + begin])
        found = whole[begin : begin + given.nbytes].view(np.float32)
        np.testing.assert_array_equal(found, given.ravel() + 1)
        assert {*whole[:begin], *whole[begin + given.nbytes :]} == {7}


# ---- reductions


@pytest.mark.parametrize("combiner", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("lanes", [4, 16, 6])
@pytest.mark.parametrize("masked", [False, True])
def test_a_reduction_along_lanes_equals_the_interpreter(
    combiner: str, lanes: int, masked: bool
) -> None:
    m = 2 * lanes - (3 if masked else 0)
    column = add(mul(V, lanes), L)
    start = c({"sum": 0.0, "prod": 1.0, "max": -9.0, "min": 9.0}[combiner], "float32")
    combined = store("C", (U,), read("A", U, column), combiner)
    tile = Tile((("u", 3), ("v", 2)), (("l", lanes),), combined,
                lt(column, m) if masked else None)  # fmt: skip
    first = Tile((("u", 3),), (), store("C", (U,), start))
    prog = program([buffer("A", 3, m), out((3,))], Seq((first, tile)))
    data = RNG.choice(np.array([1, -1, 2], np.float32), (3, m))
    agree(prog, {"A": data}, source=lanes == 16)


def test_a_dot_product_into_a_scalar_register_equals_the_interpreter() -> None:
    k = add(mul(Var("ko"), 8), L)
    value = mul(read("A", Var("i"), k), read("B", k))
    acc = buffer("acc", scope=Scope.REGISTER)
    body = Seq((
        Tile((), (), store("acc", (), f32(0.0))),
        For("ko", c(3), Tile((), (("l", 8),), store("acc", (), value, "sum"), lt(k, 21))),
        Tile((), (), store("C", (Var("i"),), read("acc"))),
    ))  # fmt: skip
    prog = program([buffer("A", 4, 21), buffer("B", 21), out((4,))],
                   parallel("i", 4, Alloc(acc, body)))  # fmt: skip
    agree(prog, {"A": normal(4, 21), "B": normal(21)})


def test_dims_are_reduced_in_memory_and_in_registers() -> None:
    value = mul(read("A", U), read("B", U, L))
    memory = Tile((("u", 5),), (("l", 8),), store("C", (L,), value, "sum"), lt(L, 7))
    fill = Tile((), (("l", 8),), store("C", (L,), f32(0.0)), lt(L, 7))
    acc = buffer("acc", 8, scope=Scope.REGISTER)
    registers = Alloc(acc, Seq((
        Tile((), (("l", 8),), store("acc", (L,), f32(1.0))),
        Tile((("u", 5),), (("l", 8),), store("acc", (L,), value, "sum"),
             Binary("and", lt(L, 7), lt(add(U, L), 9))),
        Tile((), (("l", 8),), store("D", (L,), read("acc", L)), lt(L, 7)),
    )))  # fmt: skip
    buffers = [buffer("A", 5), buffer("B", 5, 7), out((7,)),
               out((7,), name="D")]  # fmt: skip
    prog = program(buffers, Seq((fill, memory)), registers)
    agree(prog, {"A": normal(5), "B": normal(5, 7)})


@pytest.mark.parametrize("combiner", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("along", ["lane", "dim"])
def test_argmax_and_argmin_return_value_and_first_index(
    combiner: str, dtype: str, along: str
) -> None:
    low = {"float32": float("-inf"), "int32": -(2**31)}[dtype]
    high = {"float32": float("inf"), "int32": 2**31 - 1}[dtype]
    start = (c(low if combiner == "argmax" else high, dtype), c(2**31 - 1, "int32"))
    k = add(mul(Var("ko"), 8), L) if along == "lane" else Var("ko")
    i = Var("i") if along == "lane" else L
    value = (read("A", i, k, dtype=dtype), Cast("int32", k))
    index = (i,)
    scan = Tile((), (("l", 8),), Store(("M", "P"), index, value, combiner), lt(k, 19))
    body: If | Seq = Seq((
        Tile((), () if along == "lane" else (("l", 8),), Store(("M", "P"), index, start)),
        For("ko", c(3 if along == "lane" else 19), scan),
    ))  # fmt: skip
    nest = For("i", c(8), body) if along == "lane" else body
    buffers = [buffer("A", 8, 19, dtype=dtype), out((8,), dtype, "M"), out((8,), "int32", "P")]
    data = RNG.integers(-4, 4, (8, 19)).astype(dtype)
    found = agree(program(buffers, nest), {"A": data})
    best = data.argmax(1) if combiner == "argmax" else data.argmin(1)
    np.testing.assert_array_equal(found["P"], best)


def test_argmax_prefers_nan_as_numpy_does() -> None:
    k = L
    start = (f32(float("-inf")), c(2**31 - 1, "int32"))
    body = Seq((
        Tile((), (), Store(("M", "P"), (c(0),), start)),
        Tile((), (("l", 16),),
             Store(("M", "P"), (c(0),), (read("A", k), Cast("int32", k)), "argmax")),
    ))  # fmt: skip
    data = np.arange(16, dtype=np.float32)
    data[[5, 9]] = np.nan
    prog = program([buffer("A", 16), out((1,), name="M"), out((1,), "int32", "P")], body)
    assert run_all(prog, {"A": data})["P"][0] == 5


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [
        ("float32", 4),
        ("float32", 8),
        ("float32", 16),
        ("float64", 2),
        ("float64", 4),
        ("float64", 8),
    ],
)
@pytest.mark.parametrize("op", ["max", "min"])
def test_max_and_min_propagate_nan(op: str, dtype: str, lanes: int) -> None:
    wide = (("l", lanes),)
    pair = Binary(op, read("A", L, dtype=dtype), read("B", L, dtype=dtype))
    both = Tile((), wide, store("C", (L,), pair))
    bent = Tile((), wide, store("D", (L,), Binary(op, read("A", L, dtype=dtype), c(0.0, dtype))))
    largest = Tile((), wide, store("E", (c(0),), read("B", L, dtype=dtype), op))
    a, b = normal(lanes).astype(dtype), normal(lanes).astype(dtype)
    a[0], b[1] = np.nan, np.nan
    if lanes > 2:
        a[3], b[3] = np.nan, np.nan
    buffers = [*(buffer(name, lanes, dtype=dtype) for name in "AB"),
               *(out((lanes,), dtype, name) for name in "CD"), out((1,), dtype, "E")]  # fmt: skip
    start = Tile((), (), store("E", (c(0),), c(0.0, dtype)))
    prog = program(buffers, both, bent, start, largest)
    found = run_all(prog, {"A": a, "B": b}, source=op == "max")
    extreme = np.maximum if op == "max" else np.minimum
    np.testing.assert_array_equal(found["C"], extreme(a, b))
    np.testing.assert_array_equal(found["D"], extreme(a, 0))
    assert np.isnan(found["E"][0])


@pytest.mark.parametrize(
    ("target", "dtype", "lanes", "name"),
    [
        (AVX512, "float32", 16, "avx512.mask.fixupimm.ps.512"),
        (AVX512, "float64", 4, "avx512.mask.fixupimm.pd.256"),
        (AVX2, "float32", 8, "avx.min.ps.256"),
        (SSE, "float64", 2, "sse2.min.pd"),
    ],
)
def test_max_and_min_are_opaque_to_the_optimiser(
    target: Target, dtype: str, lanes: int, name: str
) -> None:
    """LLVM would make two comparisons of the minimum and of the code that keeps a NaN."""
    pair = Binary("min", read("A", L, dtype=dtype), read("B", L, dtype=dtype))
    buffers = [*(buffer(one, lanes, dtype=dtype) for one in "AB"), out((lanes,), dtype)]
    text = module_text(program(buffers, Tile((), (("l", lanes),), store("C", (L,), pair))), target)
    assert f"@llvm.x86.{name}(" in text.replace('"', "")


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("ordered", [False, True])
def test_ordered_copies_of_a_reduction_compute_the_same(
    lanes: int, dtype: str, ordered: bool
) -> None:
    """C[u, l] += A[u, k] B[k, l], two copies per iteration; the sums are hidden if ordered."""
    acc = buffer("acc", 3, lanes, scope=Scope.REGISTER, dtype=dtype)
    dims, across, hints = (("u", 3),), (("l", lanes),), Hints(in_order=ordered)
    places = [add(mul(Var("k"), 2), c(n)) for n in range(2)]
    values = [mul(read("A", U, at, dtype=dtype), read("B", at, L, dtype=dtype)) for at in places]
    copies = [Tile(dims, across, store("acc", (U, L), v, "sum"), hints=hints) for v in values]
    start = Tile(dims, across, store("acc", (U, L), c(0, dtype)))
    back = Tile(dims, across, store("C", (U, L), read("acc", U, L, dtype=dtype)))
    loop = For("k", c(4), Seq(tuple(copies)))
    buffers = [
        buffer("A", 3, 8, dtype=dtype),
        buffer("B", 8, lanes, dtype=dtype),
        out((3, lanes), dtype),
    ]
    prog = program(buffers, Alloc(acc, Seq((start, loop, back))))
    hidden = 6 if ordered and dtype == "float32" else 0
    assert module_text(prog, AVX512).count("asm sideeffect") == hidden
    inputs = {"A": normal(3, 8).astype(dtype), "B": normal(8, lanes).astype(dtype)}
    agree(prog, inputs, source=lanes == 8)


# ---- control flow, scratch


def test_registers_keep_values_across_branches_and_dynamic_loops() -> None:
    acc = buffer("acc", 2, 8, scope=Scope.REGISTER)
    dims, lanes, at = (("u", 2),), (("l", 8),), (U, L)
    extent = Binary("min", c(3), Binary("sub", c(7), mul(Var("i"), 2)))
    twice = Tile(dims, lanes, store("acc", at, read("acc", *at), "sum"))
    plus = Tile(dims, lanes, store("acc", at, read("A", Var("k"), L), "sum"))
    body = Seq((
        Tile(dims, lanes, store("acc", at, f32(1.0))),
        For("k", extent, If(lt(Var("k"), 2), plus, twice)),
        If(Binary("eq", Binary("mod", Var("i"), c(2)), c(0)), twice),
        Tile(dims, lanes, store("C", (Var("i"), U, L), read("acc", *at))),
    ))  # fmt: skip
    prog = program([buffer("A", 3, 8), out((5, 2, 8))],
                   parallel("i", 5, Alloc(acc, body)))  # fmt: skip
    agree(prog, {"A": normal(3, 8)})


def test_scratch_is_private_to_a_task_and_same_names_shadow() -> None:
    local = buffer("s", 3, 10, scope=Scope.LOCAL)
    fill = For(
        "r",
        c(3),
        Tile((), (("l", 16),), store("s", (Var("r"), L), read("A", Var("i"), L)), lt(L, 10)),
    )
    use = Tile((("u", 3),), (("l", 16),), store("C", (Var("i"), U, L), read("s", U, L)), lt(L, 10))
    again = Alloc(buffer("s", 8, scope=Scope.REGISTER), Seq((
        Tile((), (("l", 8),), store("s", (L,), read("A", Var("i"), L))),
        Tile((), (("l", 8),), store("C", (Var("i"), c(0), L), read("s", L), "sum")),
    )))  # fmt: skip
    nest = parallel("i", 2, parallel("j", 1, Seq((Alloc(local, Seq((fill, use))), again))))
    prog = program([buffer("A", 2, 10), out((2, 3, 10))], nest)
    agree(prog, {"A": normal(2, 10)})


def test_tasks_are_the_product_of_the_parallel_loops() -> None:
    value = Cast("float32", add(mul(Var("i"), 100), mul(Var("j"), 10), L))
    tile = Tile((), (("l", 4),), store("C", (Var("i"), Var("j"), L), value))
    prog = program([out((3, 5, 4))], parallel("i", 3, parallel("j", 5, tile)))
    agree(prog, {})


# ---- dtypes


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "floordiv", "mod", "max", "min"])
@pytest.mark.parametrize("lanes", [0, 16])
def test_integer_arithmetic_equals_numpy(dtype: str, op: str, lanes: int) -> None:
    info = np.iinfo(dtype)
    a = RNG.integers(info.min, info.max, 48, dtype=dtype)
    b = RNG.integers(max(-5, info.min), 5, 48, dtype=dtype)
    b[b == 0] = 3
    a[:4], b[:4] = info.min, [-1 if info.min else 1, 1, 2, 3]
    index = add(mul(Var("i"), 16), L) if lanes else L
    value = Binary(op, read("A", index, dtype=dtype), read("B", index, dtype=dtype))
    body = (
        Tile((), (("l", 16),), store("C", (index,), value))
        if lanes
        else Tile((), (), store("C", (L,), value))
    )
    nest = For("i", c(3), body) if lanes else For("l", c(48), body)
    prog = program(
        [buffer("A", 48, dtype=dtype), buffer("B", 48, dtype=dtype), out((48,), dtype)], nest
    )
    found = run_all(prog, {"A": a, "B": b}, source=op == "floordiv")["C"]
    numpy = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide,
             "mod": np.remainder, "max": np.maximum, "min": np.minimum}[op]  # fmt: skip
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, numpy(a, b))


@pytest.mark.parametrize("by", [1, 2, 3, 7, 8, -3])
def test_division_by_a_constant_floors(by: int) -> None:
    a = np.arange(-16, 16, dtype=np.int32)
    x = read("A", add(mul(U, 16), L), dtype="int32")
    place = (add(mul(U, 16), L),)
    tiles = [
        Tile((("u", 2),), (("l", 16),), store(name, place, Binary(op, x, c(by, "int32"))))
        for name, op in (("C", "floordiv"), ("D", "mod"))
    ]
    prog = program(
        [buffer("A", 32, dtype="int32"), out((32,), "int32"), out((32,), "int32", "D")], *tiles
    )
    found = run_all(prog, {"A": a})
    np.testing.assert_array_equal(found["C"], a // by)
    np.testing.assert_array_equal(found["D"], a % by)


def test_division_by_zero_does_not_trap() -> None:
    x, y = read("A", L, dtype="int32"), read("B", L, dtype="int32")
    tile = Tile((), (("l", 16),), store("C", (L,), Binary("floordiv", x, y)))
    scalar = For("l", c(16), Tile((), (), store("D", (L,), Binary("mod", x, y))))
    buffers = [buffer("A", 16, dtype="int32"), buffer("B", 16, dtype="int32"), out((16,), "int32"),
               out((16,), "int32", "D")]  # fmt: skip
    run_all(program(buffers, tile, scalar),
            {"A": np.full(16, 5, np.int32), "B": np.zeros(16, np.int32)})  # fmt: skip


CASTS = ["float32", "float64", *INTS, "bool"]


@pytest.mark.parametrize("old", CASTS)
def test_casts_equal_numpy(old: str) -> None:
    a = np.array([0, 1, 2, 3, 100, 5, 7, 120, 0, 1, 9, 11, 64, 0, 33, 2]).astype(old)
    if old.startswith("float"):
        a[:4] += np.array([0.5, 0.75, 0.25, 0.99], old)
    news = [name for name in CASTS if name != old]
    tiles = [
        Tile((), (("l", 16),), store(f"C{k}", (L,), Cast(new, read("A", L, dtype=old))))
        for k, new in enumerate(news)
    ]
    buffers = [
        buffer("A", 16, dtype=old),
        *(out((16,), new, f"C{k}") for k, new in enumerate(news)),
    ]
    found = run_all(program(buffers, *tiles), {"A": a}, source=old == "float32")
    for k, new in enumerate(news):
        np.testing.assert_array_equal(found[f"C{k}"], a.astype(new), err_msg=new)


@pytest.mark.parametrize("lanes", [0, 8])
def test_uint64_beyond_int64_converts_to_and_from_float64(lanes: int) -> None:
    a = np.array([0, 1.9, 2.0**52, 2.0**63 - 1024, 2.0**63, 2.0**63 + 2048, 2.0**64 - 2048, 7.0])
    there, back = Cast("uint64", read("A", L, dtype="float64")), read("C", L, dtype="uint64")
    tiles = [
        Tile((), (("l", 8),) if lanes else (), store(name, (L,), value))
        for name, value in (("C", there), ("D", Cast("float64", back)))
    ]
    nests = tiles if lanes else [For("l", c(8), tile) for tile in tiles]
    buffers = [buffer("A", 8, dtype="float64"), out((8,), "uint64"), out((8,), "float64", "D")]
    found = run_all(program(buffers, *nests), {"A": a})
    np.testing.assert_array_equal(found["C"], a.astype(np.uint64))
    np.testing.assert_array_equal(found["D"], np.trunc(a))


@pytest.mark.parametrize("lanes", [0, 8])
def test_float16_is_computed_in_float32(lanes: int) -> None:
    a = np.array([0.1, -3.7, 65504, 1e-7, np.inf, 0, 2.5, np.nan], np.float16)
    value = mul(read("A", L, dtype="float16"), c(0.5, "float16"))
    tile = Tile((), (("l", 8),) if lanes else (), store("C", (L,), value))
    nest = tile if lanes else For("l", c(8), tile)
    prog = program([buffer("A", 8, dtype="float16"), out((8,), "float16")], nest)
    want = (a.astype(np.float32) * np.float32(0.5)).astype(np.float16)
    np.testing.assert_array_equal(run_all(prog, {"A": a})["C"], want)


def test_bfloat16_rounds_to_nearest_even() -> None:
    x = np.array([1.0, 1.00390625, 1.01171875, -3.14159, 3.4e38, np.inf, np.nan, 1e-40], np.float32)
    there = Tile((), (("l", 8),), store("C", (L,), Cast("bfloat16", read("A", L))))
    back = Tile((), (("l", 8),), store("D", (L,), Cast("float32", read("C", L, dtype="bfloat16"))))
    buffers = [buffer("A", 8), out((8,), "bfloat16"), out((8,), name="D")]
    found = run_all(program(buffers, there, back), {"A": x})
    bits = x.view(np.uint32).astype(np.uint64)
    want = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint32) << 16
    ok = ~np.isnan(x)
    np.testing.assert_array_equal(found["D"][ok], want.view(np.float32)[ok])
    assert np.isnan(found["D"][~ok]).all()


def test_logic_on_bools_equals_numpy() -> None:
    a, b = read("A", L, dtype="bool"), read("B", L, dtype="bool")
    value = Binary("or", Call("not", a), Binary("and", b, Binary("gt", read("X", L), f32(0.0))))
    tile = Tile((), (("l", 16),), store("C", (L,), value))
    buffers = [buffer("A", 16, dtype="bool"), buffer("B", 16, dtype="bool"),
               buffer("X", 16),
               out((16,), "bool")]  # fmt: skip
    inputs = {"A": RNG.random(16) > 0.5, "B": RNG.random(16) > 0.5, "X": normal(16)}
    found = run_all(program(buffers, tile), inputs)["C"]
    np.testing.assert_array_equal(found, ~inputs["A"] | (inputs["B"] & (inputs["X"] > 0)))


def test_a_row_of_a_float64_matmul_equals_the_interpreter() -> None:
    value = mul(read("A", Var("k"), dtype="float64"), read("B", Var("k"), L, dtype="float64"))
    acc = buffer("acc", 8, scope=Scope.REGISTER, dtype="float64")
    body = Alloc(acc, Seq((
        Tile((), (("l", 8),), store("acc", (L,), Const(0.0, "float64"))),
        For("k", c(9), Tile((), (("l", 8),), store("acc", (L,), value, "sum"))),
        Tile((), (("l", 8),), store("C", (L,), read("acc", L, dtype="float64"))),
    )))  # fmt: skip
    prog = program([buffer("A", 9, dtype="float64"), buffer("B", 9, 8, dtype="float64"),
                    out((8,), "float64")], body)  # fmt: skip
    agree(
        prog,
        {"A": RNG.integers(-9, 9, 9).astype(float), "B": RNG.integers(-9, 9, (9, 8)).astype(float)},
    )


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("rows", [4, 5, 16, 18])
@pytest.mark.parametrize("masked", [False, True])
def test_columns_are_loaded_by_transposing(lanes: int, rows: int, masked: bool) -> None:
    n, m = rows, 2 * lanes - (3 if masked else 0)
    column = add(mul(V, lanes), L)
    mask = Binary("and", lt(column, m), lt(U, n - 1)) if masked else None
    tile = Tile((("v", 2), ("u", rows)), (("l", lanes),),
                store("C", (U, column), read("A", column, U)), mask)  # fmt: skip
    fill = For("i", c(n), For("l", c(m), Tile((), (), store("C", (Var("i"), L), f32(9.0)))))
    prog = program([buffer("A", m, n), out((n, m))], fill, tile)
    agree(prog, {"A": normal(m, n)}, source=rows == 5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_strided_loads_of_every_dtype_equal_numpy(dtype: str) -> None:
    data = normal(4, 33).astype(dtype)
    for step, first in ((2, 0), (2, 2), (-1, 15)):
        place = add(mul(L, step), c(first))
        tile = Tile(
            (), (("l", 16),), store("C", (Var("i"), L), read("A", Var("i"), place, dtype=dtype))
        )
        prog = program([buffer("A", 4, 33, dtype=dtype), out((4, 16), dtype)], For("i", c(4), tile))
        found = run_all(prog, {"A": data}, source=step == 2)["C"]
        np.testing.assert_array_equal(found, data[:, [first + step * k for k in range(16)]])


@pytest.mark.parametrize("n", [9, 17, 33])
def test_one_lane_of_a_narrowed_vector_is_stored_alone(n: int) -> None:
    """LLVM 22 stores such a lane as wide as it was before the cast: beside the buffer."""
    x = te.placeholder((3, n), "X", "int64")
    dag = te.dag(te.compute((3, n), lambda i, j: te.cast(x[i, j], "int32"), name="Y"))
    target = Target()
    for plan in plans(derive(dag, target, CPU).sketches[0], target):
        row = [size.values[0] for size in plan.sizes]
        program = bind(plan, row, target)
        for built in (build(program, target), build_source(emit(program, target), target)):
            assert verify(load(built), program.buffers, make_cases(dag, 0), {}) is None


@pytest.mark.parametrize("offset", ["next", "past the end", "before the start"])
def test_a_prefetch_of_any_address_changes_nothing(offset: str) -> None:
    """C[i, j] = A[i, j] + 1 in four passes, of which each fetches a line of the next row."""
    row, line = Var("i"), Binary("mod", Var("p"), c(2))
    far = {"next": 0, "past the end": 1 << 40, "before the start": -(1 << 40)}[offset]
    place = add(add(mul(add(row, c(1)), 32), mul(line, 16)), c(far))
    value = add(read("A", row, add(mul(V, 16), L)), f32(1.0))
    tile = Tile((("v", 2),), (("l", 16),), store("C", (row, add(mul(V, 16), L)), value))
    body = For("p", c(4), Seq((tile, Prefetch("A", place))))
    prog = program([buffer("A", 3, 32), out((3, 32))], For("i", c(3), body))
    assert module_text(prog, AVX512).count('call void @"llvm.prefetch.p0"') == 1
    assert emit(prog, AVX512).source.count("prefetch(b0 + (") == 1
    agree(prog, {"A": normal(3, 32)})
