"""Models to try: each computes the same in ONNX Runtime and in our graph."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from typer.testing import CliRunner, Result

from ansorpy.graph.interp import run
from ansorpy.importers.model_file import read_model
from ansorpy.model.examples import EXAMPLES
from ansorpy.server.cli import app


def example(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["example", *arguments])


def test_the_list_names_each() -> None:
    told = example().stdout
    for name, one in EXAMPLES.items():
        assert f"{name} " in told
        assert one.about in told


@pytest.mark.parametrize("name", EXAMPLES)
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


def test_an_unknown_name_and_an_unwritable_file_are_told(tmp_path: Path) -> None:
    found = example("resnet")
    assert found.exit_code == 2
    assert found.stderr == (
        "ansorpy: cannot write example resnet because it is unknown; expected encoder, squeezenet\n"
    )
    assert example("squeezenet", "--out", str(tmp_path / "no" / "x.onnx")).exit_code == 2
