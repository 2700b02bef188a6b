"""Winograd's transforms: exact as matrices, equal as Dags, within their error bounds."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansorpy import te
from ansorpy.errors import SpecError
from ansorpy.expr.expr import Const, substitute
from ansorpy.oracle.error_bounds import Bounded
from ansorpy.oracle.grid import Grid
from ansorpy.oracle.reference import evaluate, evaluate_bounded
from ansorpy.rewrites.winograd import known, recognise, rewrite, transforms
from ansorpy.rewrites.winograd.combine import product
from ansorpy.rewrites.winograd.matrices import POINTS, Matrix
from ansorpy.te.dag import Compute, Dag
from ansorpy.te.tensor_data import Array
from ansorpy.topi.suites import LIBRARY
from ansorpy.topi.workloads import Window, conv1d, conv2d, conv2d_bn_relu, conv2d_nhwc, conv3d

SIZES = [(m, n - m + 1) for n in POINTS for m in range(2, n) if known(m, n - m + 1)]


def times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


def reformulated(dag: Dag, outputs: int, name: str = "conv") -> Dag:
    found, why = recognise(dag.node(name))
    assert found is not None, why
    nodes = rewrite(found, outputs, dag.node(found.data.tensor).shape)
    at = dag.index[name]
    return replace(dag, nodes=(*dag.nodes[:at], *nodes, *dag.nodes[at + 1 :]))


def drawn(dag: Dag, seed: int, scale: float = 1.0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {p.name: rng.uniform(-scale, scale, p.shape) for p in dag.placeholders}


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
@given(numbers=st.lists(st.integers(-9, 9), min_size=12, max_size=12))
def test_the_matrices_are_a_filter_exactly(outputs: int, taps: int, numbers: list[int]) -> None:
    count = outputs + taps - 1
    data, weights = ([Fraction(x) for x in part] for part in (numbers[:count], numbers[-taps:]))
    found = transforms(outputs, taps)
    factors = zip(times(found.weights, weights), times(found.data, data), strict=True)
    answer = times(found.output, [a * b for a, b in factors])
    assert answer == [
        sum((data[i + k] * weights[k] for k in range(taps)), Fraction(0)) for i in range(outputs)
    ]


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_data_and_outputs_are_transformed_without_rounded_factors(outputs: int, taps: int) -> None:
    found = transforms(outputs, taps)
    for number in (x for matrix in (found.data, found.output) for row in matrix for x in row):
        assert Fraction(float(np.float32(float(number)))) == number


def test_f_2_3_is_that_of_the_paper() -> None:
    found = transforms(2, 3)
    assert [[float(abs(x)) for x in row] for row in found.weights] == [
        [1, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0, 0, 1],
    ]  # fmt: skip


@pytest.mark.parametrize(("outputs", "taps"), [(6, 3), (1, 3), (3, 3), (4, 1)])
def test_without_points_there_are_no_transforms(outputs: int, taps: int) -> None:
    with pytest.raises(SpecError, match="must be one of 4, 6"):
        transforms(outputs, taps)


FACTORS = st.sampled_from([Fraction(x) for x in ("0", "0", "1", "-1", "5/8", "-5/8", "9/4")])


@given(st.lists(st.lists(FACTORS, min_size=4, max_size=4), min_size=1, max_size=5))
def test_a_product_with_shared_halves_is_the_product(rows: list[list[Fraction]]) -> None:
    matrix = tuple(map(tuple, rows))
    x = te.placeholder((4,), "x", "float64")
    terms = [x[k].expr for k in range(4)]
    parts = [te.Scalar(part, x[0].sources) for part in product(matrix, terms, "float64")]
    outs = [te.compute((1,), lambda i, part=part: part, f"y{k}") for k, part in enumerate(parts)]
    values = np.array([3.0, -5.0, 7.0, 11.0])
    found = evaluate(te.dag(outs), {"x": values})
    np.testing.assert_allclose(
        np.concatenate(found), np.array(rows, float) @ values, rtol=1e-14, atol=1e-14
    )


CONVOLUTIONS = st.one_of(
    st.builds(
        lambda n, c, h, w, f, p, t: conv2d(n, c, h, w, f, 3, Window(padding=p), t),
        st.integers(1, 2), st.integers(1, 5), st.integers(3, 11), st.integers(3, 11),
        st.integers(1, 4), st.integers(0, 2), st.sampled_from(["float32", "float64"]),
    ),
    st.builds(
        lambda c, h, w, f, p, s, d: conv2d(1, c, h, w, f, 3, Window(s, p, d)),
        st.integers(1, 4), st.integers(7, 15), st.integers(7, 15), st.integers(1, 3),
        st.integers(0, 3), st.sampled_from([1, 1, 2]), st.sampled_from([2, 3]),
    ).filter(lambda dag: recognise(dag.node("conv"))[0] is not None),
    st.builds(
        lambda n, c, h, w, f, p: conv2d_nhwc(n, h, w, c, f, 3, Window(padding=p)),
        st.integers(1, 2), st.integers(1, 4), st.integers(3, 9), st.integers(3, 9),
        st.integers(1, 4), st.integers(0, 1),
    ),
    st.builds(
        lambda n, c, x, f, p: conv1d(n, c, x, f, 3, Window(padding=p)),
        st.integers(1, 3), st.integers(1, 6), st.integers(3, 40), st.integers(1, 5),
        st.integers(0, 2),
    ),
    st.builds(
        lambda c, d, f: conv3d(1, c, d, d + 1, d + 2, f, 3, Window(padding=1)),
        st.integers(1, 2), st.integers(3, 5), st.integers(1, 3),
    ),
)  # fmt: skip


@settings(max_examples=40)
@given(CONVOLUTIONS, st.sampled_from([2, 4]), st.integers(0, 2**31))
def test_the_rewritten_dag_means_the_same(dag: Dag, outputs: int, seed: int) -> None:
    inputs = drawn(dag, seed)
    (plain,), (fast,) = evaluate(dag, inputs), evaluate(reformulated(dag, outputs), inputs)
    # Both are in float64: its rounding remains, amplified by at most 4**3 per dimension.
    np.testing.assert_allclose(fast, plain, atol=1e-11)


def test_nodes_around_a_convolution_stay() -> None:
    dag = conv2d_bn_relu(1, 4, 6, 6, 3, 3, Window(padding=1))
    inputs = drawn(dag, 0)
    (plain,), (fast,) = evaluate(dag, inputs), evaluate(reformulated(dag, 4), inputs)
    np.testing.assert_allclose(fast, plain, atol=1e-12)


def test_axes_with_names_of_our_own_are_not_confused() -> None:
    x, w = te.placeholder((9, 3), "x"), te.placeholder((3, 3, 2), "w")
    taps, c = te.reduce_axis((0, 3), "h_at"), te.reduce_axis((0, 3), "h_tile")
    conv = te.compute(
        (7, 2), lambda h, h_out: te.sum(x[h + taps, c] * w[taps, c, h_out], (taps, c)), "conv"
    )
    dag = te.dag(conv)
    inputs = drawn(dag, 1)
    (plain,), (fast,) = evaluate(dag, inputs), evaluate(reformulated(dag, 4), inputs)
    np.testing.assert_allclose(fast, plain, atol=1e-12)


def test_turned_weights_and_several_channel_axes_are_recognised() -> None:
    x, w = te.placeholder((2, 9, 3), "x"), te.placeholder((4, 3, 2, 3), "w")
    k, a, b = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 2), "a"), te.reduce_axis((0, 3), "b")
    conv = te.compute(
        (7, 4), lambda i, f: te.sum(w[f, 2 - k, a, b] * x[a, i + k, b], (k, a, b)), "conv"
    )
    dag = te.dag(conv)
    inputs = drawn(dag, 2)
    (plain,), (fast,) = evaluate(dag, inputs), evaluate(reformulated(dag, 2), inputs)
    np.testing.assert_allclose(fast, plain, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("matmul", "no window slides"),
        ("depthwise_conv2d", "no channels"),
        ("softmax", "is not a sum"),
    ],
)
def test_the_refusal_of_a_convolution_names_the_obstacle(name: str, why: str) -> None:
    answers = [recognise(node) for node in LIBRARY[name]().computes]
    assert all(found is None for found, _ in answers)
    assert any(why in answer.why for _, answer in answers)


def test_a_step_may_be_as_large_as_the_dilation() -> None:
    """Then data of one remainder is read alone; of a dilation alone, every remainder for itself."""
    for stride, parts in ((2, ()), (1, ("h_part", "w_part"))):
        dag = conv2d(1, 4, 13, 13, 4, 3, Window(stride, 0, 2))
        found, why = recognise(dag.node("conv"))
        assert found is not None, why
        assert tuple(name for name in found.batch if name.endswith("_part")) == parts
        assert [slide.step for slide in found.slides] == [2, 2]


@pytest.mark.parametrize(
    ("window", "why"),
    [
        (Window(stride=2), "is no axis and no window"),
        (Window(stride=2, dilation=3), "is no axis and no window"),
        (Window(groups=2), "is no axis and no window"),
    ],
    ids=str,
)
def test_steps_and_groups_are_refused(window: Window, why: str) -> None:
    found, answer = recognise(conv2d(1, 4, 9, 9, 4, 3, window).node("conv"))
    assert found is None
    assert why in answer.why


def test_narrow_floats_and_integers_are_refused() -> None:
    for dtype in ("float16", "bfloat16", "int32"):
        found, answer = recognise(conv2d(1, 4, 9, 9, 4, 3, dtype=dtype).node("conv"))
        assert found is None
        assert "float32 or float64" in answer.why


def test_the_bounds_of_larger_tiles_are_wider_for_the_same_channels() -> None:
    dag = conv2d(1, 16, 12, 12, 8, 3)
    inputs = drawn(dag, 3)
    plain, small, large = (
        float(np.max(evaluate_bounded(d, inputs)["conv"][0].error))
        for d in (dag, reformulated(dag, 2), reformulated(dag, 4))
    )
    assert small < plain  # fewer terms per sum
    assert large > 4 * small


def single(dag: Dag, inputs: dict[str, Array]) -> Array:
    """Evaluate a Dag in float32 throughout, term by term: the worst rounding of a kernel."""
    values: dict[str, Array] = {}
    narrow = [replace(n, dtype="float64") if not isinstance(n, Compute) else n for n in dag.nodes]
    for node in narrow:
        if not isinstance(node, Compute):
            values[node.name] = inputs[node.name].astype(np.float32).astype(float)
            continue
        values[node.name] = stepwise(node, values)
    return values[dag.outputs[0]]


def stepwise(node: Compute, values: dict[str, Array]) -> Array:
    """One node by float64 sums of few terms, each rounded: products add one channel at a time."""
    if node.combiner is None:
        return one(node, values).astype(node.dtype).astype(float)
    total = np.zeros(node.shape, np.float32)
    (axis,) = node.reduce_axes
    for k in range(axis.extent):
        at = Const(k)
        body = tuple(substitute(part, {axis.name: at}) for part in node.body)
        step = replace(node, body=body, reduce_axes=(), combiner=None)
        total = total + one(step, values).astype(np.float32)
    return total.astype(float)


def one(node: Compute, values: dict[str, Array]) -> Array:
    ranges = {axis.name: (0, axis.extent) for axis in node.axes}
    known = {name: (Bounded(array),) for name, array in values.items()}
    return np.broadcast_to(
        Grid(node, ranges, known, False).value(node.body[0], None).value, node.shape
    )


Draw = Callable[[tuple[int, ...], np.random.Generator], Array]
ADVERSARIAL: dict[str, Draw] = {
    "alternating": lambda shape, rng: np.where(np.indices(shape).sum(0) % 2, 1 / 3, -0.7),
    "one sign": lambda shape, rng: rng.uniform(0.9, 1.1, shape),
    "wide": lambda shape, rng: rng.choice([1e-4, 1.0, 1e4], shape) * rng.uniform(-1, 1, shape),
    "cancelling": lambda shape, rng: np.sign(rng.uniform(-1, 1, shape)) + 1e-6 * rng.random(shape),
}


@pytest.mark.parametrize("kind", ADVERSARIAL)
@pytest.mark.parametrize("outputs", [2, 4])
def test_single_precision_stays_within_the_bound(kind: str, outputs: int) -> None:
    dag = conv2d(1, 24, 11, 13, 6, 3, Window(padding=1))
    fast = reformulated(dag, outputs)
    rng = np.random.default_rng(4)
    inputs = {p.name: ADVERSARIAL[kind](p.shape, rng) for p in dag.placeholders}
    inputs = {name: x.astype(np.float32).astype(float) for name, x in inputs.items()}
    known = evaluate_bounded(fast, inputs)["conv"][0]
    (value,) = evaluate(dag, inputs)
    error = np.abs(single(fast, inputs) - value)
    assert np.all(error <= 2 * known.error + np.abs(known.value - value))
    assert error.max() > 1e-9  # it was computed in float32


def test_the_error_of_larger_tiles_is_really_larger() -> None:
    dag = conv2d(1, 64, 16, 16, 16, 3, Window(padding=1))
    inputs = drawn(dag, 5)
    inputs = {name: x.astype(np.float32).astype(float) for name, x in inputs.items()}
    (value,) = evaluate(dag, inputs)
    small, large = (
        float(np.sqrt(np.mean((single(reformulated(dag, m), inputs) - value) ** 2))) for m in (2, 4)
    )
    assert 1.5 * small < large < 10 * small
