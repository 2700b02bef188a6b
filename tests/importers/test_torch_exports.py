"""Stored exports of torch modules compute the results of the modules.

`tests/torch/exports.py` wrote them, and `tests/torch/test_torch_program.py` compares them.
"""

from pathlib import Path

import numpy as np
import pytest

import ansorpy
from ansorpy.errors import GraphError
from ansorpy.graph.interp import run
from ansorpy.importers import torch_program
from ansorpy.importers.onnx_file import graph_of_file
from tests.torch.exports import FOLDER

EXPORTS = sorted(FOLDER.glob("*.onnx"))


def test_there_are_exports() -> None:
    assert len(EXPORTS) >= 3


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.stem)
def test_a_stored_export_computes_the_stored_result(path: Path) -> None:
    graph = graph_of_file(path)
    with np.load(path.with_suffix(".npz")) as stored:
        inputs = {name: stored[f"x{i}"] for i, name in enumerate(graph.inputs)}
        (result,) = run(graph, inputs).values()
        np.testing.assert_allclose(result, stored["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("absent", ["torch", "onnxscript"])
def test_an_absent_package_is_named(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    present = {"torch", "onnxscript", "onnx"} - {absent}
    monkeypatch.setattr(torch_program, "find_spec", lambda name: name in present or None)
    message = rf"package {absent} is not installed; expected pip install 'ansorpy\[torch\]'"
    with pytest.raises(GraphError, match=message):
        ansorpy.compile(object(), ())
