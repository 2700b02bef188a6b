"""Modules of PyTorch with sizes that calls decide: one compilation, right at every size."""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import ansorpy
from ansorpy import te
from ansorpy.errors import GraphError
from ansorpy.records import MemoryStore
from ansorpy.te.dims import Dim

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from ansorpy.importers.torch_program import dims_of_program, export_module  # noqa: E402
from ansorpy.model.events import BundleWritten  # noqa: E402
from ansorpy.model.torch_backend import SizesWarning  # noqa: E402
from ansorpy.model.torch_sizes import GraphSizes  # noqa: E402
from tests.torch.modules import made  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]

BATCH = {"input": {0: torch.export.Dim("batch", min=1, max=12)}}


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the graphs of earlier tests; keep records apart from the user's."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def assert_right(model: Callable[..., Any], module: Any, shapes: Sequence[Sequence[int]]) -> None:
    for shape in shapes:
        x = torch.randn(shape)
        torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-5)


def test_a_compiled_module_is_right_at_each_size_of_its_range(tmp_path: Path) -> None:
    module, (x,) = made("perceptron")
    out = tmp_path / "mlp.zip"
    model = ansorpy.compile(module, x, dynamic_shapes=BATCH, trials=0, store=MemoryStore(), out=out)
    assert "input: float32[batch in 1..12, 48]) -> float32[batch in 1..12, 10]" in repr(model)
    for one in (model, ansorpy.load(out)):
        assert_right(one, module, [(rows, 48) for rows in range(1, 13)])
    with pytest.raises(ValueError, match=r"\[13, 48\]; expected \[batch in 1\.\.12, 48\]"):
        model(torch.randn(13, 48))


def test_an_exported_program_keeps_its_ranges_and_takes_weights() -> None:
    module, (x,) = made("perceptron")
    program = torch.export.export(module, (x,), dynamic_shapes=BATCH)
    likely = te.dim("rows", 2, 8, weights={2: 0.9, "3..8": 0.1})
    result = ansorpy.tune(program, bind={"input_0": likely}, trials=0, store=MemoryStore())
    model = ansorpy.load(result.bundle)
    assert [(one.name, one.low, one.high) for one in model.dims] == [("rows", 2, 8)]
    assert model.timed_weights
    assert_right(model, module, [(rows, 48) for rows in range(2, 9)])


def exported(spec: Any) -> Any:
    module, (x,) = made("perceptron")
    return export_module(module, x, None, spec)


def test_dims_have_the_names_and_ranges_of_an_export() -> None:
    dim = torch.export.Dim("rows", min=3, max=7)
    for spec in ({"input": {0: dim}}, ({0: dim},), [(dim, None)]):
        (found,) = dims_of_program(exported(spec), None, spec).values()
        assert found == Dim("rows", 3, 7)
    (found,) = dims_of_program(exported(({0: dim},))).values()
    assert found == Dim("input_0", 3, 7)
    spec = ({0: torch.export.Dim("rows")},)
    (found,) = dims_of_program(exported(spec), {"rows": te.dim("rows", 1, 4)}, spec).values()
    assert found == Dim("rows", 1, 4)
    assert list(dims_of_program(exported(spec), {"rows": 5}, spec).values()) == [5]


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no end": (
        ({0: torch.export.Dim("rows")},), {},
        "cannot keep rows as a dim because it has no largest size; expected torch.export.Dim('rows'"
        ", max=128), or bind={'rows': te.dim('rows', 1, 128)}",
    ),
    "range": (
        BATCH, {"batch": te.dim("batch", 1, 13)},
        "cannot bind batch to batch in 1..13 because the module was exported for 1..12; expected",
    ),
    "name": (BATCH, {"rows": 3}, "cannot bind 'rows' because the module has no such extent;"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_range_that_is_none_is_refused(name: str) -> None:
    spec, bind, message = REFUSED[name]
    with pytest.raises(GraphError, match=re.escape(message)):
        dims_of_program(exported(spec), bind, spec)


def dynamic(module: Any, **options: Any) -> tuple[Any, Callable[[], int]]:
    """Return a module compiled with `dynamic=True`, and the number of compilations."""
    events: list[object] = []
    options = {"strict": True, "kernels_per_dim": 1, "on_event": events.append, **options}
    model = torch.compile(module, dynamic=True, backend="ansorpy", options=options)
    return model, lambda: sum(isinstance(event, BundleWritten) for event in events)


def test_an_encoder_is_compiled_once_for_batch_and_length() -> None:
    module, _ = made("encoder")
    model, count = dynamic(module, max_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SizesWarning)
        assert_right(model, module, [(2 + n % 3, 7 + n, 32) for n in range(20)])
    assert count() == 1


def test_a_convolutional_net_is_compiled_once_for_its_batch() -> None:
    module, _ = made("convolutions")
    model, count = dynamic(module)
    with pytest.warns(SizesWarning, match=r"Constraints violated .*; compiled for each size"):
        assert_right(model, module, [(17 + n, 3, 16, 16) for n in range(20)])
    assert count() == 1


def test_a_larger_size_is_compiled_with_a_larger_range() -> None:
    module, _ = made("perceptron")
    model, count = dynamic(module, max_size=8)
    assert_right(model, module, [(rows, 48) for rows in (3, 8, 2)])
    assert count() == 1
    assert_right(model, module, [(rows, 48) for rows in (9, 64, 3, 33)])
    assert count() == 2


SIZES = GraphSizes((), {"n": (2.0, float("inf")), "m": (3.0, 15.0)}, {}, ())


@pytest.mark.parametrize(
    ("size", "last", "most", "end"),
    [(5, 0, None, 64), (65, 64, None, 512), (513, 512, None, 1024), (1025, 1024, None, 2048),
     (5, 0, 24, 24), (25, 24, 24, 64), (3, 64, 24, 64)],
)  # fmt: skip
def test_the_range_of_a_size_ends_at_powers_of_two(
    size: int, last: int, most: int | None, end: int
) -> None:
    assert SIZES.dim("n", size, last, most) == Dim("n", 2, end)
    assert SIZES.dim("m", 4, 0, most) == Dim("m", 3, 15)


class Scaled(torch.nn.Module):  # type: ignore[misc]
    """A number, which is no size, beside a tensor."""

    def forward(self, x: Any, factor: float, times: int) -> Any:
        return torch.relu(x * factor) + times


def test_numbers_that_are_no_sizes_are_compiled_for_each() -> None:
    model, count = dynamic(Scaled(), max_size=8)
    for rows in (3, 4, 5):
        for factor, times in ((0.5, 7), (2.5, 7), (2.5, 9)):
            x = torch.randn(rows, 10)
            torch.testing.assert_close(model(x, factor, times), Scaled()(x, factor, times))
    assert count() == 3
