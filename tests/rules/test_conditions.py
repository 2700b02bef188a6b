"""The condition table: every clause of every rule, with the reason it gives."""

from dataclasses import replace

import pytest

from ansorpy.rules import (
    AddCacheRead,
    AddCacheWrite,
    AddRfactor,
    AlignRows,
    AllowRounding,
    AlwaysInline,
    CrossThreadReduction,
    KeepRow,
    SimplifyConst,
    Skip,
    SpecialComputeLocation,
    SplitReduction,
    Tiling,
    TilingWithFusion,
)
from ansorpy.state.rule import Cursor, Rule, Verdict
from ansorpy.state.state import State
from ansorpy.state.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeInline,
    Fuse,
    RoundOperands,
    Split,
)
from ansorpy.te.dag import Attrs, Compute, Dag
from ansorpy.topi.workloads import Window, conv2d
from tests.golden_dags import (
    conv2d_bn_relu,
    dag,
    inp,
    matmul,
    matmul_relu,
    max_pool,
    op,
    read,
    row_min,
    softmax,
    two_matmuls,
    winograd,
)
from tests.rules.cursors import CPU, CUDA, at

SKIP, APPLY, ALONE = Verdict.SKIP, Verdict.APPLY, Verdict.APPLY_ALONE
CONV = conv2d_bn_relu(8, 4, 4, 3)
SOFT = softmax(4, 64)
WINO = winograd(8, 8, 9, 4)
MM = matmul(64, 64, 64)
RELU = matmul_relu(64, 64, 64)
FUSED = TilingWithFusion("SSRSRS", levels=(1, 2), alone=False)
FUSED_GPU = TilingWithFusion("SSSRRSRS", levels=(3,), alone=True)


def outer_product() -> Dag:
    c = op("C", {"i": 8, "j": 8}, read("A", "i"), read("B", "j"))
    return dag("outer", [inp("A", 8), inp("B", 8), c])


def scaled_rows() -> Dag:
    """C = (A - M) / S with a value of M and S per row: one loop over j reuses both."""
    c = op("C", {"i": 8, "j": 8}, read("A", "i", "j"), read("M", "i"), read("S", "i"))
    return dag("rows", [inp("A", 8, 8), inp("M", 8), inp("S", 8), c])


def square(n: int) -> Dag:
    c = op("C", {"i": n, "j": n}, read("A", "i", "k"), read("A", "k", "j"), over={"k": n})
    return dag("square", [inp("A", n, n), c])


def branch_in_the_middle() -> Dag:
    middle = op("B", {"i": 8}, read("A", "i"), branch=True)
    return dag("branch", [inp("A", 8), middle, op("C", {"i": 8}, read("B", "i"))])


def two_leaders() -> Dag:
    """E = (A @ B) + (A @ D): two matmuls, one element-wise consumer."""
    ij = {"i": 64, "j": 64}
    first = op("C1", ij, read("A", "i", "k"), read("B", "k", "j"), over={"k": 64})
    second = op("C2", ij, read("A", "i", "k"), read("D", "k", "j"), over={"k": 64})
    last = op("E", ij, read("C1", "i", "j"), read("C2", "i", "j"))
    tensors = [inp(name, 64, 64) for name in "ABD"]
    return dag("two_leaders", [*tensors, first, second, last])


def whole(d: Dag, stage: str, *axes: str) -> Dag:
    """The Dag with `no_split_inner` on a node."""
    node = d.node(stage)
    assert isinstance(node, Compute)
    marked = replace(node, attrs=Attrs(no_split_inner=axes))
    return replace(d, nodes=tuple(marked if n is node else n for n in d.nodes))


def const_axes(d: Dag, stage: str, *axes: str) -> Dag:
    node = d.node(stage)
    assert isinstance(node, Compute)
    marked = replace(node, attrs=Attrs(const_axes=axes))
    return replace(d, nodes=tuple(marked if n is node else n for n in d.nodes))


CONV3 = conv2d(1, 4, 8, 8, 4, 3, Window(padding=1))
ROUNDED = State.naive(CONV3).do(RoundOperands("conv", "tf32"))
TILED = State.naive(MM).do(*(Split("C", axis, 3) for axis in "ijk"))
ACROSS = State.naive(MM).do(Split("C", "k", 2), Annotate("C", "k.1", "thread"))
CACHED = State.naive(MM).do(CacheWrite("C"))
FACTORED = matmul(8, 8, 512)
CACHED_ROWS = State.naive(matmul(64, 65, 66)).do(CacheWrite("C"))

