"""Operands and modes that few models use, against NumPy."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ansorpy.errors import GraphError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Attribute
from ansorpy.graph.interp import run

RNG = np.random.default_rng(0)


def one(
    op: str, arrays: Mapping[str, Array | None], constants: tuple[str, ...] = (), **attrs: Attribute
) -> Array:
    """Return the first output of a node on arrays, of which some are constants."""
    builder = GraphBuilder(hosted=True)
    for name, array in arrays.items():
        if array is not None and name in constants:
            builder.constant(name, array)
        elif array is not None:
            builder.input(name, array.shape, array.dtype.name)
    names = [name if array is not None else "" for name, array in arrays.items()]
    builder.output("y", builder.add(op, names, ["y"], attrs)[0])
    graph = builder.graph()
    return run(graph, {n: a for n, a in arrays.items() if n in graph.inputs and a is not None})["y"]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4), (1, 4, 5)]),
        ("...ij,...jk->...ik", [(1, 3, 4), (2, 4, 5)]),
        ("...ij,...jk", [(2, 1, 3, 4), (5, 4, 2)]),
        ("...i,...i->...", [(2, 1, 4), (1, 3, 4)]),
        ("...,...->...", [(1, 1), (2, 3)]),
        ("...,...", [(1,), (3,)]),
        ("...i->...", [(1, 4)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("i...,j...->ij...", [(2, 1), (3, 4)]),
    ],
)
def test_axes_of_extent_1_are_repeated_by_einsum(
    equation: str, shapes: list[tuple[int, ...]]
) -> None:
    arrays = {f"x{n}": RNG.standard_normal(shape) for n, shape in enumerate(shapes)}
    found = one("Einsum", arrays, equation=equation)
    np.testing.assert_allclose(found, np.einsum(equation, *arrays.values()), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean"])
def test_reductions_of_integers_are_cut_to_integers(op: str, dtype: str) -> None:
    x = np.array([[3, 1, 20], [9, 30, 2]], dtype)
    wide = x.astype(np.float64)
    expected = {
        "ReduceLogSum": np.log(wide.sum(1)), "ReduceL2": np.sqrt((wide * wide).sum(1)),
        "ReduceMean": wide.mean(1), "ReduceLogSumExp": np.log(np.exp(wide).sum(1)),
    }[op]  # fmt: skip
    found = one(op, {"x": x, "axes": np.array([1])}, ("axes",), keepdims=0)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.trunc(expected))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_the_logarithm_of_no_integer_is_the_least_one(dtype: str) -> None:
    x = np.zeros((2, 3), dtype)
    found = one("ReduceLogSum", {"x": x, "axes": np.array([1])}, ("axes",), keepdims=0)
    np.testing.assert_array_equal(found, np.full(2, np.iinfo(dtype).min, dtype))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_tf_half_pixel_takes_the_middle_of_each_element(mode: str) -> None:
    x = np.arange(4.0)
    arrays: dict[str, Any] = {"x": x, "roi": None, "scales": np.array([2.5], np.float32)}
    found = one(
        "Resize", arrays, ("scales",), mode=mode, nearest_mode="floor",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )  # fmt: skip
    at = (np.arange(10) + 0.5) / 2.5
    expected = x[np.minimum(np.floor(at).astype(int), 3)]
    np.testing.assert_allclose(found, expected if mode == "nearest" else np.interp(at, x, x))


def test_the_weights_of_mel_bands_are_triangles() -> None:
    numbers = {"bands": 4, "length": 32, "rate": 16000, "low": 0.0, "high": 8000.0}
    arrays: dict[str, Any] = {name: np.array(value) for name, value in numbers.items()}
    found = one("MelWeightMatrix", arrays, tuple(arrays), output_datatype="float64")
    mels = 2595 * np.log10(1 + 8000 / 700) / 6 * np.arange(6)
    edges = np.floor(33 * 700 * (10 ** (mels / 2595) - 1) / 16000)
    bins = np.arange(17)
    expected = [
        np.interp(bins, edges[n : n + 3], [0, 1, 0], left=0, right=0) for n in range(4)
    ]  # no two edges are equal
    np.testing.assert_allclose(found, np.transpose(expected), atol=1e-15)


def test_the_largest_elements_of_regions_are_pooled() -> None:
    x = np.arange(60, dtype=np.float32).reshape(1, 1, 6, 10) % 17
    rois = np.array([[0, 2, 1, 7, 4], [0, 3, 3, 3, 3], [0, 50, 50, 60, 60]], np.float32)
    found = one("MaxRoiPool", {"x": x, "rois": rois}, pooled_shape=(2, 2))
    image = x[0, 0]
    expected = [
        [[image[1:3, 2:5].max(), image[1:3, 5:8].max()],
         [image[3:5, 2:5].max(), image[3:5, 5:8].max()]],
        [[image[3, 3]] * 2] * 2, [[0, 0]] * 2,
    ]  # fmt: skip
    np.testing.assert_array_equal(found[:, 0], expected)


@pytest.mark.parametrize("masked", [True, False])
def test_a_deformable_convolution_reads_at_its_offsets(masked: bool) -> None:
    """A whole offset moves elements; an offset of 0.5 is the mean of two neighbours."""
    x = RNG.standard_normal((1, 2, 5, 5))
    w, bias = RNG.standard_normal((1, 2, 1, 1)), np.array([3.0])
    offset = np.zeros((1, 4, 5, 5))  # one pair of y and x for each of two parts of the channels
    offset[0, 1], offset[0, 2] = 0.5, -2
    mask = np.full((1, 2, 5, 5), 0.25) if masked else None
    found = one("DeformConv", {"x": x, "w": w, "o": offset, "b": bias, "m": mask}, offset_group=2)
    right = np.pad(x[0, 0], ((0, 0), (0, 1)))[:, 1:]
    down = np.pad(x[0, 1], ((2, 0), (0, 0)))[:5]
    parts = w[0, 0, 0, 0] * (x[0, 0] + right) / 2 + w[0, 1, 0, 0] * down
    np.testing.assert_allclose(found[0, 0], parts * (0.25 if masked else 1) + 3, rtol=1e-12)


def test_a_deformable_convolution_without_offsets_is_a_convolution() -> None:
    x, w = RNG.standard_normal((2, 4, 7, 6)), RNG.standard_normal((6, 2, 3, 2))
    told: dict[str, Any] = {
        "group": 2, "pads": (1, 0, 1, 1), "strides": (2, 1), "dilations": (1, 2)
    }  # fmt: skip
    expected = one("Conv", {"x": x, "w": w}, **told)
    offset = np.zeros((2, 12, *expected.shape[2:]))
    found = one("DeformConv", {"x": x, "w": w, "o": offset}, **told)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "reason"),
    [
        ("DeformConv", [(1, 2, 5, 5), (1, 2, 1, 1), (1, 3, 5, 5)], {}, "its offsets are"),
        ("DeformConv", [(1, 3, 5, 5), (1, 2, 1, 1), (1, 2, 5, 5)], {}, "1 groups of 3 channels"),
        ("DeformConv", [(1, 2, 5), (1, 2, 1), (1, 2, 5)], {}, "expected two spatial axes"),
        ("MaxRoiPool", [(1, 2, 5, 5), (3, 4)], {"pooled_shape": (1, 1)}, "[r, 5]"),
        ("RoiAlign", [(1, 2, 5, 5), (3, 4), (2,)], {}, "[r, 4] and [r]"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], reason: str
) -> None:
    with pytest.raises(GraphError, match=re.escape(reason)):
        one(op, {f"x{n}": np.zeros(shape) for n, shape in enumerate(shapes)}, **attrs)
