"""`ansorpy tune model.onnx` and `ansorpy explain model.onnx`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from ansorpy.bundle.load import load_model
from ansorpy.model.events import BundleWritten
from ansorpy.server.cli import app


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSORPY_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A product with a weight and an activation; the batch is symbolic."""
    w = np.random.default_rng(0).uniform(-1, 1, (16, 8)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["x", "w"], ["m"], "product"),
            onnx.helper.make_node("Relu", ["m"], ["y"], "activation"),
        ],
        "small",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 16])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 8])],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    path = tmp_path / "small.onnx"
    onnx.save_model(onnx.helper.make_model(graph), path)
    return path


def test_a_model_file_becomes_a_bundle_of_the_given_name(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "made.zip"
    asked = ["tune", str(model), "--trials", "0", "--bind", "batch=4", "--out", str(out), "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["bundle"] == str(out)
    assert told["error"] <= told["bound"]
    assert len(told["tasks"]) == 1
    assert f"{out} written" in done.stderr
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    (w,) = onnx.load_model(model).graph.initializer
    with load_model(out) as loaded:
        found = loaded(x)
    expected = np.maximum(x @ onnx.numpy_helper.to_array(w), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_value_of_a_bound_scalar_goes_to_other_runtimes(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
            onnx.helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0]),  # a pass removes both
            onnx.helper.make_node("Mul", ["u", "scale"], ["y"]),
        ],
        "scaled",
        [value("x", onnx.TensorProto.FLOAT, [4, 16]), value("scale", onnx.TensorProto.FLOAT, [])],
        [value("y", onnx.TensorProto.FLOAT, [4, 16])],
    )
    path, out = tmp_path / "scaled.onnx", tmp_path / "scaled.zip"
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    asked = ["tune", str(path), "--trials", "0", "--bind", "scale=3", "--out", str(out), "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["reference"].startswith("ONNX Runtime ")
    with load_model(out) as loaded:
        assert {name: float(array) for name, array in loaded.bound().items()} == {"scale": 3.0}
        assert [one.name for one in loaded.inputs] == ["x"]
    asked = ["bench", str(out), "--model", str(path), "--against", "ort", "--seconds", "0.1"]
    done = CliRunner().invoke(app, [*asked, "--json"])
    assert done.exit_code == 0, done.stderr
    _, ort = json.loads(done.stdout)["runtimes"]
    assert ort["failed"] is None
    assert ort["difference"] == 0


def test_a_shape_binds_symbolic_extents(model: Path) -> None:
    done = CliRunner().invoke(app, ["explain", str(model), "--shape", "x=2,16"])
    assert done.exit_code == 0, done.stderr
    assert "float32[2, 8], task t0" in done.stdout
    assert "ended: it is a result of the model" in done.stdout


@pytest.mark.parametrize(
    ("symbol", "name"), [("batch", "batch"), ("2nd-axis", "_2nd_axis"), ("", "x_0")]
)
def test_a_range_leaves_an_extent_to_each_call(model: Path, symbol: str, name: str) -> None:
    changed = onnx.load_model(model)
    for value in (*changed.graph.input, *changed.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = symbol
    onnx.save_model(changed, model)
    done = CliRunner().invoke(app, ["explain", str(model), "--bind", f"{symbol or 'x.0'}=1..6"])
    assert done.exit_code == 0, done.stderr
    assert f"\neach call decides {name} in 1..6\n" in done.stdout
    assert f"float32[{name}, 8], task t0" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "x=2;16"], "cannot read --shape x=2;16 because of its form; expected"),
        (["--bind", "batch=nan"], "cannot bind 'batch' to 'nan' because of its form"),
        (["--bind", "batch"], "cannot read --bind batch because of its form; expected NAME=512,"),
        (["--bind", "batch=1.."], "cannot read --bind batch=1.. because of its form; expected"),
        (["--bind", "batch=4..2"], "cannot take the range 4..2 of dim batch because it is empty"),
        (["--bind", "x=1..2"], "cannot bind input 'x' to x in 1..2 because it is a value"),
        (
            [],
            "is symbolic; expected a number: bind it, as in --bind batch=1, or a range, as in"
            " --bind batch=1..8",
        ),
        (["--bind", "rows=3"], "cannot use --bind rows because the model has no such input"),
    ],
)
def test_a_mistake_of_the_user_gives_one_line_and_exit_code_2(
    model: Path, arguments: list[str], message: str
) -> None:
    done = CliRunner().invoke(app, ["tune", str(model), "--trials", "0", *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_absent_file_and_a_file_that_is_no_model_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["tune", str(tmp_path / "no.onnx")])
    assert done.exit_code == 2
    assert "No such file or directory; expected an ONNX model" in done.stderr
    (tmp_path / "text.onnx").write_text("def mm")
    done = CliRunner().invoke(app, ["tune", str(tmp_path / "text.onnx")])
    assert done.exit_code == 2
    assert "cannot read" in done.stderr


def test_a_graph_is_tuned_without_weights_and_joined_at_home(model: Path, tmp_path: Path) -> None:
    def do(*asked: str) -> str:
        done = CliRunner().invoke(app, asked)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    document, bare, out = (tmp_path / name for name in ("m.graph.json", "bare.zip", "made.zip"))
    told = json.loads(do("simplify", str(model), str(document), "--bind", "batch=4", "--json"))
    assert (told["absent_weights"], told["absent_bytes"]) == (1, 4 * 16 * 8)
    assert told["size_bytes"] == document.stat().st_size
    assert "1 weights of 512 bytes stay here" in do(
        "simplify", str(model), str(document), "--bind", "batch=4"
    )
    do("tune", str(document), "--trials", "0", "--out", str(bare))
    refused = CliRunner().invoke(app, ["run", str(bare)])
    assert refused.exit_code == 2
    assert "cannot load bare.zip because it has no weights" in refused.stderr
    told = json.loads(
        do("join", str(bare), str(model), "--bind", "batch=4", "--out", str(out), "--json")
    )
    assert told["error"] <= told["bound"]
    do("run", str(out))
    other = CliRunner().invoke(
        app, ["join", str(bare), str(model), "--bind", "batch=5", "--out", str(tmp_path / "no.zip")]
    )
    assert other.exit_code == 2
    assert "input 0 ('x')" in other.stderr
    assert not (tmp_path / "no.zip").exists()


def test_a_document_is_written_after_all_passes(model: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["simplify", str(model), str(tmp_path / "m.graph.json"), "--exact"]
    )
    assert done.exit_code == 2
    assert "with --exact because `ansorpy join` runs all passes" in done.stderr


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (
            "ansorpy.tuner.options.targets.named_target",
            "interrupted before the search: nothing was written",
        ),
        ("ansorpy.model.api.read_model", "interrupted: no bundle was written"),
    ],
)
def test_an_interrupt_before_the_first_bundle_tells_that_nothing_is_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, told: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    asked = ["tune", str(model), "--bind", "batch=4", "--out", str(tmp_path / "made.zip")]
    done = CliRunner().invoke(app, asked)
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", f"ansorpy: {told}\n")


def test_a_second_interrupt_names_the_bundle_so_far(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "made.zip"

    def follow(_: Any, report: Callable[[BundleWritten], None]) -> None:
        report(BundleWritten(out, 1e-3, 1e-7, 2e-5, "the interpreter of graphs", 1.0))
        raise KeyboardInterrupt

    monkeypatch.setattr("ansorpy.tuner.interrupts.follow", follow)
    asked = ["tune", str(model), "--bind", "batch=4", "--out", str(out)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 130
    assert done.stderr.endswith(f"ansorpy: interrupted: {out} is the best bundle so far\n")
