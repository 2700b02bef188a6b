"""Lengths, positions and integers of Resize: exact from sizes, in float32 from scales."""

from fractions import Fraction
from math import floor, trunc
from typing import Any

import numpy as np
import pytest

from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.interp import reference, run
from benchmarks.models.node_tests import Kernels

Array = np.ndarray[Any, Any]


def resized(
    x: Array, scales: list[float] | None = None, sizes: list[int] | None = None,
    compute: Any = reference, roi: list[float] | None = None, **attrs: Any,
) -> Array:  # fmt: skip
    builder = GraphBuilder()
    builder.input("x", x.shape, x.dtype.name)
    given = {"roi": roi, "scales": scales, "sizes": sizes}
    names = ["x"]
    for name, values in given.items():
        if values is not None:
            builder.constant(name, np.array(values, np.int64 if name == "sizes" else np.float32))
        names.append(name if values is not None else "")
    builder.add("Resize", names, ["y"], attrs)
    builder.output("y", "y")
    return run(builder.graph(), {"x": x}, compute)["y"]


@pytest.mark.parametrize(
    ("old", "scale", "new"), [(20, 0.7, 14), (10, 1.3, 13), (10, 0.9, 9), (5, 1.4, 7), (7, 0.35, 2)]
)
def test_lengths_are_those_of_onnx_runtime(old: int, scale: float, new: int) -> None:
    assert resized(np.zeros((1, old), np.float32), [1, scale]).shape == (1, new)


@pytest.mark.parametrize(("old", "new"), [(28, 36), (14, 36), (56, 36), (49, 7), (7, 49), (13, 10)])
def test_positions_from_sizes_are_exact(old: int, new: int) -> None:
    x = np.arange(old, dtype=np.float32)
    nearest: dict[str, Any] = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    found = resized(x, sizes=[new], nearest_mode="floor", **nearest)
    assert found.tolist() == [i * old // new for i in range(new)]
    found = resized(x, sizes=[new], nearest_mode="floor")
    middles = [Fraction((2 * i + 1) * old - new, 2 * new) for i in range(new)]
    assert found.tolist() == [max(floor(at), 0) for at in middles]


def test_positions_from_scales_are_rounded_to_float32() -> None:
    x = np.arange(10, dtype=np.float32)
    found = resized(
        x, [0.6], coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )  # 3 / float32(0.6) is 4.9999998, and 5 in float32
    assert found.tolist() == np.floor(np.arange(6, dtype=np.float32) / np.float32(0.6)).tolist()
    assert found[3] == 5


def test_a_mode_of_opset_11_takes_middles_of_elements() -> None:
    found = resized(
        np.arange(4, dtype=np.float32), sizes=[6], nearest_mode="floor",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )  # fmt: skip
    assert found.tolist() == [(2 * i + 1) * 4 // 12 for i in range(6)]


def test_nearest_elements_outside_of_a_crop_have_the_extrapolation_value() -> None:
    x = np.arange(1, 5, dtype=np.float32)
    found = resized(
        x, sizes=[4], roi=[0.0, 2.0], mode="nearest", extrapolation_value=7.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    assert found.tolist() == [1, 3, 7, 7]  # positions 0, 2, 4, 6


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
@pytest.mark.parametrize("compute", [reference, Kernels().compute], ids=["interpreter", "kernel"])
def test_integers_are_interpolated_exactly(dtype: str, compute: Any) -> None:
    x = np.random.default_rng(0).integers(0, 128, (5, 7)).astype(dtype)
    x[0] = 93  # a constant row stays constant: weights of thirds add up to less than 1
    sizes = [5, 11]
    wanted = np.zeros(sizes, dtype)
    for i in range(11):
        at = Fraction((2 * i + 1) * 7 - 11, 22)
        low, part = floor(at), at - floor(at)
        a, b = (x[:, min(max(n, 0), 6)].tolist() for n in (low, low + 1))
        wanted[:, i] = [trunc(v * (1 - part) + w * part) for v, w in zip(a, b, strict=True)]
    found = resized(x, sizes=sizes, compute=compute, mode="linear")
    np.testing.assert_array_equal(found, wanted)
    assert set(found[0].tolist()) == {93}
