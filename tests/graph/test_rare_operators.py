"""Operands and modes that few models use, against NumPy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

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
