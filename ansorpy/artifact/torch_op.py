"""A loaded kernel as an operator of PyTorch, for use inside of `torch.compile`.

torch is imported by `torch_op` only: the package neither needs nor installs it.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, Protocol

from ansorpy.errors import PackageError
from ansorpy.te.dims import Dim

_operators: Final[dict[str, Callable[..., Any]]] = {}  # torch keeps an operator for ever
_lock: Final = Lock()


class TorchKernel(Protocol):
    """A function of NumPy arrays whose manifest names it, its inputs and its outputs."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Its `name`; `inputs` and `outputs` with name, shape and dtype of each."""

    @property
    def run(self) -> Callable[..., Any]:
        """The function of arrays."""


def torch_op(kernel: TorchKernel, name: str) -> Callable[..., Any]:
    """Return the operator of a kernel, registered with torch at the first call for this name.

    Args:
        name: the qualified name for torch; it follows from the digest of the package.

    Raises:
        PackageError: torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise PackageError(
            f"cannot make a torch operator of kernel {kernel.manifest['name']!r} because torch"
            " is not installed; expected the extra ansorpy[torch]"
        ) from error
    with _lock:
        if name not in _operators:
            _operators[name] = _registered(torch, kernel, name)
        return _operators[name]


def _registered(torch: Any, kernel: TorchKernel, name: str) -> Callable[..., Any]:
    """Register run, fake and refusal of gradients; parameters are x0, x1 ... by position."""
    inputs, outputs = (_with_dims(kernel.manifest, part) for part in ("inputs", "outputs"))
    label = f"kernel {kernel.manifest['name']!r}"

    def run(*tensors: Any) -> Any:
        check(torch, label, inputs, tensors)
        results = kernel.run(*(to_array(torch, tensor) for tensor in tensors))
        many = results if isinstance(results, tuple) else (results,)
        made = tuple(
            to_tensor(torch, array, told["dtype"])
            for array, told in zip(many, outputs, strict=True)
        )
        return made if len(made) > 1 else made[0]

    def fake(*tensors: Any) -> Any:
        check(torch, label, inputs, tensors)
        sizes = _sizes(inputs, tensors)
        made = tuple(
            torch.empty(
                [sizes.get(extent, extent) for extent in told["shape"]],
                dtype=getattr(torch, told["dtype"]), device="cpu",
            )
            for told in outputs
        )  # fmt: skip
        return made if len(made) > 1 else made[0]

    def backward(context: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            f"cannot differentiate {label} because it has no gradient; expected inputs"
            " that do not require one, or a call inside of torch.no_grad()"
        )

    takes = ", ".join(f"Tensor x{i}" for i in range(len(inputs)))
    gives = ", ".join(["Tensor"] * len(outputs))
    made = torch.library.custom_op(
        name, run, mutates_args=(), schema=f"({takes}) -> {f'({gives})' if ',' in gives else gives}"
    )
    made.register_fake(fake)
    made.register_autograd(backward)
    return made  # type: ignore[no-any-return]


def _with_dims(manifest: Mapping[str, Any], part: str) -> list[dict[str, Any]]:
    """Return the inputs or outputs of a manifest; an extent that a call decides is a dim."""
    facts = ("name", "low", "high", "step")
    dims = {one["name"]: Dim(*(one[fact] for fact in facts)) for one in manifest.get("dims", ())}
    return [
        {
            **told,
            "shape": [
                dims.get(name, extent)
                for extent, name in zip(
                    told["shape"], told.get("dims", [""] * len(told["shape"])), strict=True
                )
            ],
        }
        for told in manifest[part]
    ]


def _sizes(inputs: Sequence[Mapping[str, Any]], tensors: Sequence[Any]) -> dict[int, Any]:
    """Return the size of each dim in a call; symbolic while torch traces one."""
    pairs = zip(inputs, tensors, strict=True)
    sizes = (zip(told["shape"], tensor.shape, strict=True) for told, tensor in pairs)
    return {extent: size for of in sizes for extent, size in of if isinstance(extent, Dim)}


def check(
    torch: Any, label: str, wanted: Sequence[Mapping[str, Any]], tensors: Sequence[Any]
) -> None:
    """Verify layout, device, dtype and shape of every tensor.

    Args:
        label: the name of the kernel or module in messages.
        wanted: `inputs` of the manifest; extents may be dims.

    Raises:
        TypeError: a tensor is sparse, of another dtype, or not in CPU memory.
        ValueError: a tensor has another shape.
    """
    for entry, tensor in zip(wanted, tensors, strict=True):
        name = f"cannot call {label} because {entry['name']}"
        if tensor.layout != torch.strided:
            raise TypeError(f"{name} has layout {tensor.layout}; expected torch.strided")
        if tensor.device.type != "cpu":
            raise TypeError(f"{name} is on device {tensor.device}; expected cpu")
        if tensor.dtype != getattr(torch, entry["dtype"]):
            raise TypeError(f"{name} is {tensor.dtype}; expected torch.{entry['dtype']}")
        extents, sizes = entry["shape"], tensor.shape
        if len(sizes) != len(extents) or not all(map(_has, extents, sizes)):
            raise ValueError(f"{name} has shape {list(map(int, sizes))}; expected {extents}")


def _has(extent: int, size: int) -> bool:
    # A symbolic size becomes fixed beside a number, and gets the range of a dim.
    return extent.has(size) if isinstance(extent, Dim) else extent == int(size)


def to_array(torch: Any, tensor: Any) -> Any:
    """Return a NumPy view of a CPU tensor; only lazy conjugates and negatives are copied."""
    bits = tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor
    return bits.numpy(force=True)


def to_tensor(torch: Any, array: Any, dtype: str) -> Any:
    """Return a tensor that shares the memory of an array; bfloat16 arrays are uint16 bits."""
    return torch.from_numpy(array).view(getattr(torch, dtype))
