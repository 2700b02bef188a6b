"""Kernels for a GPU as text: one golden, the shape of launches, and the sentences of refusals."""

import re
from dataclasses import replace

import pytest

from ansorpy.codegen.llvm_ir import parse
from ansorpy.codegen.simt.launch import Launch
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Binary, Call, Expr, Select
from ansorpy.loopir.nodes import Alloc, For, Matrix, Prefetch, Program, Scope, Seq, Stmt, Tile
from ansorpy.target import GpuTarget
from tests.codegen.programs import matmul
from tests.conftest import Golden
from tests.loopir.build import add, buffer, c, f32, mul, parallel, program, read, store, v

GPU = GpuTarget(cpu="sm_90")
L, ROW = v("l"), v("i")
BARRIER = 'call void @"llvm.nvvm.barrier.cta.sync.aligned.all"'


def rows(lanes: int, *tiles: Tile) -> Program:
    """Tiles over A, B (4, lanes) and S (4,), one block per row i."""
    buffers = [
        buffer("A", 4, lanes),
        buffer("B", 4, lanes, scope=Scope.OUTPUT),
        buffer("S", 4, scope=Scope.OUTPUT),
    ]
    return program(buffers, parallel("i", 4, Seq(tiles)))


def row_sum(lanes: int) -> Tile:
    return Tile((), (("l", lanes),), store("S", (ROW,), read("A", ROW, L), "sum"))


def copied(lanes: int, value: Expr | None = None) -> Tile:
    return Tile((), (("l", lanes),), store("B", (ROW, L), value or read("A", ROW, L)))


def text_of(prog: Program) -> str:
    (text,) = simt_code(prog, GPU).texts
    parse(text)
    return text


def test_text_of_a_small_kernel(golden: Golden) -> None:
    golden.check(text_of(matmul(3, 40, 5, rows=2, vectors=1, lanes=32)))


def test_a_phase_is_a_launch_and_a_task_is_a_block() -> None:
    prog = rows(48, copied(48))
    ahead = replace(prog.phases[0], ahead=True)
    code = simt_code(replace(prog, phases=(ahead, prog.phases[0])), GPU)
    assert code.launches == (Launch("phase0", 4, 64, 0, True), Launch("phase1", 4, 64, 0))
    assert code.buffers == prog.buffers
    for k, text in enumerate(code.texts):
        assert f"define ptx_kernel void @phase{k}(ptr addrspace(1) noalias" in text
        assert '"nvvm.maxntid"="64"' in text
        assert 'target triple = "nvptx64-nvidia-cuda"' in text
    assert hash(code) == hash(simt_code(replace(prog, phases=(ahead, prog.phases[0])), GPU))


def test_loads_of_written_buffers_stay_behind_barriers() -> None:
    """A store of the same thread before the barrier says nothing: another thread stored since."""
    lanes = 64
    there = Binary("sub", c(lanes - 1), L)
    other = Tile((), (("l", lanes),), store("B", (ROW, there), f32(2.0)))
    buffers = [*rows(lanes).buffers, buffer("C", 4, lanes, scope=Scope.OUTPUT)]
    taken = Tile((), (("l", lanes),), store("C", (ROW, L), read("B", ROW, L)))
    prog = program(buffers, parallel("i", 4, Seq((copied(lanes), other, taken))))
    text = text_of(prog)
    assert re.findall(r"ptr addrspace\(1\) (noalias readonly )?%v\d", text.partition("{")[0]) == [
        "noalias readonly ", "", "noalias readonly ", "",
    ]  # fmt: skip
    made = ptx(text, "sm_90")
    behind = made[made.rindex("bar") :]
    assert len(re.findall(r"ld\.global\.(b|f)32", behind)) == 1


@pytest.mark.parametrize(("lanes", "guards"), [(32, 0), (16, 1), (48, 1), (64, 0)])
def test_threads_beyond_the_lanes_are_left_out(lanes: int, guards: int) -> None:
    text = text_of(rows(lanes, copied(lanes)))
    assert len(re.findall(rf"icmp ult i32 %v\d+, {lanes}\b", text)) == guards
    assert text.count("br i1") == guards


@pytest.mark.parametrize(("limit", "compared"), [(64, 0), (60, 1), (32, 1), (20, 1)])
def test_a_condition_that_all_threads_decide_alike_is_not_computed(
    limit: int, compared: int
) -> None:
    """Elements 32 d + l below `limit`, d = 0, 1: one of two groups of 32 has a condition."""
    place = add(mul(v("d"), c(32)), L)
    mask = Binary("lt", place, c(limit))
    text = text_of(
        rows(
            64,
            Tile((("d", 2),), (("l", 32),), store("B", (ROW, place), read("A", ROW, place)), mask),
        )
    )
    assert len(re.findall(r"icmp slt i64", text)) == compared - (limit == 32)
    assert text.count("store float") == (1 if limit <= 32 else 2)


def test_one_thread_stores_a_tile_without_lanes() -> None:
    text = text_of(rows(64, Tile((), (), store("S", (ROW,), read("A", ROW, c(0))))))
    assert re.search(r"icmp ult i32 %v\d+, 1\b", text)


def test_lanes_are_digits_of_the_number_of_a_thread() -> None:
    lanes = (("m", 2), ("h", 4), ("l", 8))
    place = add(add(mul(v("m"), c(32)), mul(v("h"), c(8))), L)
    text = text_of(rows(64, Tile((), lanes, store("B", (ROW, place), read("A", ROW, place)))))
    assert re.findall(r"(?:udiv|urem) i32 %v\d+, (\d+)", text)[:4] == ["32", "8", "4", "8"]
    assert '"nvvm.maxntid"="64"' in text


