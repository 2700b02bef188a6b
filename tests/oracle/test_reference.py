import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ansorpy import te
from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import UNIT_ROUNDOFF
from ansorpy.expr.expr import Var
from ansorpy.oracle import error_bounds, reduction
from ansorpy.oracle.error_bounds import Bounded
from ansorpy.te.tensor_data import rounded
from ansorpy.topi.suites import SUITE_SMALL
from ansorpy.topi.workloads import Window, conv2d, matmul
from tests.oracle.plain_loops import Slow
from tests.random_dag import DagLimits, random_dag, random_inputs

SMALL = DagLimits(extent=7, points=400, computes=4)


def agrees(got: Any, want: Any) -> bool:
    """Both are float64: only the order of additions differs."""
    return bool(np.allclose(got, want, rtol=1e-10, atol=1e-10))


@pytest.mark.parametrize("seed", range(150))
def test_random_dags_equal_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dag = random_dag(rng, SMALL)
    inputs = random_inputs(rng, dag, whole=seed % 3 == 0)
    want = Slow(dag, inputs)
    got = te.evaluate_bounded(dag, inputs)
    for node in dag.computes:
        for one, expected in zip(got[node.name], want.tensors[node.name], strict=True):
            assert one.value.dtype == expected.dtype
            # A comparison of nearly equal values may fall either way: its bound says so.
            close = np.isclose(one.value, expected, rtol=1e-10, atol=1e-10)
            assert np.all(close | (np.abs(one.value - expected) <= one.error)), node
            assert np.mean(close) > 0.99 or close.size < 100
    outputs = [one.value for name in dag.outputs for one in got[name]]
    assert all(map(agrees, te.evaluate(dag, inputs), outputs))


@pytest.mark.parametrize("seed", range(150, 300))
def test_bounds_hold_for_a_kernel_that_rounds_every_operation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dag = random_dag(rng, SMALL)
    inputs = random_inputs(rng, dag)
    kernel = Slow(dag, inputs, rounded=True)
    for name, outputs in te.evaluate_bounded(dag, inputs).items():
        for one, computed in zip(outputs, kernel.tensors[name], strict=True):
            apart = np.abs(computed.astype(np.float64) - one.value)
            assert np.all(apart <= 2 * one.error + 1e-300), (name, dag.node(name))


@pytest.mark.parametrize("name", SUITE_SMALL)
def test_bounds_of_the_library_hold_and_are_finite(name: str) -> None:
    dag = SUITE_SMALL[name]()
    inputs = random_inputs(np.random.default_rng(1), dag)
    kernel, plain = Slow(dag, inputs, rounded=True), Slow(dag, inputs)
    for node, outputs in te.evaluate_bounded(dag, inputs).items():
        for one, computed, loops in zip(
            outputs, kernel.tensors[node], plain.tensors[node], strict=True
        ):
            assert agrees(one.value, loops)
            assert np.all(np.isfinite(one.error))
            equal = computed == one.value  # the padding of a maximum is infinite
            apart = np.subtract(computed, one.value, where=~equal, out=np.zeros(equal.shape))
            assert np.all(np.abs(apart) <= 2 * one.error + 1e-300)


def test_the_bound_of_a_product_is_k_roundings_of_the_magnitudes() -> None:
    dag = matmul(7, 5, 100)
    inputs = random_inputs(np.random.default_rng(0), dag)
    bound = te.evaluate_bounded(dag, inputs)["C"][0].error
    size = np.abs(inputs["A"].astype("f8")) @ np.abs(inputs["B"].astype("f8"))
    assert np.all(bound >= 100 * UNIT_ROUNDOFF["float32"] * size)
    assert np.all(bound <= 110 * UNIT_ROUNDOFF["float32"] * size)


def test_moving_and_comparing_values_is_exact() -> None:
    x = te.placeholder((7, 5), "x")
    padded = te.compute(
        (9, 5), lambda i, j: te.select(te.all(i >= 1, i < 8), x[i - 1, j], 0.0), "padded"
    )
    relu = te.compute((9, 5), lambda i, j: te.maximum(padded[i, j], 0.0), "relu")
    k = te.reduce_axis((0, 9), "k")
    top = te.compute((5,), lambda j: te.max(relu[k, j], axis=k), "top")
    dag = te.dag(top)
    for outputs in te.evaluate_bounded(dag, random_inputs(np.random.default_rng(0), dag)).values():
        assert outputs[0].exact


