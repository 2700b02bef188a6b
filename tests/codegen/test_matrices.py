"""Tiles whose sums an instruction on matrices does: exact at every edge, in both printers."""

import itertools
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
import pytest

from ansorpy.codegen import loader as codegen_load
from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.llvm_ir import module_text, object_bytes
from ansorpy.codegen.shared_library import build as build_library
from ansorpy.codegen.shared_library import load as load_library
from ansorpy.codegen.simd.matrices import LEFT, SUMS, parts, place_of
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Binary, Cast, Const
from ansorpy.loopir.interp import run as interpret
from ansorpy.loopir.nodes import For, LoopKind, Matrix, Program, Scope, Seq, Stmt, Tile
from ansorpy.loopir.passes.promote_accumulators import promote_accumulators
from ansorpy.loopir.passes.scalar_replacement import scalar_replacement
from ansorpy.loopir.passes.tile import tile
from ansorpy.loopir.passes.zero_init import zero_init
from ansorpy.loopir.printer import text
from ansorpy.loopir.rewrite import map_stmt, substitute_stmt, walk_stmt
from ansorpy.loopir.verify import check
from ansorpy.measure.host import local_target
from ansorpy.rewrites.intrinsics import MATRICES, Intrinsic
from ansorpy.target import Target
from tests.codegen.programs import arrays_of
from tests.codegen.running import run_llvm, run_source
from tests.codegen.test_dots import drawn, whole
from tests.loopir.build import add, buffer, c, mul, parallel, program, read, store, v

Array = npt.NDArray[Any]
LOCAL = local_target(1)
AMX = Target(
    vector_bits=512, cpu="sapphirerapids",
    features=("amx-bf16", "amx-int8", "amx-tile", "avx512bw", "avx512f", "avx512vl"),
)  # fmt: skip
SIZES = [(16, 16, 16), (32, 32, 32), (7, 16, 16), (16, 5, 16), (16, 16, 3), (37, 41, 21), (1, 1, 1)]
X86 = pytest.mark.skipif(
    not llvm.get_process_triple().startswith("x86_64"), reason="instructions of x86-64"
)


def here(one: Intrinsic) -> Any:
    there = one.on(LOCAL.features)
    mark = pytest.mark.skipif(not there, reason=f"this processor has no {one.name}")
    return pytest.param(one, id=one.name, marks=mark)


def product(one: Intrinsic, rows: int, lanes: int, groups: int, begins: bool = True) -> Program:
    """C[t] = 0 (or its old value), C[t] += A[t] @ B over two parts of the sum; not yet tiled."""
    g = add(mul(v("k"), groups), v("g"))
    left = read("A", v("t"), v("i"), add(mul(g, one.steps), v("q")), dtype=one.left)
    right = read("B", g, v("j"), v("q"), dtype=one.right)
    value = Binary("mul", Cast(one.into, left), Cast(one.into, right))
    at = (v("t"), v("i"), v("j"))
    stmt: Stmt = For("q", c(one.steps), store("C", at, value, "sum"), LoopKind.DOT)
    stmt = For("g", c(groups), stmt, LoopKind.GROUP)
    zero = store("C", at, Const(0.0 if one.into == "float32" else 0, one.into))

    def around(inner: Stmt) -> Stmt:
        inner = For("j", c(lanes), inner, LoopKind.VECTOR)
        return For("i", c(rows), inner, LoopKind.UNROLL)

    sums: Stmt = For("k", c(2), around(stmt))
    body = Seq((around(zero), sums)) if begins else Seq((around(zero), around(stmt)))
    depth = (2 if begins else 1) * groups
    buffers = [
        buffer("A", 3, rows, depth * one.steps, dtype=one.left),
        buffer("B", depth, lanes, one.steps, dtype=one.right),
        buffer("C", 3, rows, lanes, scope=Scope.OUTPUT, dtype=one.into),
    ]
    made = program(buffers, parallel("t", 3, body))
    return made if begins else _at_first(made)


