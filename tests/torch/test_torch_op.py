"""A kernel as an operator of PyTorch: eager, compiled, with fakes, and its refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy.artifact import LoadedKernel, load
from ansorpy.artifact.torch_op import torch_op
from ansorpy.frontends.tc.text import parse
from tests.artifact.test_pack import MM, SCALED, TWO, packed

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.torch.jit")]

HALVES = "def half({0}(4,6) A, {0}(6,5) B) -> (C) {{ C(i,j) +=! A(i,k) * B(k,j) }}"
SIZED = "def mm(float(M in 2..10 step 2, 7) A, float(7, 6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
MASKS = (
    "def masks(bool(3,4) A, int64(3,4) I) -> (C, D) {"
    " C(i,j) = !A(i,j)  D(i,j) = A(i,j) ? I(i,j) : 0 }"
)


def made(text: str, folder: Path) -> LoadedKernel:
    return load(packed(parse(text)[0], folder)[0])


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> LoadedKernel:
    return made(MM, tmp_path_factory.mktemp("mm"))


@pytest.fixture(scope="module")
def op(kernel: LoadedKernel) -> Any:
    return kernel.as_torch_op()


def operands(seed: int = 0) -> tuple[Any, Any]:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(5, 7, generator=source), torch.randn(7, 6, generator=source)


def test_a_call_gives_the_product(op: Any) -> None:
    a, b = operands()
    torch.testing.assert_close(op(a, b), a @ b)


def test_torch_finds_nothing_wrong_with_the_registration(op: Any) -> None:
    a, b = operands()
    torch.library.opcheck(op, (a, b))
    torch.library.opcheck(op, (torch.randn(7, 5).T, b))


def test_the_name_follows_from_the_digest(kernel: LoadedKernel, op: Any) -> None:
    assert op._qualname == f"ansorpy::kernel_{kernel.digest}"
    assert kernel.as_torch_op() is op


def test_an_equal_package_gives_the_same_operator(op: Any, tmp_path: Path) -> None:
    assert made(MM, tmp_path).as_torch_op() is op


def test_contiguous_tensors_are_read_in_place(
    kernel: LoadedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gets the very memory of the tensors, and its result is not copied."""
    seen: list[Any] = []
    run = kernel.run

    def watched(*arrays: Any) -> Any:
        seen[:] = [*arrays, run(*arrays)]
        return seen[-1]

    monkeypatch.setattr(kernel, "run", watched)
    a, b = operands()
    result = torch_op(kernel, f"ansorpy::watched_{kernel.digest}")(a, b)
    assert [array.ctypes.data for array in seen] == [tensor.data_ptr() for tensor in (a, b, result)]


def test_strided_tensors_are_accepted(op: Any) -> None:
    a, b = torch.randn(7, 5).T, torch.randn(6, 14)[:, ::2].T
    torch.testing.assert_close(op(a, b), a @ b)


def test_lazy_negatives_and_conjugates_are_resolved(op: Any) -> None:
    a, b = operands()
    negative = torch.complex(a, a).conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(op(negative, b), negative @ b)


def test_a_result_is_not_overwritten_by_later_calls(op: Any) -> None:
    first, second = operands(0), operands(1)
    result = op(*first)
    op(*second)
    torch.testing.assert_close(result, first[0] @ first[1])


def test_the_whole_graph_is_compiled(op: Any) -> None:
    @torch.compile(fullgraph=True)  # type: ignore[untyped-decorator]
    def model(a: Any, b: Any) -> Any:
        return torch.relu(op(a * 2, b)) + 1

    a, b = operands()
    torch.testing.assert_close(model(a, b), torch.relu(2 * a @ b) + 1)


def test_the_operator_can_be_exported(op: Any) -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, a: Any, b: Any) -> Any:
            return op(a, b).relu()

    a, b = operands()
    program = torch.export.export(Model(), (a, b))
    assert any("ansorpy.kernel_" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(a, b), torch.relu(a @ b))


def test_several_results_and_ranks_of_zero(tmp_path: Path) -> None:
    values = torch.arange(9, dtype=torch.float32)
    total, twice = made(TWO, tmp_path / "two").as_torch_op()(values)
    assert (total.shape, total.item()) == ((), 36)
    torch.testing.assert_close(twice, 2 * values)
    scaled = made(SCALED, tmp_path / "scaled").as_torch_op()
    compiled = torch.compile(scaled, fullgraph=True)
    torch.testing.assert_close(compiled(torch.tensor(3.0), values), 3 * values)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "int8"])