def test_only_the_branch_taken_is_read_and_must_be_in_range() -> None:
    x = te.placeholder((4,), "x")
    good = te.compute((6,), lambda i: te.select(te.all(i >= 1, x[(i - 1) % 4] > 0), x[i % 4], -1.0))
    dag = te.dag(good)
    (out,) = te.evaluate(dag, {"x": np.array([1, -2, 3, -4], "f4")})
    assert out.tolist() == [-1, -2, -1, -4, -1, -2]
    node = te.Compute("y", (te.Axis("i", 5),), (x[te.Scalar(Var("i"))].expr,), ("float32",))
    broken = te.Dag((te.Placeholder(x.draft.node.name, (4,)), node), ("y",))
    with pytest.raises(SpecError, match="reads index 4 of dimension 0, which has 4"):
        te.evaluate(broken, {x.draft.node.name: np.zeros(4, "f4")})


def test_argmax_returns_the_first_index_and_its_admissible_range() -> None:
    x = te.placeholder((3, 4), "x")
    k = te.reduce_axis((0, 4), "k")
    shifted = te.compute((3, 4), lambda i, j: x[i, j] * 1.1, "shifted")
    value, index = te.compute((3,), lambda i: te.argmax(shifted[i, k], axis=k), "best")
    first = te.compute((3,), lambda i: te.argmin(x[i, k], axis=k), "first")[0]
    dag = te.dag([value, index, first])
    assert dag.outputs == ("best", "first")
    data = np.array([[1, 3, 3, 2], [1, 3, 2, 3], [5, 0, 0, 0]], "f4")
    top, at, _, low = te.evaluate(dag, {"x": data})
    assert agrees(top, data.max(1).astype("f8") * float(np.float32(1.1)))
    assert at.dtype == np.int64
    assert at.tolist() == [1, 1, 0]
    assert low.tolist() == [0, 0, 1]
    bounds = te.evaluate_bounded(dag, {"x": data})
    assert bounds["best"][1].error.tolist() == [1, 2, 0]
    assert bounds["first"][1].exact  # inputs are exact, so ties are decided