def _at_first(made: Program) -> Program:
    """Return the program with the one part of its sum named 0."""
    (phase,) = made.phases
    body = substitute_stmt(phase.body, {"k": c(0)})
    return Program(made.name, made.buffers, (type(phase)(phase.name, body),))


def tiled(made: Program, target: Target = AMX) -> Program:
    done = promote_accumulators(scalar_replacement(zero_init(tile(made, target))))
    check(done, level="tiled")
    return done


def matrices(made: Program) -> list[Matrix]:
    stmts = (stmt for phase in made.phases for stmt in walk_stmt(phase.body))
    return [s.matrix for s in stmts if isinstance(s, Tile) and s.matrix is not None]


def inputs_of(one: Intrinsic, made: Program, seed: int) -> tuple[dict[str, Array], Array]:
    """Return inputs and their product."""
    rng = np.random.default_rng(seed)
    shapes = {b.name: tuple(int(str(n)) for n in b.shape) for b in made.buffers}
    a, b = (drawn(d, shapes[name], rng) for name, d in (("A", one.left), ("B", one.right)))
    depth, lanes, steps = shapes["B"]
    flat = whole(b, one.right).transpose(0, 2, 1).reshape(depth * steps, lanes)
    return {"A": a, "B": b}, whole(a, one.left) @ flat


@pytest.mark.parametrize("one", MATRICES[:4], ids=lambda one: one.name)
@pytest.mark.parametrize("size", [(3, 16, 2), (17, 18, 17)])
@pytest.mark.parametrize("begins", [False, True])
def test_the_interpreter_computes_matrix_tiles_exactly(
    one: Intrinsic, size: tuple[int, int, int], begins: bool
) -> None:
    rows, lanes, groups = size
    made = product(one, rows, lanes, groups, begins=begins)
    done = tiled(made)
    assert matrices(done)
    # If the tile that sets zeros also sums, the first part begins without them.
    assert [each.fresh for each in matrices(done)].count(True) == (size[1] == 16)
    inputs, wanted = inputs_of(one, made, sum(size))
    np.testing.assert_array_equal(interpret(done, inputs)["C"], wanted)


@pytest.mark.parametrize("one", [here(one) for one in MATRICES])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("begins", [False, True])
def test_compiled_matrix_products_are_exact_at_every_size(
    one: Intrinsic, size: tuple[int, int, int], begins: bool
) -> None:
    made = product(one, *size, begins=begins)
    inputs, wanted = inputs_of(one, made, sum(size))
    got = run_llvm(tiled(made, LOCAL), inputs, LOCAL)
    np.testing.assert_array_equal(got["C"].astype(wanted.dtype), wanted)


@pytest.mark.parametrize("one", [here(MATRICES[0]), here(MATRICES[4])])
def test_matrix_products_compiled_by_numba_are_exact(one: Intrinsic) -> None:
    made = product(one, 19, 32, 18, begins=False)
    inputs, wanted = inputs_of(one, made, 5)
    got = run_source(tiled(made, LOCAL), inputs)
    np.testing.assert_array_equal(got["C"].astype(wanted.dtype), wanted)


@pytest.mark.parametrize("one", [here(MATRICES[2])])
def test_a_library_requests_the_matrix_registers_from_the_system(one: Intrinsic) -> None:
    made = tiled(product(one, 16, 16, 16), LOCAL)
    built = build_library(Export(made, ("A", "B"), ("C",), {}, "ansorpy_test"), LOCAL)
    assert {"amx-int8", "amx-tile"} <= set(built.features)
    assert "amx-bf16" not in built.features
    inputs, wanted = inputs_of(one, made, 1)
    arrays = arrays_of(made, inputs)
    load_library(built).run([arrays[name].ctypes.data for name in ("A", "B", "C")])
    np.testing.assert_array_equal(arrays["C"], wanted)


@X86
@pytest.mark.parametrize("one", MATRICES, ids=lambda one: one.name)
def test_matrix_code_compiles_on_any_x86_machine(one: Intrinsic) -> None:
    words = module_text(tiled(product(one, 37, 41, 21)), AMX)
    assert f'@"{one.function}"(i8 0, i8 4, i8 6)' in words
    # Full registers for the task, and four cut-off shapes and back.
    assert words.count('call void @"llvm.x86.ldtilecfg"') > 2
    assert words.count('call void @"llvm.x86.tilerelease"') == 1
    assert object_bytes(words, AMX)