def test_every_dtype_goes_in_and_comes_out(dtype: str, tmp_path: Path) -> None:
    half = made(HALVES.format(dtype), tmp_path).as_torch_op()
    kind = getattr(torch, dtype)
    a, b = (torch.randint(-2, 3, shape).to(kind) for shape in ((4, 6), (6, 5)))
    torch.testing.assert_close(half(a, b), a @ b, rtol=0, atol=0)
    torch.library.opcheck(half, (a, b))


def test_masks_and_integers(tmp_path: Path) -> None:
    masks = made(MASKS, tmp_path).as_torch_op()
    a, i = torch.rand(3, 4) > 0.5, torch.arange(12).reshape(3, 4)
    negated, chosen = masks(a, i)
    assert torch.equal(negated, ~a)
    assert torch.equal(chosen, torch.where(a, i, 0))


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "dtype": (
        lambda a: a.double(),
        TypeError,
        "because A is torch.float64; expected torch.float32",
    ),
    "shape": (lambda a: a.T, ValueError, "because A has shape [7, 5]; expected [5, 7]"),
    "rank": (lambda a: a[0], ValueError, "because A has shape [7]; expected [5, 7]"),
    "device": (lambda a: a.to("meta"), TypeError, "because A is on device meta; expected cpu"),
    "layout": (
        lambda a: a.to_sparse(),
        TypeError,
        "because A has layout torch.sparse_coo; expected torch.strided",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_tensor_is_refused(name: str, op: Any) -> None:
    change, kind, message = REFUSED[name]
    a, b = operands()
    with pytest.raises(kind) as caught:
        op(change(a), b)
    assert str(caught.value) == f"cannot call kernel 'mm' {message}"


def test_another_shape_is_refused_while_a_graph_is_compiled(op: Any) -> None:
    a, b = operands()
    with pytest.raises(Exception, match=r"because A has shape \[6, 7\]; expected \[5, 7\]"):
        torch.compile(op, fullgraph=True)(torch.cat([a, a[:1]]), b)


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made(SIZED, tmp_path_factory.mktemp("sized")).as_torch_op()


@pytest.mark.parametrize("size", [2, 4, 10])
def test_a_kernel_with_dims_takes_each_size(sized: Any, size: int) -> None:
    a, b = torch.randn(size, 7), torch.randn(7, 6)
    torch.testing.assert_close(sized(a, b), a @ b)
    torch.library.opcheck(sized, (a, b))


def test_one_graph_is_compiled_for_all_sizes(sized: Any) -> None:
    graphs: list[Any] = []

    def counted(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, dynamic=True, backend=counted)  # type: ignore[untyped-decorator]
    def model(a: Any, b: Any) -> Any:
        return torch.relu(sized(a * 2, b)) + 1

    for size in (4, 2, 8, 10):
        a, b = torch.randn(size, 7), torch.randn(7, 6)
        torch.testing.assert_close(model(a, b), torch.relu(2 * a @ b) + 1)
    assert len(graphs) == 1


def test_a_kernel_with_dims_is_exported_with_its_range(sized: Any) -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, a: Any, b: Any) -> Any:
            return sized(a, b).relu()

    rows = torch.export.Dim("rows", min=1, max=5)
    shapes = {"a": {0: 2 * rows}, "b": None}
    a, b = torch.randn(6, 7), torch.randn(7, 6)
    program = torch.export.export(Model(), (a, b), dynamic_shapes=shapes)
    for size in (2, 10):
        a = torch.randn(size, 7)
        torch.testing.assert_close(program.module()(a, b), torch.relu(a @ b))


@pytest.mark.parametrize("size", [1, 3, 12])
def test_a_size_out_of_range_is_refused(sized: Any, size: int) -> None:
    with pytest.raises(ValueError, match="cannot call kernel 'mm' because A has shape") as caught:
        sized(torch.randn(size, 7), torch.randn(7, 6))
    assert str(caught.value).endswith(f"has shape [{size}, 7]; expected [M in 2..10 step 2, 7]")


def test_a_gradient_is_refused(op: Any) -> None:
    a, b = operands()
    result = op(a.requires_grad_(), b)
    with pytest.raises(RuntimeError, match="cannot differentiate kernel 'mm' because it has no"):
        result.sum().backward()
    with torch.no_grad():
        assert not op(a, b).requires_grad


def test_results_equal_those_of_a_call_with_arrays(kernel: LoadedKernel, op: Any) -> None:
    a, b = operands()
    assert np.array_equal(op(a, b).numpy(), kernel(a.numpy(), b.numpy()))