@pytest.mark.parametrize(("dtype", "known"), [("float32", False), ("float16", True)])
def test_a_sum_of_which_a_part_may_overflow_has_no_bound(dtype: str, known: bool) -> None:
    """Parts of a sum of float16 are float32 numbers."""
    x = te.placeholder((2, 4), "x", dtype)
    k = te.reduce_axis((0, 4), "k")
    dag = te.dag(te.compute((2,), lambda i: te.sum(x[i, k], k), "y"))
    data = np.array([[2, -2, 2, -2], [1, -1, 0.5, -0.5]]) * float(np.finfo(dtype).max) / 3.5
    (y,) = te.evaluate_bounded(dag, {"x": data.astype(dtype)})["y"]
    assert np.isinf(y.error).tolist() == [not known, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("length", [16, 300, 4096])
def test_a_sum_of_16_bits_has_the_bound_of_float32_and_of_one_rounding(
    dtype: str, length: int
) -> None:
    x = te.placeholder((1, length), "x", dtype)
    k = te.reduce_axis((0, length), "k")
    dag = te.dag(te.compute((1,), lambda i: te.sum(x[i, k] * x[i, k], k), "y"))
    data = np.random.default_rng(0).uniform(0.1, 1, (1, length))
    (y,) = te.evaluate_bounded(dag, {"x": data})["y"]
    u = UNIT_ROUNDOFF[dtype]
    assert np.all(y.error <= (1.01 * u + (length + 2) * 2.0**-24) * y.value)
    assert np.all(y.error >= u * y.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_elements_that_are_moved_are_not_rounded_again(dtype: str) -> None:
    x = te.placeholder((3,), "x", dtype)
    tripled = te.compute((3,), lambda i: x[i] * 3.0, "tripled")
    moved = te.compute((3,), lambda i: te.maximum(tripled[2 - i], -tripled[i]), "moved")
    bounds = te.evaluate_bounded(te.dag([moved, tripled]), {"x": np.array([1.1, 0.7, -0.3])})
    once, again = bounds["tripled"][0].error, bounds["moved"][0].error
    assert np.all(again <= np.maximum(once, once[::-1]))
    assert np.all(bounds["tripled"][0].stored > 0)
    assert not np.any(bounds["moved"][0].stored)


def test_integers_wrap_and_casts_truncate() -> None:
    x = te.placeholder((4,), "x", "int8")
    y = te.placeholder((4,), "y")
    product = te.compute((4,), lambda i: x[i] * x[i] + 100, "product")
    whole = te.compute((4,), lambda i: te.cast(y[i], "int32"), "whole")
    turned = te.compute((4,), lambda i: x[i] // 3 * 10 + x[i] % 3, "turned")
    dag = te.dag([product, whole, turned])
    out = te.evaluate(
        dag, {"x": np.array([-128, -7, 5, 127], "i1"), "y": np.array([-1.9, 1.9, -0.5, 7], "f4")}
    )
    assert out[0].dtype == np.int8
    assert out[0].tolist() == [100, -107, 125, 101]
    assert out[1].tolist() == [-1, 1, 0, 7]
    assert out[2].tolist() == [(v // 3 * 10 + v % 3 + 128) % 256 - 128 for v in (-128, -7, 5, 127)]


def test_uncertain_conditions_cover_both_branches() -> None:
    x = te.placeholder((2,), "x")
    scaled = te.compute((2,), lambda i: x[i] * 0.1, "scaled")
    seven = te.const(7.0, "float32")
    picked = te.compute((2,), lambda i: te.select(scaled[i] >= 0.1, seven, 2.0))
    dag = te.dag(picked)
    bound = te.evaluate_bounded(dag, {"x": np.array([1, 3], "f4")})["compute"][0]
    assert bound.value.tolist() == [7, 7]
    assert bound.error.tolist() == [5, 0]


def test_possible_overflow_and_division_by_zero_have_no_bound() -> None:
    x = te.placeholder((2,), "x")
    big = te.compute((2,), lambda i: te.exp(x[i]), "big")
    apart = te.compute((2,), lambda i: x[i] * 0.1 - 0.1, "apart")
    ratio = te.compute((2,), lambda i: 1.0 / apart[i], "ratio")
    bounds = te.evaluate_bounded(te.dag([big, ratio]), {"x": np.array([1, 100], "f4")})
    assert np.isinf(bounds["big"][0].error).tolist() == [False, True]
    assert np.isinf(bounds["ratio"][0].error).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_storage(dtype: str) -> None:
    x = te.placeholder((3,), "x", dtype)
    weights = te.constant(np.array([1.0, 0.1, 3.0]), "w", dtype)
    dag = te.dag(te.compute((3,), lambda i: x[i] * weights[i], "y"))
    given = np.array([1.0, 2.0, 1.0 + 2.0**-12])
    (out,) = te.evaluate(dag, {"x": given})
    tenth = {"float16": float(np.float16(0.1)), "bfloat16": 0.10009765625}[dtype]
    assert out.tolist() == [1.0, 2 * tenth, 3.0]
    bound = te.evaluate_bounded(dag, {"x": given})["y"][0].error
    assert np.all(bound >= UNIT_ROUNDOFF[dtype] * np.abs(out))


def test_bfloat16_is_accepted_as_bits() -> None:
    x = te.placeholder((2,), "x", "bfloat16")
    dag = te.dag(te.compute((2,), lambda i: x[i] * 2.0, "y"))
    (out,) = te.evaluate(dag, {"x": np.array([0x3F80, 0xC040], np.uint16)})
    assert out.tolist() == [2.0, -6.0]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"inputs \[\] do not match those of main: \['x'\]"),
        ({"x": np.zeros((3, 1), "f4")}, r"input x has shape \(3, 1\), not \(3,\)"),
        ({"x": np.zeros(3, complex)}, "input x: a complex128 array"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, Any], message: str) -> None:
    x = te.placeholder((3,), "x")
    with pytest.raises(SpecError, match=message):
        te.evaluate(te.dag(te.compute((3,), lambda i: x[i] + 1)), inputs)


def test_large_reductions_are_split_into_boxes() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 1 << 20)), rng.normal(size=(1 << 20, 2))
    dag = matmul(3, 2, 1 << 20, "float64")
    (out,) = te.evaluate(dag, {"A": a, "B": b})
    assert agrees(out, a @ b)
    low = te.placeholder(a.shape, "x", "float64")
    i, k = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 1 << 20), "k")
    dag = te.dag(te.compute((), lambda: te.min(low[i, k], axis=(i, k), init=5.0), "low"))
    assert te.evaluate(dag, {"x": a})[0] == a.min()