CASES: list[tuple[Rule, Cursor, Verdict, str]] = [
    (AlwaysInline(False), at(MM, "A"), SKIP, "A is an input"),
    (AlwaysInline(False), at(RELU, "D"), SKIP, "D is an output"),
    (AlwaysInline(False), at(RELU, "C"), SKIP, "C reduces"),
    (AlwaysInline(False), at(CONV, "bmul"), ALONE, "takes its axes as they come"),
    (AlwaysInline(False), at(SOFT, "ex"), SKIP, "exp"),
    (AlwaysInline(True), at(SOFT, "ex"), ALONE, "reduces nothing"),
    (AlwaysInline(False), at(WINO, "Bm"), ALONE, "reads nothing"),
    # Not caught by the golden counts: the branch clause.
    (AlwaysInline(False), at(branch_in_the_middle(), "B"), SKIP, "branch"),
    (AlwaysInline(True), at(branch_in_the_middle(), "B"), ALONE, "reduces nothing"),
    (AlignRows(), at(matmul(64, 65, 66), "C"), APPLY, "C reads rows of A, B"),
    (AlignRows(), at(matmul(64, 64, 66), "C"), APPLY, "C reads rows of A"),
    (AlignRows(), at(MM, "C"), SKIP, "C reads no operand along rows of 64 to 65536 elements"),
    (AlignRows(), at(matmul(64, 62, 62), "C"), SKIP, "C reads no operand"),  # short rows
    (AlignRows(), at(matmul(63, 65, 64), "C"), SKIP, "C reads no operand"),  # B is read 63 times
    (AlignRows(), at(square(66), "C"), SKIP, "C reuses no producer"),
    (AlignRows(), at(CONV3, "conv"), SKIP, "conv reads no operand"),  # a window walks over rows
    (AlignRows(), at(SOFT, "ex"), SKIP, "cannot align rows for ex"),
    (AlignRows(), at(TILED, "C"), SKIP, "its loops are split"),
    (AlignRows(), at(CACHED_ROWS, "C.local"), SKIP, "it is a cache"),
    (AllowRounding("tf32"), at(MM, "A"), SKIP, "A is an input"),
    (AllowRounding("tf32"), at(MM, "C"), SKIP, "C is not a sum of one product of two reads"),
    (AllowRounding("tf32"), at(CONV3, "conv"), ALONE, "conv sums products of pad and W"),
    (AllowRounding("tf32"), at(ROUNDED, "conv"), SKIP, "not a sum of one product of two reads"),
    (AllowRounding("tf32"), at(TILED, "C"), SKIP, "its loops are split"),
    (AllowRounding("tf32"), at(SOFT, "ex"), SKIP, "ex is not a sum"),
    (AllowRounding("bf16"), at(MM, "C"), SKIP, "C has no products in bf16"),
    (SimplifyConst(), at(MM, "C"), SKIP, "no const_axes"),
    (SimplifyConst(), at(MM, "A"), SKIP, "no const_axes"),
    (SimplifyConst(), at(WINO, "inv"), ALONE, "vh, vw, ra, rb of inv"),
    (
        SimplifyConst(),
        at(const_axes(MM, "C", "i"), "C"),
        SKIP,
        "its reduce axis k is not in const_axes",
    ),
    (SimplifyConst(), at(const_axes(MM, "C", "k", "z"), "C"), SKIP, "no loop z"),
    (AddRfactor(), at(RELU, "D"), SKIP, "reduces nothing"),
    (AddRfactor(), at(matmul(8, 8, 512), "C"), APPLY, "64 spatial points <= 512"),
    (AddRfactor(), at(matmul(8, 8, 64), "C"), APPLY, "64 spatial points <= 64"),
    (AddRfactor(), at(matmul(8, 8, 63), "C"), SKIP, "64 spatial > 63 reduce"),
    (AddRfactor(), at(matmul(8, 9, 512), "C"), SKIP, "72 spatial points > 16 * 4 cores"),
    (AddRfactor(grain=32), at(matmul(8, 9, 512), "C"), APPLY, "72 spatial points"),
    (AddRfactor(), at(row_min(10, 5), "B"), APPLY, "5 reduce points > 4 cores"),
    (AddRfactor(), at(row_min(10, 4), "B"), SKIP, "4 reduce points"),
    (AddRfactor(), at(row_min(10, 1), "B", replace(CPU, cores=0)), SKIP, "1 reduce points"),
    (AddRfactor(), at(CACHED, "C.local"), SKIP, "cache-write stage"),
    (AddRfactor(), at(TILED, "C"), SKIP, "already split"),
    (AddCacheWrite(False), at(MM, "C"), APPLY, "C reuses A along j and B along i"),
    (AddCacheWrite(True), at(MM, "C"), ALONE, "C has 0 consumers"),
    (AddCacheWrite(False), at(RELU, "C"), SKIP, "can be fused into D"),
    (AddCacheWrite(False), at(RELU, "D"), SKIP, "no producer"),
    (AddCacheWrite(False), at(two_matmuls(64), "D"), APPLY, "index k is not a spatial axis"),
    (AddCacheWrite(False), at(TILED, "C"), SKIP, "already split"),
    (FUSED, at(MM, "C"), SKIP, "0 consumers"),
    (FUSED, at(RELU, "D"), SKIP, "no producer"),
    (FUSED, at(RELU, "C"), APPLY, "D takes C element by element"),
    (FUSED, at(CACHED, "C.local"), ALONE, "C takes C.local element by element"),
    (FUSED_GPU, at(RELU, "C"), ALONE, "D takes C element by element"),
    (FUSED, at(two_matmuls(64), "D"), SKIP, "index k is not a spatial axis"),
    (FUSED, at(whole(RELU, "C", "i", "j"), "C"), SKIP, "all its spatial axes stay whole"),
    (FUSED, at(State.naive(RELU).do(Split("D", "i", 2)), "C"), SKIP, "D are already split"),
    (
        FUSED,
        at(State.naive(RELU).do(Split("C", "i", 2)), "C"),
        SKIP,
        "cannot fuse C: its loops are already split",
    ),
    (FUSED, at(State.naive(RELU).do(CacheRead("C", ("D",))), "C"), SKIP, "shared memory"),
    (Tiling("SSRSRS"), at(MM, "C"), ALONE, "C reuses A along j and B along i"),
    (Tiling("SSRSRS"), at(outer_product(), "C"), ALONE, "A along j and B along i"),
    (Tiling("SSRSRS"), at(scaled_rows(), "C"), SKIP, "M along j and S along j only"),
    (Tiling("SSRSRS"), at(RELU, "D"), SKIP, "no producer"),
    (Tiling("SSRSRS"), at(MM, "A"), SKIP, "is an input"),
    (Tiling("SSRSRS"), at(max_pool(pad=False), "pool"), SKIP, "no producer"),
    (Tiling("SSRSRS"), at(TILED, "C"), SKIP, "already split"),
    (Skip(), at(MM, "A"), APPLY, "left as it is"),
    (AddCacheRead(), at(MM, "A", CUDA), ALONE, "C alone reads A"),
    (AddCacheRead(), at(MM, "C", CUDA), SKIP, "0 consumers"),
    (AddCacheRead(), at(RELU, "C", CUDA), SKIP, "no producer"),
    (AddCacheRead(), at(outer_product(), "A", CUDA), SKIP, "no reduce loop"),
    # Not caught by the golden counts: no cache where the consumer reduces across threads.
    (AddCacheRead(), at(ACROSS, "A", CUDA), SKIP, "reduces across threads"),
    (
        AddCacheRead(),
        at(State.naive(CONV).do(ComputeInline("pad")), "Data", CUDA),
        SKIP,
        "through an inlined stage only",
    ),
    (SpecialComputeLocation(), at(WINO, "in", CUDA), SKIP, "reads nothing"),
    (SpecialComputeLocation(), at(WINO, "bgemm", CUDA), SKIP, "reduces"),
    (SpecialComputeLocation(), at(SOFT, "ex", CUDA), SKIP, "2 consumers"),
    (SpecialComputeLocation(), at(CONV, "bmul", CUDA), SKIP, "no const_axes"),
    (SpecialComputeLocation(), at(WINO, "tile", CUDA), SKIP, "no loop before"),
    (KeepRow(), at(SOFT, "nm", CUDA), ALONE, "mx, ex, sm and nm share rows of 64 elements"),
    (KeepRow(), at(SOFT, "sm", CUDA), SKIP, "reduces"),
    (KeepRow(), at(SOFT, "ex", CUDA), ALONE, "mx and ex share rows"),
    (KeepRow(), at(State.naive(SOFT).do(Split("nm", "i", 2)), "nm", CUDA), SKIP, "are split"),
    (KeepRow(), at(RELU, "D", CUDA), SKIP, "it reduces no row, all rows differ"),
    (KeepRow(), at(softmax(4, 65537), "nm", CUDA), SKIP, "it has 65537 elements"),
    (KeepRow(), at(softmax(4, 1), "nm", CUDA), SKIP, "it has 1 elements"),
    (SplitReduction(), at(row_min(16, 4096), "B", CUDA), APPLY, "16 spatial points <= 16"),
    (SplitReduction(), at(row_min(17, 4096), "B", CUDA), SKIP, "17 spatial points > 16"),
    (SplitReduction(), at(row_min(16, 4095), "B", CUDA), SKIP, "4095 reduce points < 4096"),
    (SplitReduction(), at(matmul(2, 2, 4096), "C", CUDA), SKIP, "C among blocks: it is tiled"),
    (SplitReduction(), at(RELU, "D", CUDA), SKIP, "reduces nothing"),
    (SplitReduction(), at(TILED, "C", CUDA), SKIP, "are split"),
    (CrossThreadReduction(), at(RELU, "D", CUDA), SKIP, "reduces nothing"),
    (CrossThreadReduction(), at(CACHED, "C.local", CUDA), SKIP, "cache-write stage"),
    (CrossThreadReduction(), at(TILED, "C", CUDA), SKIP, "already split"),
    (CrossThreadReduction(), at(matmul(8, 8, 65), "C", CUDA), APPLY, "64 spatial < 65"),
    # Not caught by the golden counts: equal numbers of spatial and reduce points.
    (CrossThreadReduction(), at(matmul(8, 8, 64), "C", CUDA), SKIP, "64 spatial >= 64"),
    (CrossThreadReduction(), at(row_min(10, 33), "B", CUDA), APPLY, "33 reduce points > a warp"),
    # Not caught by the golden counts: a reduction of exactly one warp.
    (CrossThreadReduction(), at(row_min(10, 32), "B", CUDA), SKIP, "32 reduce points <= a warp"),
]


