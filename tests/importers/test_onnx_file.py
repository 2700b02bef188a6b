"""Small ONNX models become graphs that compute as they say, or are refused by name."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ansorpy.errors import GraphError
from ansorpy.expr.dtypes import INTS
from ansorpy.graph.interp import run
from ansorpy.importers.model_file import read_model
from ansorpy.importers.onnx_file import graph_of_model
from ansorpy.importers.onnx_values import CODES


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int | str | None, ...]],
    outputs: list[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 23,
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """Return a model of float inputs, whose extents are numbers, names or unknown."""
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def relu(shape: tuple[int | str | None, ...], node: str = "act") -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"], name=node)], {"x": shape}, ["y"])


X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def test_shape_arithmetic_folds_and_the_model_computes() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "one", "two"], ["n"]),
        helper.make_node("Concat", ["n", "minus"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["r"]),
        helper.make_node("Identity", ["r"], ["i"]),
        helper.make_node("MatMul", ["i", "w"], ["y"]),
    ]  # fmt: skip
    weights = {
        "one": np.array([1]), "two": np.array([2]), "minus": np.array([-1]),
        "w": np.arange(8, dtype=np.float32).reshape(2, 4),
    }  # fmt: skip
    graph = graph_of_model(model(nodes, {"x": (2, 3)}, ["y"], weights))
    assert [node.op for node in graph.nodes] == ["Reshape", "MatMul"]
    np.testing.assert_allclose(run(graph, {"x": X})["y"], X.reshape(3, 2) @ weights["w"], rtol=1e-6)


def test_a_symbolic_extent_is_bound_by_name_or_by_a_shape() -> None:
    assert graph_of_model(relu(("n", 3)), {"n": 2}).values["x"].shape == (2, 3)
    assert graph_of_model(relu((None, 3)), {"x.0": 2}).values["x"].shape == (2, 3)
    assert graph_of_model(relu(("n", 3)), shapes={"x": (5, 3)}).values["x"].shape == (5, 3)


def test_a_symbolic_extent_that_is_left_over_is_refused_with_its_node() -> None:
    with pytest.raises(GraphError, match=r"node 'act' \(Relu\).*'n'.*--bind n=1"):
        graph_of_model(relu(("n", 3)))


@pytest.mark.parametrize(
    ("bind", "shapes", "text"),
    [
        ({"m": 1}, {}, "--bind m because the model has no such input or extent; expected.* n"),
        ({"n": -1}, {}, "extent -1 of input 'x'; expected a whole number from 0 on"),
        ({}, {"z": (2, 3)}, "--shape z"),
        ({}, {"x": (2, 4)}, r"shape \[2, 4\] because it is declared otherwise"),
    ],
)
def test_bindings_that_do_not_fit_are_refused(
    bind: dict[str, float], shapes: dict[str, tuple[int, ...]], text: str
) -> None:
    with pytest.raises(GraphError, match=text):
        graph_of_model(relu(("n", 3)), bind, shapes)


def test_a_branch_is_taken_by_a_scalar_input_that_is_bound() -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x", "x"], [f"{name}_out"])], name, [],
            [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)],
        )
        for name, op in (("then", "Add"), ("else", "Mul"))
    }  # fmt: skip
    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["c"]),
        helper.make_node("If", ["c"], ["y"], name="rate_switch", **branches),
    ]
    made = model(nodes, {"x": (2, 3)}, ["y"], {"rate": np.array(16000)})
    made.graph.input.append(helper.make_tensor_value_info("sr", TensorProto.INT64, ()))
    for rate, wanted in ((16000, X + X), (8000, X * X)):
        graph = graph_of_model(made, {"sr": rate})
        assert graph.inputs == ("x",)
        np.testing.assert_allclose(run(graph, {"x": X})["y"], wanted, rtol=1e-6)
    with pytest.raises(GraphError, match=r"'rate_switch' \(If\).*condition 'c'.*--bind sr=VALUE$"):
        graph_of_model(made)


def test_a_branch_that_no_scalar_input_decides_asks_for_no_binding() -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "b", [], [
        helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    ])  # fmt: skip
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "k"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    made = model(nodes, {"x": (2, 3)}, ["y"], {"k": np.array(0, "float32")})
    with pytest.raises(GraphError, match=r"condition 'c'.*depends on no scalar input"):
        graph_of_model(made)


def test_an_old_opset_is_converted() -> None:
    nodes = [helper.make_node("Unsqueeze", ["x"], ["y"], axes=[0])]
    graph = graph_of_model(model(nodes, {"x": (2, 3)}, ["y"], opset=9))
    assert graph.values["y"].shape == (1, 2, 3)


def test_an_operator_without_a_kernel_is_replaced_by_its_body() -> None:
    nodes = [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[1], name="mvn")]
    graph = graph_of_model(model(nodes, {"x": (2, 3)}, ["y"]))
    assert all(node.name.startswith("mvn/") for node in graph.nodes)
    wanted = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)
    np.testing.assert_allclose(run(graph, {"x": X})["y"], wanted, rtol=1e-5)


def test_a_function_of_the_model_is_inlined() -> None:
    body = helper.make_function(
        "own", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 23)],
    )  # fmt: skip
    made = model([helper.make_node("twice", ["x"], ["y"], domain="own")], {"x": (2, 3)}, ["y"])
    made.functions.append(body)
    made.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_allclose(run(graph_of_model(made), {"x": X})["y"], X + X)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (helper.make_node("Frob", ["x"], ["y"], name="n7"), r"node 'n7' \(Frob\).*no kernel"),
        (helper.make_node("Gelu", ["x"], ["y"], domain="com.x"), r"\(Gelu\).*domain is 'com.x'"),
        (helper.make_node("Relu", ["x"], ["y"], slope=1.0), r"\(Relu\).*attribute 'slope'"),
        (helper.make_node("Relu", ["q"], ["y"]), r"\(Relu\).*value 'q' is not defined"),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0]), r"\(Transpose\).*permutation"),
        (helper.make_node("Cast", ["x"], ["y"], to=8), r"attribute 'to'.*\(Cast\).*STRING"),
    ],
)
def test_a_node_that_cannot_be_compiled_is_named(node: onnx.NodeProto, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        graph_of_model(model([node], {"x": (2, 3)}, ["y"]))


def test_external_data_is_mapped_from_the_folder_of_the_model(tmp_path: Path) -> None:
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (2, 3)}, ["y"], {"w": X})
    onnx.save_model(
        made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    graph = read_model(tmp_path / "m.onnx")
    np.testing.assert_allclose(run(graph, {"x": X})["y"], X + X)
    (tmp_path / "inner").mkdir()
    (tmp_path / "m.onnx").rename(tmp_path / "inner" / "m.onnx")
    (tmp_path / "inner" / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(GraphError, match=r"'w.bin' of initializer 'w'.*no file below"):
        read_model(tmp_path / "inner" / "m.onnx")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"not a model at all")
    with pytest.raises(GraphError, match="expected an ONNX model"):
        read_model(tmp_path / "m.onnx")


@pytest.mark.parametrize("dtype", INTS)
def test_integers_of_every_dtype_are_imported(dtype: str) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["m"]),
        helper.make_node("Sign", ["m"], ["s"]),
        helper.make_node("Sub", ["m", "s"], ["y"]),
    ]
    info = np.iinfo(dtype)
    x, w = np.array([info.min, 0, 1, info.max], dtype), np.array([3], dtype)
    graph = graph_of_model(model(nodes, {"x": (4,)}, ["y"], {"w": w}, kind=CODES[dtype]))
    with np.errstate(over="ignore"):
        expected = x * w - np.sign(x * w)
    found = run(graph, {"x": x})["y"]
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, expected)
