"""Models to try: each computes the same in ONNX Runtime and in our graph."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from ansorpy.graph.interp import run
from ansorpy.importers.model_file import read_model
from ansorpy.model import examples
from ansorpy.model.examples import EXAMPLES, SILERO, SILERO_SHAPES
from ansorpy.server.cli import app

BUILT = ("encoder", "squeezenet")
ABSENT = (
    "ansorpy: cannot take a model out of package silero-vad because it is not installed; expected"
    " pip install --no-deps silero-vad\n"
)


def example(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["example", *arguments])


def test_the_list_names_each_with_its_source() -> None:
    told = example().stdout
    for name, one in EXAMPLES.items():
        assert f"{name} " in told
        assert one.about in told
        assert one.source in told


@pytest.mark.parametrize("name", BUILT)
def test_a_built_model_computes_in_both(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    found = example(name, "--out", str(path))
    assert found.exit_code == 0
    assert found.stdout.splitlines()[-1] == f"next: ansorpy tune {path} --out {tmp_path / name}.zip"
    onnx.checker.check_model(onnx.load(str(path)))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    x = np.random.default_rng(0).standard_normal(given.shape).astype(np.float32)
    (expected,) = session.run(None, {given.name: x})
    (result,) = run(read_model(path), {given.name: x}).values()
    assert expected.std() > 1e-3
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


def test_the_encoder_has_the_size_of_minilm() -> None:
    model = EXAMPLES["encoder"].make()
    values = sum(np.prod(one.dims) for one in model.graph.initializer)
    assert 10.6e6 < values < 10.7e6  # MiniLM has 10.65 million beside its embeddings


def test_weights_are_the_same_each_time() -> None:
    first, second = (EXAMPLES["squeezenet"].make() for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()


def voice() -> onnx.ModelProto:
    """Return a model with the inputs of silero_vad, of open extents."""
    rows = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", "samples"])
    state = helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, "batch", 128])
    rate = helper.make_tensor_value_info("sr", TensorProto.INT64, [])
    out = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", "samples"])
    after = helper.make_tensor_value_info("stateN", TensorProto.FLOAT, [2, "batch", 128])
    nodes = [
        helper.make_node("Cast", ["sr"], ["hertz"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["input", "hertz"], ["output"]),
        helper.make_node("Neg", ["state"], ["stateN"]),
    ]
    graph = helper.make_graph(nodes, "voice", [rows, state, rate], [out, after])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_silero_vad_comes_out_of_the_package_with_fixed_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / SILERO
    wheel.parent.mkdir(parents=True)
    onnx.save(voice(), str(wheel))
    (tmp_path / "silero_vad-6.dist-info").mkdir()
    (tmp_path / "silero_vad-6.dist-info" / "METADATA").write_text("Name: silero-vad\nVersion: 6\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "voice.onnx"
    assert example("silero_vad", "--out", str(path)).exit_code == 0
    graph = read_model(path)
    found = {name: graph.values[name].shape for name in graph.inputs}
    assert found == SILERO_SHAPES
    x = {name: np.ones(shape, np.float32) for name, shape in SILERO_SHAPES.items()}
    np.testing.assert_allclose(run(graph, x)["output"], 1 / examples.SAMPLE_RATE)


def test_without_the_package_the_line_that_installs_it_is_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(examples, "SILERO", "silero_vad/data/absent.onnx")
    found = example("silero_vad", "--out", str(tmp_path / "s.onnx"))
    assert (found.exit_code, found.stderr) == (2, ABSENT)
    assert not list(tmp_path.iterdir())


def test_an_unknown_name_and_an_unwritable_file_are_told(tmp_path: Path) -> None:
    found = example("resnet")
    assert found.exit_code == 2
    assert found.stderr == (
        "ansorpy: cannot write example resnet because it is unknown; expected encoder, silero_vad,"
        " squeezenet\n"
    )
    assert example("squeezenet", "--out", str(tmp_path / "no" / "x.onnx")).exit_code == 2
