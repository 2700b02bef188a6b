"""RoiAlign against a plain loop over cells and samples, as its text states them."""

from itertools import product
from math import ceil, floor

import numpy as np
import pytest
from onnx import TensorProto, helper

from ansorpy.errors import GraphError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Attribute
from ansorpy.graph.interp import run
from ansorpy.importers.onnx_file import graph_of_model

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 9, 7))
ROIS = np.array(
    [[0, 0, 4, 4], [1.3, 2.2, 5.1, 8.9], [-3, -2, 20, 30], [5, 5, 5, 5], [6, 6, 3, 2],
     [40, 40, 50, 50]]
)  # fmt: skip
BATCHES = np.array([0, 1, 1, 0, 0, 1])
SIZE = (3, 2)


def taps(at: float, extent: int) -> list[tuple[int, float]]:
    """Return the elements and weights of a sample along one axis; none far outside."""
    if not -1 <= at <= extent:
        return [(0, 0.0), (0, 0.0)]
    at = min(max(at, 0.0), extent - 1)
    low = floor(at)
    return [(low, 1 - at + low), (min(low + 1, extent - 1), at - low)]


def aligned(mode: str, ratio: int, scale: float, half: bool) -> Array:
    found = np.zeros((len(ROIS), 3, *SIZE))
    for n, roi in enumerate(ROIS * scale - 0.5 * half):
        first = roi[1], roi[0]
        length = [roi[3] - roi[1], roi[2] - roi[0]]
        length = length if half else [max(one, 1.0) for one in length]
        steps = [one / cells for one, cells in zip(length, SIZE, strict=True)]
        counts = [ratio or max(0, ceil(step)) for step in steps]
        for c, i, j in product(range(3), *map(range, SIZE)):
            samples = []
            for a, b in product(*map(range, counts)):
                at = [
                    begin + (cell + (k + 0.5) / count) * step
                    for begin, cell, k, count, step in zip(
                        first, (i, j), (a, b), counts, steps, strict=True
                    )
                ]
                samples.append(
                    [
                        u * v * X[BATCHES[n], c, row, column]
                        for row, u in taps(at[0], 9)
                        for column, v in taps(at[1], 7)
                    ]
                )
            if samples:
                found[n, c, i, j] = (
                    np.sum(samples) / len(samples) if mode == "avg" else np.max(samples)
                )
    return found


def run_graph(dtype: str = "float64", **attrs: Attribute) -> Array:
    builder = GraphBuilder(hosted=True)
    inputs = {"x": X.astype(dtype), "rois": ROIS.astype(dtype), "batches": BATCHES}
    for name, array in inputs.items():
        builder.input(name, array.shape, array.dtype.name)
    told = {"output_height": SIZE[0], "output_width": SIZE[1], **attrs}
    builder.add("RoiAlign", list(inputs), ["y"], told)
    builder.output("y", "y")
    return run(builder.graph(), inputs)["y"]


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("half", [True, False])
def test_regions_are_aligned(mode: str, ratio: int, scale: float, half: bool) -> None:
    coordinates = {} if half else {"coordinate_transformation_mode": "output_half_pixel"}
    found = run_graph(mode=mode, sampling_ratio=ratio, spatial_scale=scale, **coordinates)
    np.testing.assert_allclose(found, aligned(mode, ratio, scale, half), rtol=1e-9, atol=1e-12)


def test_opset_10_has_no_half_pixel() -> None:
    facts = (("x", TensorProto.FLOAT, X.shape), ("r", TensorProto.FLOAT, ROIS.shape),
             ("b", TensorProto.INT64, BATCHES.shape), ("y", TensorProto.FLOAT, None))  # fmt: skip
    *given, made = (helper.make_tensor_value_info(*one) for one in facts)
    node = helper.make_node(
        "RoiAlign", ["x", "r", "b"], ["y"], output_height=SIZE[0], output_width=SIZE[1]
    )
    model = helper.make_model(
        helper.make_graph([node], "g", given, [made]), opset_imports=[helper.make_opsetid("", 10)]
    )
    inputs = {"x": X.astype(np.float32), "r": ROIS.astype(np.float32), "b": BATCHES}
    found = run(graph_of_model(model, hosted=True), inputs)["y"]
    np.testing.assert_allclose(found, aligned("avg", 0, 1.0, False), rtol=1e-4, atol=1e-5)


def test_float16_is_summed_in_float32() -> None:
    found = run_graph("float16", sampling_ratio=2)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, aligned("avg", 2, 1.0, True), rtol=0, atol=2e-2)


def test_another_mode_is_refused() -> None:
    with pytest.raises(GraphError, match="mode 'median'; expected float16 to float64, and avg"):
        run_graph(mode="median")
