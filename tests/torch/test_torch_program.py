"""Modules of PyTorch become graphs of the same results; refusals name operator and reason."""

from typing import Any

import numpy as np
import onnx
import pytest

from ansorpy.errors import GraphError
from ansorpy.graph.interp import run

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from ansorpy.importers.torch_program import KEPT_ELEMENTS, export_module, graph_of_program  # noqa: E402
from tests.torch.exports import FOLDER, exported  # noqa: E402
from tests.torch.modules import MODULES, TwoResults, made  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:.torch.jit", "ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("name", MODULES)
def test_a_graph_computes_the_result_of_its_module(name: str) -> None:
    module, args = made(name)
    graph = graph_of_program(export_module(module, args))
    arrays = {one: arg.numpy() for one, arg in zip(graph.inputs, args, strict=True)}
    (result,) = run(graph, arrays).values()
    wanted = module(*args).detach().numpy()
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_large_parameters_are_weights_in_place() -> None:
    module, args = made("perceptron")
    graph = graph_of_program(export_module(module, args))
    places = {weight.array.ctypes.data for weight in graph.weights.values()}
    assert module[0].weight.numel() > KEPT_ELEMENTS
    assert module[0].weight.data_ptr() in places


def test_constants_are_left_out_of_the_graph() -> None:
    x, scale = torch.randn(3, 4), torch.randn(4)
    graph = graph_of_program(export_module(TwoResults(), (x, 2), {"scale": scale}))
    assert len(graph.inputs) == 2
    arrays = map(np.asarray, (x, scale))
    found = list(run(graph, dict(zip(graph.inputs, arrays, strict=True))).values())
    for one, two in zip(found, [x * scale, x**2, scale], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


class Branch(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


class Writer(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x.add_(1)


class Foreign(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.special.airy_ai(x)


class Unique(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.unique(x)


REFUSED = {
    "branch": (Branch(), "cannot export Branch because"),
    "training": (torch.nn.BatchNorm1d(4), "because it writes to .*; expected a module in evalua"),
    "writer": (Writer(), "cannot compile Writer because it writes to 'x'"),
    "foreign": (
        Foreign(),
        "because torch.onnx does not translate operator 'aten.special_airy_ai.default'; exp",
    ),
    "unique": (
        Unique(),
        r"cannot compile node .* \(Unique\) because operator .Unique. has no kernel",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_that_cannot_be_compiled_is_refused(name: str) -> None:
    module, message = REFUSED[name]
    with pytest.raises(GraphError, match=message):
        graph_of_program(export_module(module, (torch.randn(3, 4),)))


@pytest.mark.parametrize("name", MODULES)
def test_the_stored_export_has_the_operators_of_a_new_one(name: str) -> None:
    """`python -m tests.torch.exports` renews the files."""
    stored = onnx.load(str(FOLDER / f"{name}.onnx"))
    assert operators(stored) == operators(exported(name))


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]
