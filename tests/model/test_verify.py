"""Oracles of whole models, the inputs that they are asked about, and the bounds that follow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ansorpy.artifact.harness import widened
from ansorpy.importers.model_file import read_model
from ansorpy.model import oracles
from ansorpy.model.check_inputs import hard_inputs, nudged
from ansorpy.model.oracles import REFERENCE_FROM
from ansorpy.model.verify import ModelReference, reference_of

Shape = tuple[int, ...]


def saved(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Shape]],
    output: int,
    opset: int,
    weights: tuple[onnx.TensorProto, ...] = (),
) -> Path:
    """Write a model whose output is y."""
    given = [helper.make_tensor_value_info(n, dtype, s) for n, (dtype, s) in inputs.items()]
    made = [helper.make_tensor_value_info("y", output, None)]
    graph = helper.make_graph(nodes, "g", given, made, list(weights))
    opsets = [helper.make_opsetid("", opset)]
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def referred(path: Path, **more: float) -> ModelReference:
    return reference_of(read_model(path, hosted=True), path, 0, **more)


def softmax(folder: Path, opset: int = 13) -> Path:
    node = helper.make_node("Softmax", ["x"], ["y"])
    x = (TensorProto.FLOAT, (4, 8))
    return saved(folder / "softmax.onnx", [node], {"x": x}, TensorProto.FLOAT, opset)


@pytest.fixture
def without_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide onnxruntime."""
    monkeypatch.setattr(oracles, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("constant", "oracle"), [(True, "ONNX Runtime"), (False, "onnx.reference")]
)
def test_products_of_uint8_and_int8_are_exact(constant: bool, oracle: str, tmp_path: Path) -> None:
    """The largest products saturate 16 bits in pairs."""
    weight = np.full((64, 4), 127, np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    inputs = {"x": (TensorProto.UINT8, (3, 64)), "w": (TensorProto.INT8, (64, 4))}
    if constant:
        del inputs["w"]
    weights = (onnx.numpy_helper.from_array(weight, "w"),) if constant else ()
    path = saved(tmp_path / "m.onnx", [node], inputs, TensorProto.INT32, 13, weights)
    found = referred(path)
    x, w = found.inputs["x"].astype(np.int64), found.inputs.get("w", weight).astype(np.int64)
    assert x.max() > 200
    np.testing.assert_array_equal(found.outputs[0], x @ w)
    assert found.told.startswith(oracle)
    assert ("VNNI" in found.told) == (not constant)


@pytest.mark.usefixtures("without_runtime")
def test_a_fallback_is_told_with_its_reason(tmp_path: Path) -> None:
    reason = "onnxruntime is not installed"
    found = referred(softmax(tmp_path))
    assert found.source == f"onnx.reference {onnx.__version__}; {reason}"
    x = found.inputs["x"].astype(np.float64)
    wanted = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found.outputs[0], wanted, rtol=1e-6)
    assert referred(softmax(tmp_path, opset=11)).source == (
        f"our own interpreter only ({reason}; onnx.reference is wrong about Softmax before opset"
        " 13)"
    )


@pytest.mark.usefixtures("without_runtime")
@pytest.mark.parametrize(
    ("operator", "attributes", "shape"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, (1, 1, 5, 5)),
        ("LpNormalization", {"axis": 1, "p": 1}, (2, 3)),
        ("GlobalMaxPool", {}, (1, 2, 3)),
    ],
)
def test_the_reference_of_onnx_is_not_asked_about_its_mistakes(
    operator: str, attributes: dict[str, Any], shape: Shape, tmp_path: Path
) -> None:
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    inputs = {"x": (TensorProto.FLOAT, shape)}
    found = referred(saved(tmp_path / "m.onnx", [node], inputs, TensorProto.FLOAT, 13))
    assert "onnx.reference is wrong about" in found.source
    assert operator in found.source


