"""Operators at the corners of their dtypes, by the interpreter and by kernels."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.interp import reference, run
from ansorpy.graph.passes import PASSES, simplify
from benchmarks.models.node_tests import Kernels

Array = np.ndarray[Any, Any]
inf, nan = math.inf, math.nan
BASES = np.array([-inf, inf, nan, 0.0, -0.0, -2.0, 2.0, 1.0, 0.25, 1e30], np.float32)
WHOLE = np.array([0, 1, -1, 2, -2, 3, 5, -9, 10, 3037000499], np.int64)
compute = pytest.mark.parametrize(
    "compute", [reference, Kernels().compute], ids=["interpreter", "kernel"]
)


def computed(
    op: str, inputs: list[Array], by: Any, outputs: int = 1,
    known: Mapping[int, Array] | None = None, passes: bool = False, **attrs: Any,
) -> list[Array]:  # fmt: skip
    """Return the outputs of one node; `known` operands are constants."""
    builder = GraphBuilder()
    given = {}
    names = [f"x{n}" for n in range(len(inputs) + len(known or {}))]
    rest = iter(inputs)
    for n, name in enumerate(names):
        if known and n in known:
            builder.constant(name, known[n])
        else:
            given[name] = next(rest)
            builder.input(name, given[name].shape, given[name].dtype.name)
    made = builder.add(op, names, [f"y{n}" for n in range(outputs)], attrs)
    for name in made:
        builder.output(name, name)
    graph = builder.graph()
    return list(run(simplify(graph, PASSES).graph if passes else graph, given, by).values())


def power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except ValueError:  # a root of a negative number, or 0 to a negative power
        return nan if x else math.copysign(inf, x) if y % 2 == 1 else inf


@compute
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, 2.0, 3.0, -1.0])
def test_powers_are_those_of_ieee_754(exponent: float, compute: Any) -> None:
    y = np.array(exponent, np.float32)
    with np.errstate(all="ignore"):
        wanted = np.array([power(float(x), exponent) for x in BASES]).astype(np.float32)
        found = computed("Pow", [BASES], compute, known={1: y}, passes=True)[0]
        again = computed("Pow", [BASES, y], compute)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(again, wanted, rtol=1e-6)


def whole_power(x: int, y: int) -> int:
    return x**y if y >= 0 else {1: 1, -1: (-1) ** y}.get(x, 0) if y % 2 == 0 else (abs(x) == 1) * x


@compute
@pytest.mark.parametrize("exponents", [np.int64, np.int32, np.float64])
def test_powers_of_integers_are_exact(exponents: Any, compute: Any) -> None:
    pairs = [
        (x, y) for y in (0, 1, 2, 3, 13, 18, 62, 63, 101, -1, -2) for x in WHOLE.tolist()
        if abs(whole_power(x, y)) < 1 << 63 and (x or y >= 0)
    ]  # fmt: skip
    x, y = (np.array(one) for one in zip(*pairs, strict=True))
    found = computed("Pow", [x, y.astype(exponents)], compute)[0]
    assert found.tolist() == [whole_power(a, b) for a, b in pairs]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 18, -1, -2, 101])
def test_powers_of_integers_by_a_known_exponent_are_exact(exponent: int) -> None:
    fits = [x for x in WHOLE.tolist() if abs(whole_power(x, exponent)) < 1 << 31]
    x = np.array([one for one in fits if abs(one) < 1 << 31 and (one or exponent >= 0)], np.int32)
    for y in (np.array(exponent), np.array([exponent], np.float32)):
        found = computed("Pow", [x], reference, known={1: y})[0]
        assert found.dtype == np.int32
        assert found.tolist() == [whole_power(one, exponent) for one in x.tolist()]


def test_an_exponent_in_float64_is_not_rounded() -> None:
    x, y = np.array([1e30], np.float32), np.array(0.1)
    wanted = np.float32(float(x[0]) ** 0.1)
    for known in ({1: y}, None):
        found = computed("Pow", [x] if known else [x, y], reference, known=known)[0]
        assert found.tolist() == [wanted]


@compute
def test_hard_swish_of_the_largest_number_is_finite(compute: Any) -> None:
    x = np.array([3.4028235e38, -3.4028235e38, 3.0, -3.0, 1.0], np.float32)
    wanted = x.astype(np.float64) * np.clip(x.astype(np.float64) / 6 + 0.5, 0, 1)
    np.testing.assert_allclose(computed("HardSwish", [x], compute)[0], wanted, rtol=1e-6)


@compute
def test_the_maximum_of_infinities_is_no_padding(compute: Any) -> None:
    x = np.full((1, 1, 4, 4), -inf, np.float32)
    x[0, 0, 0, 0] = 1
    window: dict[str, Any] = {"kernel_shape": (2, 2), "pads": (1, 1, 1, 1)}
    wanted = np.full((5, 5), -inf)
    wanted[:2, :2] = 1
    (found,) = computed("MaxPool", [x], compute, **window)
    values, places = computed("MaxPool", [x], compute, 2, **window)
    np.testing.assert_array_equal(found[0, 0], wanted)
    np.testing.assert_array_equal(values, found)
    np.testing.assert_array_equal(x.reshape(-1)[places], values)


def test_a_gemm_without_a_share_of_c_does_not_read_it() -> None:
    a, b, c = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32), np.full(2, nan, np.float32)
    assert computed("Gemm", [a, b, c], reference, beta=0.0)[0].tolist() == [[3, 3], [3, 3]]


def test_absent_limits_of_a_clip_are_finite() -> None:
    x = np.array([-inf, -1.0, inf], np.float32)
    largest = np.finfo(np.float32).max
    assert computed("Clip", [x], reference)[0].tolist() == [-largest, -1, largest]
    assert computed("Clip", [x], reference, min=0.0)[0].tolist() == [0, 0, largest]
    low = np.array(0, np.float32)
    wide = computed("Clip", [x.astype(np.float64)], reference, known={1: low})[0]
    assert wide.tolist() == [0, 0, np.finfo(np.float64).max]  # a limit of older opsets is float32
    assert computed("Clip", [x], reference, known={1: low})[0].tolist() == [0, 0, largest]


def sampled(image: Array, x: float, y: float) -> float:
    """Return a cubic sample of an image at pixels, by 16 taps that are clamped to the image."""

    def weights(t: float) -> Array:
        near = np.array([t, 1 - t])
        far = near + 1
        inner = (1.25 * near - 2.25) * near * near + 1
        outer = -0.75 * (((far - 5) * far + 8) * far - 4)
        return np.array([outer[0], inner[0], inner[1], outer[1]])

    (h, w), (i, j) = image.shape, (math.floor(y), math.floor(x))
    rows = np.clip(np.arange(i - 1, i + 3), 0, h - 1)
    columns = np.clip(np.arange(j - 1, j + 3), 0, w - 1)
    return float(weights(y - i) @ image[np.ix_(rows, columns)].astype(np.float64) @ weights(x - j))


@compute
def test_taps_of_a_cubic_sample_are_clamped_to_the_border(compute: Any) -> None:
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, 1, 5, 6)).astype(np.float32)
    grid = rng.uniform(-2, 2, (1, 4, 8, 2)).astype(np.float32)
    wanted = [
        sampled(image[0, 0], (x + 1) * 3 - 0.5, (y + 1) * 2.5 - 0.5)
        for x, y in grid.reshape(-1, 2).astype(np.float64).tolist()
    ]
    found = computed("GridSample", [image, grid], compute, mode="cubic", padding_mode="border")[0]
    np.testing.assert_allclose(found.reshape(-1), wanted, rtol=1e-4, atol=1e-5)