def test_a_convolution_of_a_hundred_million_points_is_evaluated_as_a_matrix_product() -> None:
    dag = conv2d(1, 64, 56, 56, 64, 3, Window(padding=1))
    inputs = random_inputs(np.random.default_rng(0), dag)
    (out,) = te.evaluate(dag, inputs)  # 0.04 s; point by point it would take minutes
    around = np.pad(inputs["X"].astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    for f, y, x in ((0, 0, 0), (63, 55, 55), (17, 30, 2)):
        window = around[0, :, y : y + 3, x : x + 3]
        assert agrees(out[0, f, y, x], np.sum(window * inputs["W"][f]))


def test_a_term_whose_error_leaves_the_domain_of_log_bounds_nothing() -> None:
    terms = Bounded(np.array([[0.5, 8.0]]), np.array([[1.0, 0.25]]))
    logs = error_bounds.call("log", terms, "float32")
    assert np.isinf(logs.error[0, 0])
    assert np.isfinite(logs.error[0, 1])
    most = reduction.finished(
        "max", reduction.reduced("max", reduction.components("max", logs), [1], [2]), 1, "float32"
    )
    assert np.isinf(most.error[0])


def test_an_uncertain_element_before_the_best_may_win_by_a_tie() -> None:
    index = Bounded(np.arange(3)[None])
    values = np.array([[-1.0, 0.0, -1.0]])
    early = Bounded(values, np.array([[1.0, 0.0, 0.0]]))
    late = Bounded(values, np.array([[0.0, 0.0, 1.0]]))
    found = [reduction.first_extreme("argmax", each, index, True)[1] for each in (early, late)]
    assert [int(each.value[0]) for each in found] == [1, 1]
    assert [float(each.error[0]) for each in found] == [1.0, 0.0]


def test_a_kernel_may_take_a_subnormal_bfloat16_for_zero() -> None:
    x = te.placeholder((3,), "x", "bfloat16")
    dag = te.dag(te.compute((3,), lambda i: te.cast(x[i], "float32") * 1000.0, "y"))
    values = np.array([1.0, 2.0**-130, 2.0**-126])
    ((one,),) = (te.evaluate_bounded(dag, {"x": values})["y"],)
    assert one.error[1] >= 1000 * 2.0**-130
    assert one.error[0] < 1e-3
    assert one.error[2] < 1000 * 2.0**-126 * 1e-6 + 2.0**-125


def test_the_oracle_loads_scipy_only_for_the_error_function() -> None:
    code = (
        "import sys; from ansorpy import te; from ansorpy.oracle.reference import evaluate\n"
        "def run(fn):\n"
        "    x = te.placeholder((2,), 'X')\n"
        "    return evaluate(te.dag(te.compute((2,), lambda i: fn(x[i]))), {'X': [0.0, 1.0]})[0]\n"
        "run(te.tanh); assert 'scipy' not in sys.modules\n"
        "assert abs(run(te.erf)[1] - 0.8427007929497149) < 1e-15; assert 'scipy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_argmax_of_16_bit_products_may_take_the_first_of_those_that_round_alike() -> None:
    """A product beyond float16 is infinity like the product before it, which is the first then."""
    a, b = (te.placeholder((3,), name, "float16") for name in "AB")
    k = te.reduce_axis((0, 3), "k")
    _, index = te.compute((), lambda: te.argmax(a[k] * b[k], axis=k), "best")
    dag = te.dag(index)
    large = np.array([1.0, 300.0, 400.0], np.float16)
    (_, where) = te.evaluate_bounded(dag, {"A": large, "B": large})["best"]
    assert (int(where.value), float(where.error)) == (2, 2.0)
    small = np.array([1.0, 3.0, 4.0], np.float16)
    (_, where) = te.evaluate_bounded(dag, {"A": small, "B": small})["best"]
    assert (int(where.value), float(np.max(where.error))) == (2, 0.0)


@pytest.mark.parametrize(("value", "error"), [(1.0, 0.0), (1e-7, 2.0**-24), (1e6, np.inf)])
def test_float16_holds_fewer_sizes_than_bfloat16(value: float, error: float) -> None:
    held = rounded(np.array([value]), "bfloat16")
    with np.errstate(over="ignore"):
        found = error_bounds.cast(Bounded(held), "bfloat16", "float16")
    assert float(np.max(found.error)) == pytest.approx(error, rel=0.01)