@pytest.mark.usefixtures("without_runtime")
@pytest.mark.parametrize(("opset", "mode"), [(16, "bicubic"), (20, "cubic")])
def test_the_reference_of_onnx_clamps_points_of_a_grid(
    opset: int, mode: str, tmp_path: Path
) -> None:
    for padding, asked in (("border", False), ("zeros", True)):
        node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding)
        inputs = {"x": (TensorProto.FLOAT, (1, 1, 5, 5)), "g": (TensorProto.FLOAT, (1, 2, 2, 2))}
        path = saved(tmp_path / f"{padding}.onnx", [node], inputs, TensorProto.FLOAT, opset)
        told = "onnx.reference is wrong about" in referred(path).source
        assert told is not (asked and opset >= 20), padding


@pytest.mark.parametrize(
    ("dtype", "known"), [(TensorProto.UINT8, False), (TensorProto.FLOAT, True)]
)
def test_no_program_is_asked_to_resize_integers(dtype: int, known: bool, tmp_path: Path) -> None:
    """Both are off by one where the weights sum to a little less than 1."""
    scales = onnx.numpy_helper.from_array(np.array([1, 1, 1.5, 1.5], np.float32), "s")
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    inputs = {"x": (dtype, (1, 1, 4, 4))}
    path = saved(tmp_path / "m.onnx", [node], inputs, dtype, 18, (scales,))
    assert referred(path).source.startswith("ONNX Runtime" if known else "our own interpreter")


def test_a_graph_without_its_file_is_verified_by_our_interpreter_only(tmp_path: Path) -> None:
    graph = read_model(softmax(tmp_path))
    told = reference_of(graph, None, 0).told
    assert told == (
        "our own interpreter only (the graph came without its file) on normal, large, small,"
        " negative, equal, infinite inputs"
    )


