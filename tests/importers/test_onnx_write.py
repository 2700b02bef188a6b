"""Graphs are written as ONNX models that compute the same, by our reader and by onnx.reference."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from ansorpy.errors import GraphError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.interp import run
from ansorpy.graph.passes import simplify
from ansorpy.importers.onnx_file import graph_of_model
from ansorpy.importers.onnx_run import reference_run
from ansorpy.importers.onnx_write import model_of_graph, operator_counts, write_model
from tests.graph.passes.common import assert_same_bits, built
from tests.graph.random_graph import random_graph, random_inputs


@pytest.mark.parametrize("seed", range(200, 215))
def test_a_random_graph_is_written_and_read_back(seed: int) -> None:
    graph = random_graph(seed)
    again = graph_of_model(model_of_graph(graph))
    assert_same_bits(graph, again, seed)


@pytest.mark.parametrize("seed", range(215, 225))
def test_the_reference_of_onnx_computes_a_written_graph(seed: int, tmp_path: Path) -> None:
    graph = simplify(random_graph(seed, dtype="float64")).graph
    path = tmp_path / "model.onnx"
    write_model(graph, path)
    inputs = random_inputs(graph, seed)
    found = reference_run(path, inputs)
    for name, expected in run(graph, inputs).items():
        largest = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=2.0**-20 * largest)


def test_outputs_keep_their_names_beside_values_of_the_same_name() -> None:
    def make(on: GraphBuilder) -> list[str]:
        on.add("Relu", ["x"], ["y1"])
        on.add("Neg", ["y1"], ["y0"])
        return ["y1", "y0", "y1", "x"]

    graph = built(make)
    model = model_of_graph(graph)
    assert [one.name for one in model.graph.output] == ["y0", "y1", "y2", "y3"]
    assert [node.op_type for node in model.graph.node] == ["Relu", "Neg", "Identity", "Identity"]
    assert_same_bits(graph, graph_of_model(model))


def test_swish_is_written_by_operators_of_opset_23(tmp_path: Path) -> None:
    graph = built(lambda on: on.add("Swish", ["x"], ["a"], {"alpha": 1.5}, "act")[0])
    path = tmp_path / "model.onnx"
    write_model(graph, path)
    assert operator_counts(path) == {"Mul": 2, "Sigmoid": 1}
    names = [node.name for node in onnx.load_model(path).graph.node]
    assert names == ["act", "act:2", "act:3"]
    x = random_inputs(graph, 0)
    np.testing.assert_allclose(reference_run(path, x)["y0"], run(graph, x)["y0"], rtol=1e-5)


def test_attributes_of_older_opsets_are_written_as_inputs() -> None:
    def make(on: GraphBuilder) -> list[str]:
        on.add("Unsqueeze", ["x"], ["a"], {"axes": (0,)})
        on.add("Clip", ["a"], ["b"], {"min": -0.5, "max": 0.25})
        on.add("Slice", ["b"], ["c"], {"starts": (1,), "ends": (3,), "axes": (3,)})
        on.add("Pad", ["c"], ["d"], {"pads": (0, 0, 1, 0, 0, 0, 0, 0), "value": 2.0})
        return ["d"]

    graph = built(make)
    model = model_of_graph(graph)
    assert all(not node.attribute for node in model.graph.node)
    assert_same_bits(graph, graph_of_model(model))


def test_weights_without_values_are_refused() -> None:
    def make(on: GraphBuilder) -> str:
        on.constant("w", np.ones(4, np.float32))
        return on.add("Add", ["x", "w"], ["a"])[0]

    graph = built(make)
    away = replace(graph.weights["w"], load=None)
    with pytest.raises(GraphError, match="its values are not here"):
        model_of_graph(replace(graph, weights={"w": away}))


def test_a_model_that_the_reference_cannot_run_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    write_model(built(lambda on: on.add("Relu", ["x"], ["a"])[0]), path)
    with pytest.raises(GraphError, match=r"cannot run model\.onnx because onnx\.reference says"):
        reference_run(path, {})
