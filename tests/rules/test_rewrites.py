"""The successors of every rule, as text."""

from dataclasses import replace
from inspect import isclass
from pkgutil import iter_modules

import pytest

from ansorpy import rules
from ansorpy.frontends.tc.text import parse
from ansorpy.rules import (
    AddCacheRead,
    AddCacheWrite,
    AddRfactor,
    AlignRows,
    AllowRounding,
    AlwaysInline,
    CrossThreadReduction,
    FuseChain,
    InlineTranspose,
    JoinAxes,
    KeepRow,
    SimplifyConst,
    Skip,
    SkipPadding,
    SpecialComputeLocation,
    SplitGroups,
    SplitPhases,
    SplitReduction,
    StreamReduction,
    Tensorize,
    Tiling,
    TilingWithFusion,
    Winograd,
)
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import State
from ansorpy.target import Target
from ansorpy.te.dag import Attrs, Compute, Dag
from ansorpy.topi.workloads import Window, conv2d, layer_norm, transposed_conv2d
from ansorpy.tuner.rule_sets.sets import registered
from tests.conftest import Golden
from tests.golden_dags import (
    dag,
    inp,
    matmul,
    matmul_relu,
    op,
    read,
    row_min,
    softmax,
    total,
    winograd,
)
from tests.rules.cursors import CPU, CUDA, at, shown
from tests.rules.sets import EVERY, SETS

WINO = winograd(8, 8, 9, 4)


def after(rule: Rule, cursor: Cursor, stage: str) -> Cursor:
    """The cursor on `stage` of the first successor of a rule."""
    return at(next(rule.rewrite(cursor)).state, stage, cursor.target)


def whole(d: Dag, stage: str, *axes: str) -> Dag:
    node = d.node(stage)
    assert isinstance(node, Compute)
    marked = replace(node, attrs=Attrs(no_split_inner=axes))
    return replace(d, nodes=tuple(marked if n is node else n for n in d.nodes))


def sums_of_sums() -> Dag:
    """B = row sums of A, C = total of B."""
    b = op("B", {"i": 64}, read("A", "i", "k"), over={"k": 128})
    return dag("sums", [inp("A", 64, 128), b, op("C", {}, read("B", "r"), over={"r": 64})])


def rows_of_rows() -> Dag:
    b = op("B", {"i": 8, "j": 4}, read("A", "i", "j", "k"), over={"k": 128})
    return dag(
        "rows", [inp("A", 8, 4, 128), b, op("C", {"i": 8}, read("B", "i", "j"), over={"j": 4})]
    )