def test_the_reference_of_onnx_is_not_asked_about_older_versions_that_it_has_not() -> None:
    """An operator whose attributes or operands changed needs a class for the older version."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.ops._op_list import load_op

    newest = onnx.defs.onnx_opset_version()
    added = {  # attributes and operands came that change nothing unless they are given
        "DepthToSpace", "GRU", "GatherND", "LSTM", "MaxPool", "OptionalHasElement", "Range",
        "ScatterElements", "ScatterND", "SpaceToDepth",
    }  # fmt: skip

    def form(name: str, opset: int) -> object:
        schema = onnx.defs.get_schema(name, opset, "")
        operands = [[(one.name, one.option) for one in s] for s in (schema.inputs, schema.outputs)]
        defaults = {n: a.default_value.SerializeToString() for n, a in schema.attributes.items()}
        return operands, defaults

    changed: dict[str, int] = {}
    for name in {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}:
        for opset in range(7, newest):
            try:
                made = load_op("", name, version=opset, evaluator_cls=ReferenceEvaluator)
                found = made.__name__
                same = form(name, opset) == form(name, newest)
            except (TypeError, RuntimeError, NotImplementedError, onnx.defs.SchemaError):
                continue  # onnx.reference says so itself
            if found == name and not same and name not in added:
                changed[name] = opset + 1
    assert {n: first for n, first in changed.items() if first > REFERENCE_FROM.get(n, 0)} == {}


def test_bfloat16_is_computed_by_onnx_runtime_in_float32(tmp_path: Path) -> None:
    node = helper.make_node("Tanh", ["x"], ["y"])
    x = (TensorProto.BFLOAT16, (4, 8))
    path = saved(tmp_path / "m.onnx", [node], {"x": x}, TensorProto.BFLOAT16, 13)
    found = referred(path)
    assert found.told.startswith("ONNX Runtime")
    given, made = (widened(one, "bfloat16") for one in (found.inputs["x"], found.outputs[0]))
    np.testing.assert_allclose(made, np.tanh(given), rtol=2.0**-8)


def test_an_element_of_one_operator_is_compared_by_its_own_size(tmp_path: Path) -> None:
    node = helper.make_node("Exp", ["x"], ["y"])
    x = (TensorProto.FLOAT, (8, 64))
    path = saved(tmp_path / "m.onnx", [node], {"x": x}, TensorProto.FLOAT, 13)
    found = referred(path)
    (case,) = (one for one in found.cases if one.name == "normal")
    given = found.inputs["x"].astype(np.float64)
    right = np.exp(given).astype(np.float32)
    assert case.fault([right], found.dtypes) == ""
    wrong, least = right.copy(), np.unravel_index(int(right.argmin()), right.shape)
    wrong[least] *= 1.0001
    assert abs(wrong - right).max() < 1e-5 * right.max()
    assert case.fault([wrong], found.dtypes).startswith(
        f"1 of 512 elements of output 0 are off, as at {[int(n) for n in least]}: "
    )


def test_hard_inputs_find_overflow_and_lost_maxima(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "s"], ["m"]), helper.make_node("Softmax", ["m"], ["y"])]
    inputs = {"x": (TensorProto.FLOAT, (4, 8)), "s": (TensorProto.FLOAT, (1,))}
    found = referred(saved(tmp_path / "m.onnx", nodes, inputs, TensorProto.FLOAT, 13))
    (case,) = (one for one in found.cases if one.name == "scaled")
    assert case.inputs["s"] == np.float32(1e12)
    x = case.inputs["x"]
    right = np.asarray(x == x.max(axis=-1, keepdims=True), np.float32)
    assert case.fault([right], found.dtypes) == ""
    right[0] = np.nan
    assert case.fault([right], found.dtypes).startswith("8 of 32 elements of output 0 are off")

    mean = helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)
    inputs = {"x": (TensorProto.FLOAT16, (2, 4000))}
    found = referred(saved(tmp_path / "n.onnx", [mean], inputs, TensorProto.FLOAT16, 13))
    (case,) = (one for one in found.cases if one.name == "equal")
    assert case.fault([np.full(2, 30, np.float16)], found.dtypes) == ""
    assert case.fault([np.full(2, np.inf, np.float16)], found.dtypes) != ""


def test_a_case_that_says_nothing_is_left_out(tmp_path: Path) -> None:
    """The sine of large numbers depends on roundings."""
    nodes = [helper.make_node("Mul", ["x", "c"], ["m"]), helper.make_node("Sin", ["m"], ["y"])]
    inputs = {"x": (TensorProto.FLOAT, (64,))}
    factor = (onnx.numpy_helper.from_array(np.array([99], np.float32), "c"),)
    path = saved(tmp_path / "m.onnx", nodes, inputs, TensorProto.FLOAT, 13, factor)
    found = referred(path)
    assert "large (no result is finite and stable)" in found.left_out
    assert [one.name for one in found.cases] == ["small", "negative", "equal"]
    assert found.told.endswith("; left out: large (no result is finite and stable)")
    assert len(referred(path, budget_s=0.0).left_out) == 4


def test_infinities_are_wanted_where_both_programs_have_them(tmp_path: Path) -> None:
    found = referred(softmax(tmp_path))
    (case,) = (one for one in found.cases if one.name == "infinite")
    x = case.inputs["x"].astype(np.float64)
    assert (x == -np.inf).any()
    assert not (x == np.inf).any()  # all of a row would be NaN
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        right = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
    assert case.fault([right], found.dtypes) == ""
    assert case.fault([np.where(right == 0, np.float32(np.nan), right)], found.dtypes) != ""


def test_inputs_are_nudged_by_a_machine_epsilon(tmp_path: Path) -> None:
    graph = read_model(softmax(tmp_path))
    inputs = hard_inputs(graph, np.random.default_rng(0))["equal"]
    together = nudged(graph, inputs, None)["x"]
    assert len(np.unique(together)) == 1
    apart = nudged(graph, inputs, np.random.default_rng(0))["x"]
    np.testing.assert_allclose(np.unique(apart), [30 * (1 + n * 2.0**-23) for n in (-1, 1)], 2e-8)