@X86
def test_a_library_with_matrix_instructions_is_refused_without_them() -> None:
    one = MATRICES[0]
    built = build_library(
        Export(tiled(product(one, 16, 16, 16)), ("A", "B"), ("C",), {}, "ansorpy_test"), AMX
    )
    if one.on(LOCAL.features):
        pytest.skip(f"this processor has {one.name}")
    with pytest.raises(BuildError, match=r"lacks one of .*amx-tile"):
        load_library(built)


def test_groups_without_a_matrix_instruction_become_a_loop_around_dots() -> None:
    one = MATRICES[2]
    vnni = Target(vector_bits=512, features=("avx512f", "avx512vl", "avx512vnni"))
    done = tiled(product(one, 5, 16, 3), vnni)
    assert not matrices(done)
    assert "vpdpbusd" in text(done)
    inputs, wanted = inputs_of(one, done, 2)
    np.testing.assert_array_equal(interpret(done, inputs)["C"], wanted)


def test_a_product_of_one_row_or_one_group_uses_matrix_instructions() -> None:
    one = MATRICES[0]
    sizes: list[tuple[int, int, int]] = [(1, 16, 16), (16, 16, 1), (1, 16, 1)]
    for size in sizes:
        made = product(one, *size, begins=False)
        (phase,) = made.phases
        gone = {"i": c(0)} if size[0] == 1 else {}
        gone |= {"g": c(0)} if size[2] == 1 else {}
        folded = substitute_stmt(_without(phase.body, set(gone)), gone)
        done = tiled(Program(made.name, made.buffers, (type(phase)(phase.name, folded),)))
        assert matrices(done)
        inputs, wanted = inputs_of(one, made, 3)
        np.testing.assert_array_equal(interpret(done, inputs)["C"], wanted)
        if one.on(LOCAL.features):
            np.testing.assert_array_equal(run_llvm(done, inputs, LOCAL)["C"], wanted)


def _without(stmt: Stmt, names: set[str]) -> Stmt:
    """Return a statement without some loops, as folding leaves loops of one iteration."""
    return map_stmt(stmt, lambda s: s.body if isinstance(s, For) and s.var in names else s)


def test_a_kernel_with_matrix_instructions_is_refused_without_permission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = tiled(product(MATRICES[0], 16, 16, 16))
    monkeypatch.setattr(codegen_load, "allow_matrices", lambda: False)
    with pytest.raises(BuildError, match="does not let this process use AMX"):
        codegen_load.load(codegen_load.build(done, AMX))


def test_blocks_and_their_remainder_cover_every_extent_once() -> None:
    for extent in range(1, 70):
        covered = [start + k for size, starts in parts(extent) for start in starts
                   for k in range(size)]  # fmt: skip
        assert covered == list(range(extent))


def test_the_register_with_the_latest_use_is_evicted() -> None:
    wanted = ["a", "b", "a", "c", "a", "b"]
    held: dict[int, Any] = {}
    loads = [
        key
        for k, key in enumerate(wanted)
        if place_of(key, held, LEFT, wanted[k + 1 :])[1]
    ]  # fmt: skip
    assert loads == ["a", "b", "c", "b"]  # "a" stays: it is needed before "b"


def test_four_accumulators_load_every_operand_matrix_once() -> None:
    words = module_text(tiled(product(MATRICES[0], 32, 32, 16)), AMX)
    # From zero, and in the loop over the other parts; two matrices of either operand each time.
    assert words.count('call void @"llvm.x86.tilezero"') == len(SUMS)
    assert words.count('call void @"llvm.x86.tileloadd64"') == 4 + (len(SUMS) + 4)
    assert words.count(f'call void @"{MATRICES[0].function}"') == 2 * len(SUMS)
    pairs = itertools.product((4, 5), (6, 7))
    assert all(f"i8 {a}, i8 {b})" in words for a, b in pairs)