FUSED = TilingWithFusion("SSRSRS", levels=(1, 2), alone=False)
GPU_FUSED = TilingWithFusion("SSSRRSRS", levels=(3,), alone=True)
RELU = matmul_relu(64, 64, 64)
VNNI = Target(features=("avx512bw", "avx512f", "avx512vnni"), cpu="znver4")
(INT8,) = parse(
    "def i8(uint8(16,64) A, int8(64,32) B) -> (C) { C(i,j) +=! int32(A(i,k)) * int32(B(k,j)) }"
)
(COLUMNS,) = parse("def columns(float(512,256) A) -> (S) { S(j) +=! A(i,j) }")
(TURNED,) = parse(
    "def turned(float(32,64) A, float(64,48) B) -> (C) "
    "{ T(j,k) = B(k,j)\n C(i,j) +=! A(i,k) * T(j,k) }"
)
(CHAIN,) = parse(
    "def chain(float(64,32) A, float(32,128) B, float(128,32) E) -> (D) "
    "{ C(i,j) +=! A(i,k) * B(k,j)\n D(i,j) +=! C(i,k) * E(k,j) }"
)
CASES: dict[str, tuple[Rule, Cursor]] = {
    "always_inline": (AlwaysInline(everything=True), at(softmax(4, 64), "ex")),
    "simplify_const": (SimplifyConst(), at(WINO, "inv")),
    "add_rfactor_one_axis": (AddRfactor(), at(matmul(8, 8, 512), "C")),
    "add_rfactor_rank_0": (AddRfactor(), at(total(128), "B")),
    "add_rfactor_several_axes": (
        AddRfactor(),
        at(dag("d", [inp("A", 4, 9, 9), op("P", {"i": 4}, read("A", "i", "h", "w"),
                                           over={"h": 9, "w": 9})]), "P"),
    ),
    "add_cache_write": (AddCacheWrite(alone=False), at(matmul(64, 64, 64), "C")),
    "tiling_cpu": (Tiling("SSRSRS"), at(matmul(64, 64, 64), "C")),
    "tiling_cuda": (Tiling("SSSRRSRS"), at(matmul(64, 64, 64), "C", CUDA)),
    "tiling_no_split_inner": (
        Tiling("SSRSRS"),
        at(whole(matmul(64, 64, 64), "C", "i", "k"), "C"),
    ),
    "tiling_with_fusion_cpu": (FUSED, at(RELU, "C")),
    "tiling_with_fusion_cuda": (GPU_FUSED, at(RELU, "C", CUDA)),
    "tiling_with_fusion_no_split_inner": (FUSED, at(whole(RELU, "C", "j"), "C")),
    "tiling_with_fusion_into_its_copy": (
        FUSED,
        after(AddCacheWrite(alone=False), at(matmul(64, 64, 64), "C"), "C.local"),
    ),
    "add_cache_read": (
        AddCacheRead(),
        after(GPU_FUSED, at(RELU, "C", CUDA), "B"),
    ),
    "special_compute_location": (
        SpecialComputeLocation(),
        after(SimplifyConst(), at(WINO, "dpack", CUDA), "tile"),
    ),
    "cross_thread_alone": (CrossThreadReduction(), at(row_min(10, 1024), "B", CUDA)),
    "cross_thread_into_a_plain_consumer": (
        CrossThreadReduction(),
        at(softmax(4, 64), "sm", CUDA),
    ),
    "cross_thread_into_a_split_consumer": (
        CrossThreadReduction(),
        after(
            AlwaysInline(everything=True),
            after(CrossThreadReduction(), at(softmax(4, 64), "sm", CUDA), "ex"),
            "mx",
        ),
    ),
    "cross_thread_not_into_a_plain_reduction": (
        CrossThreadReduction(),
        at(rows_of_rows(), "B", CUDA),
    ),
    "cross_thread_without_a_common_axis": (CrossThreadReduction(), at(sums_of_sums(), "B", CUDA)),
    "skip": (Skip(), at(matmul(4, 4, 4), "B")),
    # Rules of our own.
    "join_axes": (JoinAxes(), at(conv2d(1, 16, 8, 8, 32, 1), "conv")),
    "split_phases": (SplitPhases(), at(transposed_conv2d(1, 4, 8, 8, 4, 4, padding=1), "conv")),
    "split_groups": (
        SplitGroups(),
        at(conv2d(1, 16, 8, 8, 32, 3, Window(padding=1, groups=2)), "conv"),
    ),
    "tensorize": (Tensorize(), at(INT8, "C", VNNI)),
    "stream_reduction": (StreamReduction(), at(COLUMNS, "S")),
    "inline_transpose": (InlineTranspose(), at(TURNED, "T")),
    "keep_row": (KeepRow(), at(softmax(4, 64), "nm", CUDA)),
    "keep_row_with_vectors": (KeepRow(), at(layer_norm(4, 64), "layer_norm", CUDA)),
    "split_reduction": (SplitReduction(), at(row_min(10, 8192), "B", CUDA)),
    "split_reduction_rank_0": (SplitReduction(), at(total(8192), "B", CUDA)),
    "fuse_chain": (FuseChain("SSRSRS", first="SSRS"), at(CHAIN, "D")),
    "skip_padding": (
        SkipPadding("SSRSRS", level=1, share=1 / 64, tile=28, strided=7),
        at(conv2d(1, 16, 8, 8, 16, 3, Window(padding=1)), "conv"),
    ),
    "align_rows": (AlignRows(), at(matmul(66, 70, 68), "C", CUDA)),
    "round_operands": (AllowRounding("tf32"), at(conv2d(1, 4, 8, 8, 4, 3), "conv", CUDA)),
    "winograd": (Winograd(outputs=2), at(conv2d(1, 32, 16, 16, 32, 3, Window(padding=1)), "conv")),
}  # fmt: skip


def test_every_rule_has_a_case_and_a_place_in_a_set() -> None:
    modules = {one.name for one in iter_modules(rules.__path__)} - {"counts"}
    classes = {one for one in vars(rules).values() if isclass(one) and issubclass(one, Rule)}
    classes -= {Rule}
    assert {one.__module__.rpartition(".")[2] for one in classes} == modules
    assert classes - {type(rule) for rule, _ in CASES.values()} == set()
    in_a_set = {type(rule) for rule in (*EVERY, *rules.RELEASED_CUDA)}
    assert {one.__name__ for one in classes - in_a_set} == set(), "it is in no registered set"


def test_the_registered_sets_are_installed() -> None:
    assert registered() == sorted(SETS), "pyproject.toml has other sets: make setup"


@pytest.mark.parametrize("name", CASES)
def test_rewrite(name: str, golden: Golden) -> None:
    rule, cursor = CASES[name]
    golden.check(shown(rule, cursor))


def test_the_first_stage_is_the_end_of_the_derivation() -> None:
    (done,) = Skip().rewrite(at(matmul(4, 4, 4), "A"))
    assert done.index == -1
    assert done.state == State.naive(matmul(4, 4, 4))


def test_targets_differ_by_numbers_only() -> None:
    wide = replace(CUDA, warp=64)
    (done,) = CrossThreadReduction().rewrite(at(row_min(10, 1024), "B", wide))
    assert "inner=[64]" in str(done.state.steps[0])
    assert AddRfactor().explain(at(row_min(10, 5), "B", replace(CPU, cores=5))).holds is False
