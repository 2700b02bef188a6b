"""A model file is simplified, compared with the original and written, or refused."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from typer.testing import CliRunner, Result

from ansorpy import te
from ansorpy.errors import GraphError
from ansorpy.graph.graph import Graph
from ansorpy.graph.passes import Pass
from ansorpy.graph.passes.rewriter import Rewritten
from ansorpy.importers import onnx_write
from ansorpy.importers.model_file import read_model
from ansorpy.importers.onnx_run import reference_run
from ansorpy.model import simplify as module
from ansorpy.model.simplify import simplify_file
from ansorpy.server.cli import app
from ansorpy.te.dims import plain
from tests.importers.test_dims import BERT

X = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Return a file: Conv, BatchNormalization, a spelt-out SiLU and dead nodes, opset 15."""
    rng = np.random.default_rng(1)
    weights = {
        "w": rng.standard_normal((4, 3, 3, 3)), "scale": rng.uniform(0.5, 2, 4),
        "shift": rng.standard_normal(4), "mean": rng.standard_normal(4),
        "variance": rng.uniform(0.5, 2, 4),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"]),
        helper.make_node("Exp", ["b"], ["dead"]),
        helper.make_node("Sigmoid", ["b"], ["c"]),
        helper.make_node("Mul", ["b", "c"], ["d"]),
        helper.make_node("Identity", ["d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3, 6, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(one.astype(np.float32), name) for name, one in weights.items()],
    )  # fmt: skip
    path = tmp_path / "network.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]), path)
    return path


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["simplify", *map(str, arguments)])


@pytest.mark.parametrize("sizes", [{"batch": 1, "length": 2}, {"batch": 2, "length": 5}])
def test_a_model_with_ranges_is_right_at_other_sizes(
    tmp_path: Path, sizes: Mapping[str, int]
) -> None:
    source, out = tmp_path / "encoder.onnx", tmp_path / "small.onnx"
    save(BERT, source)
    found = command(source, out, "--bind", "batch=1..3", "--bind", "length=2..9")
    assert (found.exit_code, found.stderr) == (0, "")
    rng, shape = np.random.default_rng(2), (sizes["batch"], sizes["length"])
    inputs = {"ids": rng.integers(0, 20, shape), "mask": rng.integers(0, 2, shape)}
    for name, old in reference_run(source, inputs).items():
        assert np.allclose(reference_run(out, inputs)[name], old, atol=1e-5)
    dims = {
        name: te.dim(name, low, high) for name, low, high in (("batch", 1, 3), ("length", 2, 9))
    }
    graph = read_model(out, dims)
    assert graph.dims == tuple(map(plain, dims.values())), "it can be tuned for ranges again"
    fixed = read_model(out, sizes)
    assert [fixed.values[name].shape for name in fixed.inputs] == [shape, shape]


def test_the_comparison_has_other_sizes_than_the_largest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "encoder.onnx", tmp_path / "small.onnx"
    save(BERT, source)
    monkeypatch.setattr(onnx_write._Writer, "_size", lambda on, dim: on._integers([dim.high], "s"))
    dims = {"batch": te.dim("batch", 1, 3), "length": te.dim("length", 2, 9)}
    with pytest.raises(GraphError, match="9 elements become 27"):
        simplify_file(source, out, dims)
    assert not out.exists()


def test_the_command_shows_operators_and_passes_and_writes_the_model(network: Path) -> None:
    out = network.with_name("small.onnx")
    found = command(network, out, "--bind", "n=1")
    assert (found.exit_code, found.stderr) == (0, "")
    rows = found.stdout.splitlines()
    assert "all                      6      3" in rows
    assert "BatchNormalization       1      0" in rows
    assert "pass batch_norm: 1 sites, 4 -> 3 nodes" in rows
    assert "pass activations: 1 sites, 3 -> 2 nodes" in rows
    assert rows[-1].startswith("largest difference on random inputs: ")
    assert rows[-1].endswith(" of an output, by onnx.reference")
    old, new = (reference_run(path, {"x": X})["y"] for path in (network, out))
    np.testing.assert_allclose(new, old, rtol=0, atol=2e-5 * np.max(np.abs(old)))
    assert sorted(path.name for path in network.parent.iterdir()) == ["network.onnx", "small.onnx"]


def test_the_command_prints_one_object(network: Path) -> None:
    found = command(network, network.with_name("s.onnx"), "--shape", "x=2,3,6,6", "--json")
    made = json.loads(found.stdout)
    assert made["before"]["BatchNormalization"] == 1
    assert made["after"] == {"Conv": 1, "Sigmoid": 1, "Mul": 1}
    assert [one["pass"] for one in made["fired"]] == ["dead", "batch_norm", "activations"]
    assert made["compared_by"] == "onnx.reference"
    assert 0 <= made["error"] <= 2e-5


def test_exact_leaves_out_passes_that_change_roundings(network: Path) -> None:
    made = simplify_file(network, network.with_name("s.onnx"), {"n": 1}, exact=True)
    assert made.after["BatchNormalization"] == 1
    assert made.comparison.error == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["network.onnx", "network.onnx", "--bind", "n=1"], "because it is the input; expected"),
        (["network.onnx", "s.onnx"], "--bind n=1"),
        (["network.onnx", "s.onnx", "--bind", "m=1"], "cannot use --bind m because"),
        (["network.onnx", "s.onnx", "--shape", "x=1,a"], "expected NAME=1,3,224,224"),
        (["network.onnx", "s.onnx", "--shape", "1,3"], "expected NAME=1,3,224,224"),
        (["text.onnx", "s.onnx"], "expected an ONNX model"),
        (["absent.onnx", "s.onnx"], "cannot read"),
        (["network.onnx", "no/folder/s.onnx", "--bind", "n=1"], "expected a writable folder"),
    ],
)
def test_wrong_input_is_told_in_one_line(
    network: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(network.parent)
    network.with_name("text.onnx").write_text("this is no model")
    before = network.read_bytes()
    found = command(*arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert network.read_bytes() == before
    assert not network.with_name("s.onnx").exists()


def test_a_model_that_differs_is_not_written(
    network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def negated(graph: Graph) -> Rewritten:
        """Replace Sigmoid by Neg, as a pass with a defect would."""
        nodes = tuple(replace(one, op="Neg") if one.op == "Sigmoid" else one for one in graph.nodes)
        return Rewritten(replace(graph, nodes=nodes), int(nodes != graph.nodes))

    monkeypatch.setattr(module, "PASSES", (Pass("negated", negated),))
    out = network.with_name("small.onnx")
    with pytest.raises(GraphError, match="an output of the simplified model differs by"):
        simplify_file(network, out, {"n": 1})
    assert [path.name for path in network.parent.iterdir()] == ["network.onnx"]


def test_an_operator_without_a_kernel_stays(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Abs", ["a"], ["b"]),
        helper.make_node("TopK", ["b", "k"], ["y", ""], axis=1),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 5))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([2]), "k")],
    )  # fmt: skip
    path = tmp_path / "top.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]), path)
    made = simplify_file(path, path.with_name("small.onnx"))
    assert made.after == {"Abs": 1, "TopK": 1}
