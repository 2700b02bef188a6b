"""Functions of NumPy names on tensors of PyTorch, and as operators inside of torch.compile."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy.artifact.arrays import to_numpy

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.torch.jit")]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSORPY_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("ANSORPY_TUNE", "first")


def norm(x: Any, gain: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return centred * scale * gain, scale


def expected(x: Any, gain: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:]) * gain


def test_tensors_give_tensors_and_are_operators_of_compiled_functions() -> None:
    x, gain = torch.randn(6, 16), torch.randn(16)
    jitted = ansorpy.jit(norm)
    normal, scale = jitted(x, gain)
    assert isinstance(normal, torch.Tensor)
    assert scale.shape == (6, 1)
    torch.testing.assert_close(normal, expected(x, gain), rtol=1e-4, atol=1e-5)
    strided = torch.randn(16, 6).T
    torch.testing.assert_close(
        jitted(strided, gain)[0], expected(strided, gain), rtol=1e-4, atol=1e-5
    )
    assert len(jitted.status()) == 1

    op = jitted.as_torch_op(x, gain)
    torch.library.opcheck(op, (x, gain))
    compiled = torch.compile(lambda a, b: op(a * 2, b)[0] + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x, gain), expected(x * 2, gain) + 1, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"because x has shape \[5, 16\]; expected \[6, 16\]"):
        op(x[:5], gain)
    with pytest.raises(
        TypeError, match=r"x: cannot be shared through DLPack: .* use tensor.detach"
    ):
        jitted(x.clone().requires_grad_(), gain)


def test_no_array_is_copied_on_the_way() -> None:
    x = torch.randn(6, 16)
    array = to_numpy(x, "x")
    assert np.shares_memory(array, x.numpy())
    assert torch.from_dlpack(array).data_ptr() == x.data_ptr()