@pytest.mark.parametrize(
    ("rule", "cursor", "verdict", "why"),
    CASES,
    ids=[f"{i}-{type(case[0]).__name__}-{case[1].name}" for i, case in enumerate(CASES)],
)
def test_the_verdict_and_reason_of_a_rule_are_those_of_the_table(
    rule: Rule, cursor: Cursor, verdict: Verdict, why: str
) -> None:
    answer = rule.explain(cursor)
    assert rule.condition(cursor) is verdict
    assert bool(answer) is (verdict is not SKIP)
    assert why in answer.why


def test_special_location_needs_the_consumer_visited_first() -> None:
    (done,) = SimplifyConst().rewrite(at(WINO, "dpack", CUDA))
    rule = SpecialComputeLocation()
    assert rule.condition(at(done.state, "tile", CUDA)) is ALONE
    assert "dpack, which unrolls" in rule.explain(at(done.state, "tile", CUDA)).why


def test_of_two_producers_only_the_first_leads_the_tiles_of_their_consumer() -> None:
    start = at(two_leaders(), "C2")
    assert "fused" in AddCacheWrite(False).explain(start).why
    first = next(FUSED.rewrite(start))
    second = at(first.state, "C1")
    assert "loops of E are already split" in FUSED.explain(second).why
    assert AddCacheWrite(False).condition(second) is APPLY


def test_rfactor_compares_points_not_axes() -> None:
    state = State.naive(CONV).do(Fuse("conv", ("rc", "ry")))
    assert "already split" in AddRfactor().explain(at(state, "conv")).why
    many = conv2d_bn_relu(1, 64, 4, 3)
    assert "4 spatial points <= 576" in AddRfactor().explain(at(many, "conv")).why
