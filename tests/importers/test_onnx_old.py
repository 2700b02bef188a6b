"""Models of older opsets keep their meaning; the right values follow from the operators' texts."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ansorpy.graph.interp import run
from ansorpy.importers.onnx_file import graph_of_model

Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).permuted(np.arange(24)).reshape(2, 3, 4).astype(np.float32)


def computed(
    nodes: list[onnx.NodeProto], opset: int, x: Array, weights: dict[str, Array] | None = None
) -> dict[str, Array]:
    """Return the outputs y (and z) of a model that reads x and weights."""
    written = [name for node in nodes for name in node.output if name in ("y", "z")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [onnx.ValueInfoProto(name=name) for name in written],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return run(graph_of_model(model, hosted=True), {"x": x})


def by_matrix(x: Array, axis: int, op: str) -> Array:
    """Return rows of the matrix [extents before the axis, the others], each by itself."""
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1).astype(np.float64)
    if op == "Hardmax":
        made = np.eye(rows.shape[1])[rows.argmax(1)]
    else:
        made = np.exp(rows - rows.max(1, keepdims=True))
        made /= made.sum(1, keepdims=True)
        made = np.log(made) if op == "LogSoftmax" else made
    return np.asarray(made.reshape(x.shape))


@pytest.mark.parametrize(("opset", "axis"), [(1, None), (9, 2), (11, 0), (11, None), (12, 1)])
def test_hardmax_takes_a_matrix_before_opset_13(opset: int, axis: int | None) -> None:
    given: dict[str, Any] = {} if axis is None else {"axis": axis}
    found = computed([helper.make_node("Hardmax", ["x"], ["y"], **given)], opset, X)["y"]
    np.testing.assert_array_equal(found, by_matrix(X, given.get("axis", 1), "Hardmax"))


def test_hardmax_in_a_branch_takes_a_matrix() -> None:
    branch = helper.make_graph([helper.make_node("Hardmax", ["x"], ["b"])], "b", [],
                               [onnx.ValueInfoProto(name="b")])  # fmt: skip
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    found = computed([node], 11, X, {"c": np.array(True)})["y"]
    np.testing.assert_array_equal(found, by_matrix(X, 1, "Hardmax"))


@pytest.mark.parametrize("op", ["Hardmax", "Softmax", "LogSoftmax"])
def test_a_model_that_the_converter_refuses_keeps_the_meaning(op: str) -> None:
    nodes = [helper.make_node(op, ["x"], ["y"]), helper.make_node("Less", ["x", "y"], ["z"])]
    found = computed(nodes, 6, X)
    np.testing.assert_allclose(found["y"], by_matrix(X, 1, op), rtol=1e-5, atol=1e-30)
    assert found["z"].dtype == bool


def test_selu_of_opset_1_has_constants_of_its_own() -> None:
    found = computed([helper.make_node("Selu", ["x"], ["y"])], 1, -X)["y"]
    np.testing.assert_allclose(found, 1.0507 * 1.6732 * np.expm1(-X.astype(np.float64)), rtol=1e-6)


def resized(x: Array, scales: list[float], mode: str, op: str, opset: int) -> Array:
    if op == "Upsample" and opset < 9:
        return computed([helper.make_node(op, ["x"], ["y"], mode=mode, scales=scales)], opset, x)[
            "y"
        ]
    node = helper.make_node(op, ["x", "s"], ["y"], mode=mode)
    return computed([node], opset, x, {"s": np.array(scales, np.float32)})["y"]


@pytest.mark.parametrize(
    ("op", "opset", "scales"),
    [("Upsample", 7, (2, 3)), ("Upsample", 9, (1.5, 1)), ("Resize", 10, (2, 0.5)),
     ("Resize", 10, (0.75, 1.5))],
)  # fmt: skip
def test_positions_before_opset_11_are_asymmetric(
    op: str, opset: int, scales: tuple[float, float]
) -> None:
    x = np.random.default_rng(1).standard_normal((1, 1, 4, 6)).astype(np.float32)
    at = [np.arange(int(n * s)) / s for n, s in zip((4, 6), scales, strict=True)]
    linear = np.apply_along_axis(lambda row: np.interp(at[1], np.arange(6), row), 3, x)
    linear = np.apply_along_axis(lambda row: np.interp(at[0], np.arange(4), row), 2, linear)
    whole = [
        np.minimum((np.floor if s >= 1 else np.ceil)(one), n - 1).astype(int)
        for s, one, n in zip(scales, at, (4, 6), strict=True)
    ]
    nearest = x[:, :, whole[0]][..., whole[1]]
    for mode, wanted in (("linear", linear), ("nearest", nearest)):
        found = resized(x, [1.0, 1.0, *scales], mode, op, opset)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_resize_of_opset_10_computes_its_own_example() -> None:
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    found = resized(x, [1.0, 1.0, 0.6, 0.6], "nearest", "Resize", 10)
    assert found.tolist() == [[[[1.0, 3.0]]]]


@pytest.mark.parametrize(("word", "dtype"), [("INT64", np.int64), ("double", np.float64)])
def test_cast_of_opset_1_names_its_dtype_by_a_word(word: str, dtype: type) -> None:
    found = computed([helper.make_node("Cast", ["x"], ["y"], to=word)], 1, X)["y"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, X.astype(dtype))


def test_pad_of_opset_1_has_paddings() -> None:
    found = computed([helper.make_node("Pad", ["x"], ["y"], paddings=[0, 0, 1, 0, 0, 0])], 1, X)
    np.testing.assert_array_equal(found["y"], np.pad(X, [(0, 0), (0, 0), (1, 0)]))


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_of_opset_1_say_that_a_sequence_is_wanted(op: str) -> None:
    gates, rng = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], np.random.default_rng(1)
    weights = {
        name: rng.standard_normal((1, 5 * gates, extent)).astype(np.float32)
        for name, extent in (("w", 4), ("r", 5))
    }

    def layer(opset: int, **given: Any) -> Array:
        node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=5, **given)
        return computed([node], opset, X, weights)["y"]

    np.testing.assert_array_equal(layer(1, output_sequence=1), layer(7))


def test_a_value_around_float16_is_float16() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to="FLOAT16"),
        helper.make_node("Pad", ["h"], ["y"], pads=[0, 0, 1, 0, 0, -2], value=2.0),
    ]
    found = computed(nodes, 2, X)["y"]
    assert found.dtype == np.float16
    expected = np.pad(X, [(0, 0), (0, 0), (1, 0)], constant_values=2)[..., :3]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("opset", [1, 2, 6])
def test_upsample_of_opset_1_scales_height_and_width(opset: int) -> None:
    x = X.reshape(1, 2, 3, 4)
    node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0)
    found = computed([node], opset, x)["y"]
    np.testing.assert_array_equal(found, x.repeat(2, axis=2).repeat(3, axis=3))


def test_bilinear_upsample_of_opset_1_is_linear_of_opset_9() -> None:
    x = X.reshape(1, 2, 3, 4)
    old = helper.make_node(
        "Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0, mode="bilinear"
    )
    new = helper.make_node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0], mode="linear")
    np.testing.assert_array_equal(computed([old], 6, x)["y"], computed([new], 7, x)["y"])
