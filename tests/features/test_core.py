"""The work of a register tile, counted by hand."""

from math import ceil

import numpy as np
import pytest

from ansorpy import te
from ansorpy.features import extract, named
from ansorpy.plan.choices import all_plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.topi.workloads import Window, depthwise_conv2d, matmul, reduce_columns

TARGET = Target(vector_bits=512, l1_bytes=32 * 1024, l2_bytes=1024 * 1024)
N, M, K = 50, 70, 33


def plain_plan(dag: te.Dag | None = None, lane: str = "j") -> Plan:
    """One tiled stage, lanes along one axis, nothing packed."""
    plans = all_plans(derive(dag or matmul(N, M, K), TARGET, CPU).sketches, TARGET)
    return next(
        plan
        for plan in plans
        if len(plan.program.phases) == 1
        and len(plan.choices) == 1
        and plan.choices[0][1].lane == lane
        and not plan.choices[0][1].pack
    )


def update(i: int, j: int, k: int = 1, plan: Plan | None = None) -> dict[str, float]:
    """The features of the multiply-adds where the register tile is i x j."""
    plan = plan or plain_plan()
    inner = {"i.3": i, "j.3": j, "k.1": k}
    row = [
        inner.get(size.name.split(".", 1)[1], min(size.values, default=1)) for size in plan.sizes
    ]
    stores = named(extract(plan, np.array([row], np.int64), TARGET)[0])
    (found,) = [store for store in stores if store["float_mad"] > 0]
    return {name[5:]: 2 ** found[name] - 1 for name in found if name.startswith("core.")}


def test_tails_count_at_their_true_length() -> None:
    found = update(8, 32)
    assert found["work"] == pytest.approx(N * M * K, rel=1e-3)
    # 70 columns in tiles of 32: two whole ones of 2 vectors, and 6 columns in one vector.
    assert found["steps"] == pytest.approx(N * K * 5, rel=1e-3)
    assert found["tiles"] == pytest.approx(ceil(N / 8) * 3 * K, rel=1e-3)


def test_loads_broadcasts_and_chains_are_those_of_the_tile() -> None:
    found = update(8, 32)
    assert found["chains"] == pytest.approx(16, rel=1e-3)
    assert found["registers"] == pytest.approx(16 + 2 + 1, rel=1e-3)
    assert found["loads"] == pytest.approx(found["steps"] / 8, rel=1e-3)
    assert found["broadcasts"] == pytest.approx(found["steps"] / 2, rel=1e-3)
    assert found["gathers"] == 0
    assert found["horizontal"] == 0


def test_accumulators_stay_in_registers_through_the_reduction() -> None:
    whole, cut = update(8, 32, k=K), update(8, 32, k=1)
    assert whole["moves"] == pytest.approx(2 * N * 5, rel=1e-3)
    assert cut["moves"] == pytest.approx(whole["moves"], rel=1e-3)  # k.0 stands still as well


def test_results_with_strided_lanes_count_a_transpose() -> None:
    a, b, k = te.placeholder((K, N)), te.placeholder((M, K)), te.reduce_axis((0, K), "k")
    both = te.compute((N, M), lambda i, j: te.sum(a[k, i] * b[j, k], k), "C")
    along, across = update(8, 32), update(32, 8, plan=plain_plan(te.dag(both), "i"))
    assert along["transposes"] == 0
    assert across["moves"] == 0
    assert across["transposes"] == pytest.approx(2 * M * 4, rel=1e-3)  # 50 rows: 4 vectors


def shifted(rows: int, columns: int, edge: float = 0.0) -> dict[str, float]:
    """Features of Y[i, j] = X[i, j - 1] between the edges of i and of j, else `edge`."""
    x = te.placeholder((rows, columns), "X")

    def term(i: te.Scalar, j: te.Scalar) -> te.Scalar:
        return te.select(te.all(i >= 1, j >= 1, j < columns - 1), x[i, j - 1], edge)

    dag = te.dag(te.compute((rows, columns), term, "Y"), name="shifted")
    (plan,) = all_plans(derive(dag, TARGET, CPU).sketches, TARGET)
    row = [16 if size.role == "tile" else min(size.values, default=0) for size in plan.sizes]
    (found,) = named(extract(plan, np.array([row], np.int64), TARGET)[0])
    return {name[5:]: 2 ** found[name] - 1 for name in found if name.startswith("core.")}


