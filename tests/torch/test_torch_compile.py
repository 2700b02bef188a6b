"""`ansorpy.compile`: modules of PyTorch as callables over a verified bundle."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ansorpy
from ansorpy.model import judge
from ansorpy.model.torch_module import CompiledModule
from ansorpy.records import MemoryStore

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from tests.torch.modules import MODULES, TwoResults, made  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("name", MODULES)
def test_a_compiled_module_computes_the_result_of_eager_torch(name: str) -> None:
    module, args = made(name)
    model = ansorpy.compile(module, args, trials=0, store=MemoryStore())
    other = tuple(torch.randn_like(arg) for arg in args)
    with torch.no_grad():
        for given in (args, other):
            torch.testing.assert_close(model(*given), module(*given), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory: pytest.TempPathFactory) -> Any:
    module, args = made("perceptron")
    out = tmp_path_factory.mktemp("bundle") / "perceptron.zip"
    return ansorpy.compile(module, args, trials=0, store=MemoryStore(), out=out), out, module, args


def test_the_bundle_is_kept_where_asked(perceptron: Any) -> None:
    model, out, _, (x,) = perceptron
    with torch.no_grad():
        assert torch.equal(ansorpy.load(out)(x), model(x))


def test_a_compiled_module_tells_its_result_and_saves_its_bundle(tmp_path: Path) -> None:
    module, (x,) = made("perceptron")
    model = ansorpy.compile(module, x, trials=0, store=MemoryStore())
    assert isinstance(model, CompiledModule)
    bundle = model.result.bundle
    assert str(model.result).startswith("Sequential: ")
    assert repr(model).startswith(
        "<compiled module Sequential(input: float32[4, 48]) -> float32[4, 10], "
    )
    for goal in (tmp_path, tmp_path / "mlp.zip", tmp_path / "mlp.zip"):
        saved = model.save(goal)
        assert saved == (goal if goal.suffix else tmp_path / "Sequential.zip")
        with torch.no_grad():
            assert torch.equal(ansorpy.load(saved)(x), model(x))
    del model
    gc.collect()
    assert not bundle.exists()


def test_a_kept_bundle_is_saved_to_its_own_path(perceptron: Any) -> None:
    model, out, _, _ = perceptron
    assert model.save(out) == model.result.bundle == out


def test_a_compiled_module_is_raced_with_eager_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judge, "ROUNDS", ((3, 0.05),))
    x, scale = torch.randn(3, 4), torch.randn(4)
    model = ansorpy.compile(TwoResults(), (x, 2), {"scale": scale}, trials=0, store=MemoryStore())
    threads = torch.get_num_threads()
    found = model.bench()
    assert torch.get_num_threads() == threads
    assert found.peer is not None
    assert found.peer.name == f"PyTorch {torch.__version__.partition('+')[0]}"
    assert found.ours_s > 0
    assert found.oracle == "eager PyTorch"


def test_tune_writes_the_bundle_of_a_module_for_one_tensor(tmp_path: Path) -> None:
    module, (x,) = made("perceptron")
    result = ansorpy.tune(
        module, args=x, trials=0, store=MemoryStore(), out=tmp_path / "mlp.zip", progress=False
    )
    with torch.no_grad():
        wanted = ansorpy.compile(module, x, trials=0, store=MemoryStore())(x)
        torch.testing.assert_close(ansorpy.load(result.bundle)(x), wanted, rtol=1e-4, atol=1e-5)


def test_later_writes_to_parameters_do_not_change_a_compiled_module() -> None:
    module, (x,) = made("perceptron")
    model = ansorpy.compile(module, (x,), trials=0, store=MemoryStore())
    with torch.no_grad():
        before = model(x)
        module[0].weight.zero_()
        assert torch.equal(model(x), before)


def test_results_have_the_structure_of_those_of_the_module() -> None:
    x, scale = torch.randn(3, 4), torch.randn(4)
    model = ansorpy.compile(TwoResults(), (x, 2), {"scale": scale}, trials=0, store=MemoryStore())
    result = model(x, 2, scale=scale)
    wanted = TwoResults()(x, 2, scale=scale)
    assert torch.utils._pytree.tree_structure(result) == torch.utils._pytree.tree_structure(wanted)
    torch.testing.assert_close(result["pair"][0], wanted["pair"][0])
    torch.testing.assert_close(result["scaled"], wanted["scaled"])
    with pytest.raises(TypeError, match="argument 'power' is 3; expected 2, for which it was"):
        model(x, 3, scale=scale)
    with pytest.raises(TypeError, match="its arguments have another structure"):
        model(x, scale, 2)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "dtype": (lambda x: x.double(), TypeError, "is torch.float64; expected torch.float32"),
    "shape": (lambda x: x[:2], ValueError, r"has shape \[2, 48\]; expected \[4, 48\]"),
    "gradient": (
        lambda x: x.clone().requires_grad_(),
        RuntimeError,
        "cannot differentiate module 'Sequential' because it has no gradient",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_argument_is_refused(name: str, perceptron: Any) -> None:
    change, kind, message = REFUSED[name]
    model, _, _, (x,) = perceptron
    with pytest.raises(kind, match=message):
        model(change(x))