def test_a_sum_over_threads_takes_butterflies_and_one_round_through_shared_memory() -> None:
    warp, block = text_of(rows(32, row_sum(32))), text_of(rows(128, row_sum(128)))
    assert len(re.findall(r"call i32 @\"llvm.nvvm.shfl", warp)) == 5
    assert "addrspace(3)" not in warp
    assert len(re.findall(r"call i32 @\"llvm.nvvm.shfl", block)) == 5 + 2
    assert "@shared0 = internal addrspace(3) global [4 x float] undef, align 16" in block
    assert simt_code(rows(128, row_sum(128)), GPU).launches[0].shared_bytes == 16


def test_all_threads_wait_before_they_load_elements_of_others() -> None:
    lanes = 64
    first = Tile((), (("l", lanes),), store("s", (L,), read("A", ROW, L)))
    turned = read("s", Binary("sub", c(lanes - 1), L))
    scratch = Alloc(buffer("s", lanes, scope=Scope.LOCAL), Seq((first, copied(lanes, turned))))
    text = text_of(replace(rows(lanes), phases=program([], parallel("i", 4, scratch)).phases))
    store_at = text.index("store float")
    assert BARRIER in text[store_at : text.rindex("load float")]
    assert text.count(BARRIER) == 1
    assert "@shared0 = internal addrspace(3) global [64 x float]" in text


def test_a_lane_of_a_register_tile_is_a_register_of_its_thread() -> None:
    acc = buffer("acc", 2, 64, scope=Scope.REGISTER)
    place = (v("d"), L)
    dims, wide = (("d", 2),), (("l", 64),)
    body = Seq((
        Tile(dims, wide, store("acc", place, f32(0.0))),
        For("k", c(4), Tile(dims, wide, store("acc", place, read("A", v("k"), L), "sum"))),
        Tile((), wide, store("B", (ROW, L), add(read("acc", c(0), L), read("acc", c(1), L)))),
    ))  # fmt: skip
    text = text_of(replace(rows(64), phases=program([], parallel("i", 4, Alloc(acc, body))).phases))
    assert text.count("phi float") == 2
    assert "<64 x" not in text
    assert "alloca" not in text


def test_a_guarded_load_is_a_branch() -> None:
    bound = Binary("lt", L, c(5))
    text = text_of(rows(32, copied(32, Select(bound, read("A", ROW, L), f32(0.0)))))
    assert text.count("br i1") == 1
    assert "phi float" in text
    assert "select" not in text


def test_a_prefetch_writes_nothing() -> None:
    prog = rows(32, copied(32))
    phases = program([], parallel("i", 4, Seq((Prefetch("A", c(64)), copied(32))))).phases
    assert text_of(replace(prog, phases=phases)) == text_of(prog)


def refused() -> dict[str, Stmt]:
    """Return statements that have no meaning on a GPU."""
    dims, wide = (("u", 2), ("q", 4)), (("l", 32),)
    product = store("B", (ROW, L), read("A", ROW, L), "sum")
    acc = buffer("acc", 32, scope=Scope.REGISTER)
    large = buffer("s", 1 << 14, scope=Scope.LOCAL)
    taken = Tile((), wide, store("acc", (L,), read("A", ROW, L)))
    turned = Tile((("u", 32),), (), store("S", (ROW,), read("acc", v("u")), "sum"))
    return {
        "dot": Tile(dims, wide, product, dot=("q", "llvm.x86.avx512.vpdpbusd.512")),
        "matrix": Tile(dims, wide, product, matrix=Matrix("u", "q")),
        "some": Tile((), (("m", 2), ("l", 32)), product),
        "wide": copied(2048),
        "last": Tile((), wide, store("S", (ROW,), read("A", ROW, L))),
        "other": Alloc(acc, Seq((taken, turned))),
        "shared": Alloc(large, copied(32, read("s", L))),
        "sin": copied(32, Call("sin", read("A", ROW, L))),
    }


PLAIN = "because a tile becomes scalar code of one thread; expected sums of products"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("dot", f"cannot write a dot product for CUDA {PLAIN}"),
        ("matrix", f"cannot write a matrix instruction for CUDA {PLAIN}"),
        ("some", "cannot write a reduction over some lanes to B for CUDA because all threads of a"
         " block exchange values; expected all lanes in the index, or none"),
        ("wide", "cannot write p0 for CUDA because a tile has 2048 lanes; expected at most 1024,"
         " the threads of a block"),
        ("last", "cannot write a store of all lanes to S for CUDA because its threads would write"
         " one element; expected a reduction over the lanes"),
        ("other", "cannot write a tile that reads acc at u for CUDA because the register belongs to"
         " another thread; expected the lane of the tile"),
        ("shared", "cannot write p0 for CUDA because a block needs 65536 bytes of shared memory;"
         " expected at most 49152"),
        ("sin", "cannot write sin of double for CUDA because it calls the C library; expected a"
         " function of float32 other than sin, cos, tan, pow and fmod"),
    ],
)  # fmt: skip
def test_a_statement_without_meaning_on_a_gpu_is_refused(name: str, sentence: str) -> None:
    body = parallel("i", 4, refused()[name])
    prog = replace(rows(2048 if name == "wide" else 32), phases=program([], body).phases)
    with pytest.raises(BuildError) as raised:
        simt_code(prog, GPU)
    assert str(raised.value).removeprefix("p0: ") == sentence


def test_the_back_end_of_a_gpu_takes_the_text() -> None:
    for prog in (matmul(3, 40, 5, rows=2, vectors=1, lanes=32), rows(128, row_sum(128))):
        (text,) = simt_code(prog, GPU).texts
        made = ptx(text, "sm_90")
        assert ".visible .entry phase0(" in made
        assert ".extern .func" not in made