def test_a_condition_counts_at_the_outermost_loop_that_determines_it() -> None:
    found = shifted(40, 64)
    assert found["steps"] == pytest.approx(40 * 4, rel=1e-3)
    # Per vector both conjunctions and two comparisons of j; i >= 1 once per row.
    assert found["integers"] == pytest.approx(40 * 4 * 4 + 40, rel=1e-3)


def padded_window(tap: int, stride: int = 1, unroll: int = 512, rows: int = 4) -> dict[str, float]:
    """Features of a padded depthwise 3x3 sum; the window's columns are divided by `tap`."""
    dag = depthwise_conv2d(1, 2, 12 * stride, 30 * stride, 3, Window(stride, padding=1))
    inlined = next(
        plan
        for plan in all_plans(derive(dag, TARGET, CPU).sketches, TARGET)
        if [choice.lane for _, choice in plan.choices] == [None, "w"]
    )
    inner = {"h.3": rows, "w.3": 32, "ry.1": 3, "rx.1": tap, "unroll": unroll}
    row = [
        inner.get(size.name.split(".", 1)[1], min(size.values, default=1)) for size in inlined.sizes
    ]
    stores = named(extract(inlined, np.array([row], np.int64), TARGET)[0])
    (found,) = [store for store in stores if store["float_mad"] > 0]
    return {name[5:]: 2 ** found[name] - 1 for name in found if name.startswith("core.")}


def test_conditions_on_points_of_a_window_that_is_written_out_are_known() -> None:
    whole, tailed = padded_window(3), padded_window(2)
    # Known: every condition on columns. Rows: two comparisons and a conjunction per row and tap.
    assert whole["integers"] <= 3 * whole["steps"] / (2 * 3) * 1.001
    assert tailed["integers"] > 2 * tailed["steps"]


def test_a_short_window_is_written_out_for_its_conditions_within_any_budget() -> None:
    whole, bare = padded_window(3, unroll=512), padded_window(3, unroll=0)
    # Known without a budget: conditions on columns. Those on rows are not, nor are loads shared.
    assert whole["integers"] <= bare["integers"] < bare["steps"]
    assert padded_window(2, unroll=0)["integers"] > 2 * bare["integers"]
    assert bare["loads"] > whole["loads"]


def test_lanes_two_apart_under_masks_that_are_not_known_take_more_loads() -> None:
    known, tailed = padded_window(3, 2), padded_window(2, 2)
    assert known["loads"] == pytest.approx(3 * known["steps"], rel=1e-3)
    assert tailed["loads"] == pytest.approx(7 * tailed["steps"], rel=1e-3)
    # Rows: the first one of twelve has a mask, and is peeled off.
    bare = padded_window(3, 2, unroll=0, rows=1)
    assert bare["loads"] == pytest.approx((3 + 4 / 12) * bare["steps"], rel=1e-3)


def test_a_window_with_a_tail_is_not_reused() -> None:
    whole, tailed = padded_window(3), padded_window(2)
    assert whole["loads"] == pytest.approx(tailed["loads"] * (4 + 3 - 1) / (4 * 3), rel=1e-3)


def test_outer_loops_over_a_window_are_written_out_past_loops_of_extent_1() -> None:
    inner, outer = padded_window(3), padded_window(1)
    assert outer["loads"] == pytest.approx(inner["loads"], rel=1e-3)
    assert outer["integers"] == pytest.approx(inner["integers"], rel=1e-3)


def test_a_masked_load_counts_no_select_of_zero() -> None:
    zero, one = shifted(40, 64), shifted(40, 64, 1.0)
    assert one["integers"] - zero["integers"] == pytest.approx(40 * 4, rel=1e-3)


def test_small_programs_have_no_traffic_beyond_the_caches() -> None:
    found = update(8, 32)
    assert found["past_l1_bytes"] == 0
    assert found["past_l2_bytes"] == 0


