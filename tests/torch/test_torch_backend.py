"""`torch.compile(model, backend="ansorpy")`: results, fallbacks, strict errors."""

import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from ansorpy.model.events import BundleWritten  # noqa: E402
from ansorpy.model.torch_backend import EagerWarning  # noqa: E402
from tests.torch.modules import MODULES, made  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the graphs of earlier tests; keep records apart from the user's."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def compiled(module: Any, **options: Any) -> Any:
    return torch.compile(module, backend="ansorpy", options=options)


def test_torch_knows_the_backend() -> None:
    assert "ansorpy" in torch._dynamo.list_backends()


@pytest.mark.parametrize("name", MODULES)
def test_a_model_is_compiled_whole(name: str) -> None:
    module, args = made(name)
    model = torch.compile(module, backend="ansorpy", fullgraph=True, options={"strict": True})
    for given in (args, tuple(torch.randn_like(arg) for arg in args)):
        torch.testing.assert_close(model(*given), module(*given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("within", [True, False])
def test_inference_mode_is_no_obstacle(within: bool) -> None:
    """Also for a module that was made in it: its parameters have no version counter."""
    with torch.inference_mode(within):
        module, (x,) = made("perceptron")
    model = compiled(module, strict=True)
    with torch.inference_mode():
        for given in (x, x + 1):
            torch.testing.assert_close(model(given), module(given), rtol=1e-4, atol=1e-5)


class Foreign(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.special.airy_ai(x) + 1


class Broken(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return y * 2


FALLBACKS: dict[str, tuple[Any, str]] = {
    "operator": (Foreign(), "does not translate operator 'aten.special_airy_ai.default'"),
    "break": (Broken(), "torch.compile cannot trace .*test_torch_backend.py:"),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_a_fallback_to_eager_torch_is_told(name: str) -> None:
    module, message = FALLBACKS[name]
    x = torch.randn(3, 4)
    with pytest.warns(EagerWarning, match=message):
        result = compiled(module)(x)
    torch.testing.assert_close(result, module(x))


@pytest.mark.parametrize("name", FALLBACKS)
def test_a_fallback_is_an_error_if_strict(name: str) -> None:
    module, message = FALLBACKS[name]
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=message):
        compiled(module, strict=True)(torch.randn(3, 4))


class Mixed(torch.nn.Module):  # type: ignore[misc]
    """Layers around two operators without a kernel, one of which has two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.relu, self.norm = torch.nn.ReLU(inplace=True), torch.nn.BatchNorm1d(8)

    def forward(self, x: Any) -> Any:
        y = torch.special.airy_ai(self.relu(self.first(x)))
        mantissa, exponent = torch.frexp(y)
        return self.norm(self.relu(self.last(mantissa))) + 1, exponent


def test_the_parts_around_an_unsupported_operator_are_compiled() -> None:
    module, events = Mixed().eval(), list[object]()
    model = compiled(module, on_event=events.append)
    with pytest.warns(EagerWarning) as told:
        model(torch.randn(4, 8))
    warned = [str(one.message) for one in told if one.category is EagerWarning]
    assert len(warned) == 2
    assert "'aten.special_airy_ai.default'" in warned[0]
    assert "'prims.frexp.default'" in warned[1]
    assert sum(isinstance(event, BundleWritten) for event in events) == 2
    x = torch.randn(4, 8)
    for one, wanted in zip(model(x), module(x), strict=True):
        torch.testing.assert_close(one, wanted)


def test_a_graph_that_records_gradients_runs_in_eager_torch() -> None:
    module, (x,) = made("perceptron")
    with torch.enable_grad(), pytest.warns(EagerWarning, match="requires a gradient"):
        compiled(module)(x).sum().backward()
    assert module[0].weight.grad is not None


def test_a_parameter_that_changes_is_not_ignored() -> None:
    module, (x,) = made("perceptron")
    model = compiled(module)
    before = model(x)
    module[0].weight.mul_(2)
    with pytest.warns(EagerWarning, match="a parameter was replaced or written to"):
        after = model(x)
    torch.testing.assert_close(after, module(x))
    assert not torch.allclose(before, after)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # told once
        torch.testing.assert_close(model(x), module(x))


def test_the_compilation_of_a_graph_is_told_in_two_lines(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    module, (x,) = made("perceptron")
    with caplog.at_level(logging.INFO, "ansorpy.model.torch_backend"):
        compiled(module, progress=True)(x)
    (line,) = caplog.messages
    assert re.match(r"compiled in \d+\.\d s: <compiled module \w+\(", line)
    first, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"ansorpy: compiling a graph of \d+ nodes: \d tasks for \d threads?", first)
    known = r"\d of \d tasks from the records, no trial"
    assert re.fullmatch(rf"ansorpy: compiled the graph in \d+\.\d s: {known}", last)
    torch._dynamo.reset()
    compiled(module)(x)
    assert capsys.readouterr().err == ""  # no terminal


def test_other_extents_are_compiled_when_they_occur() -> None:
    module, _ = made("perceptron")
    model = compiled(module, strict=True)
    for rows in (4, 5, 6, 5):
        x = torch.randn(rows, 48)
        torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-5)


def test_an_unknown_option_is_refused() -> None:
    module, args = made("perceptron")
    with pytest.raises(Exception, match=r"cannot compile with these options because .*'trails'"):
        compiled(module, trails=3)(*args)