def test_traffic_is_at_least_one_pass_and_falls_with_the_cache() -> None:
    plan = all_plans(derive(matmul(512, 512, 512), TARGET, CPU).sketches, TARGET)[0]
    rows = sample(plan, 64, np.random.default_rng(0))
    names = [f"core.past_l{level}_bytes" for level in (1, 2)]
    stores = [named(row) for row in extract(plan, rows, TARGET)]
    near, far = ([sum(2 ** s[name] - 1 for s in row) for row in stores] for name in names)
    assert all(a >= b * 0.999 for a, b in zip(near, far, strict=True))
    assert min(far) > 2 * 512 * 512 * 4 * 0.999


def beyond(name: str, columns: int, rows: int, lanes: int = 16) -> float:
    """Traffic beyond L2 of a reduction of 1024 x 1024 floats in blocks of rows and columns."""
    plan = all_plans(derive(reduce_columns(1024, 1024), TARGET, CPU).sketches, TARGET)[0]
    sizes = {"out.j.1": columns // lanes, "out.j.2": lanes, "out.k.1": rows}
    row = [sizes.get(size.name, 0) for size in plan.sizes]
    stores = named(extract(plan, np.array([row], np.int64), TARGET)[0])
    return max(2 ** store[f"core.past_l2_{name}"] - 1 for store in stores)


def waits(columns: int, rows: int) -> float:
    """Starts of regions that no prefetcher anticipates."""
    return beyond("waits", columns, rows)


def test_whole_rows_are_one_walk_and_strips_of_columns_are_many() -> None:
    assert waits(1024, 1) == pytest.approx(1, rel=1e-3)
    assert waits(1024, 8) == pytest.approx(1, rel=1e-3)
    # Strips of 1 KB, alone: as much as is on its way anyhow. Eight side by side are one walk.
    assert waits(256, 1) == pytest.approx(1024, rel=1e-3)
    assert waits(256, 8) == pytest.approx(4 * 1024 / 8, rel=1e-3)
    # No prefetcher follows 32 rows: every line of every row is begun anew.
    assert waits(256, 32) == pytest.approx(1024, rel=1e-3)


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("columns", [16, 64, 256])
def test_the_rows_of_a_strip_are_stretches_of_memory(columns: int, rows: int) -> None:
    assert beyond("stretches", columns, rows) == pytest.approx(1024 * 1024 / columns, rel=1e-3)
    assert beyond("stretches", 1024, rows) == pytest.approx(1, rel=1e-3)


def test_a_tensor_that_fits_l2_has_no_waits() -> None:
    assert update(8, 32)["past_l2_waits"] == 0
    assert update(8, 32)["past_l2_stretches"] == 0


def dot_update(i: int, j: int) -> dict[str, float]:
    """The features of pairs of bfloat16 that one instruction sums, in a register tile of i x j."""
    target = Target(vector_bits=512, features=("avx512bf16", "avx512bw", "avx512f", "avx512vl"))
    n, k = 64, te.reduce_axis((0, 64), "k")
    a = te.placeholder((n, n), "A", "bfloat16")
    b = te.placeholder((n, n), "B", "bfloat16", constant=True)

    def term(x: te.Scalar, y: te.Scalar) -> te.Reduction:
        return te.sum(te.cast(a[x, k], "float32") * te.cast(b[k, y], "float32"), k)

    dag = te.dag(te.compute((n, n), term, "C"))
    for plan in all_plans(derive(dag, target, CPU).sketches, target):
        inner = {"C.x.3": i, "C.y.3": j, "C.k.1": 32}
        row = [inner.get(size.name, min(size.values, default=1)) for size in plan.sizes]
        if not set(inner) <= {size.name for size in plan.sizes}:
            continue
        stores = named(extract(plan, np.array([row], np.int64), target)[0])
        (found,) = (store for store in stores if store["float_mad"] > 0)
        loads = {name[5:]: 2 ** found[name] - 1 for name in found if name.startswith("core.")}
        if loads["work"] == pytest.approx(n**3 / 2, rel=1e-3):
            return loads
    raise AssertionError("no plan uses the instruction")


def test_a_dot_product_instruction_is_one_step_of_the_tile() -> None:
    found = dot_update(8, 32)
    assert found["steps"] == pytest.approx(64 * 64 * 32 / 16, rel=1e-3)
    assert found["chains"] == pytest.approx(16, rel=1e-3)
    assert found["loads"] == pytest.approx(found["steps"] / 8, rel=1e-3)
    assert found["broadcasts"] == pytest.approx(found["steps"] / 2, rel=1e-3)
    assert found["gathers"] == 0
