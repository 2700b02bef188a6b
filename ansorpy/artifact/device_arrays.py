"""Arrays in the memory of a GPU: our own, and arrays of other libraries, read in place.

The text of this file, below its marker line, is copied into the zip of a kernel for a GPU, as a
part of `driver.py`.
"""

import ctypes
import math
from typing import Any, NamedTuple, Self

import numpy as np

from ansorpy.artifact.harness import Array, TensorSpec, fresh, stored_dtype
from ansorpy.codegen.simt.driver import Device, DeviceMemory

# --- device arrays: the same in every zip for a GPU ---

ON_CUDA, ON_CUDA_MANAGED = 2, 13  # kDLCUDA, kDLCUDAManaged
KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}  # DLDataTypeCode
UNNAMED = ("|V2", "<V2", "<u2")  # typestr of bfloat16, which NumPy does not know


class DeviceView(NamedTuple):
    """The address of an array of the device, and the owner of its memory."""

    address: int
    owner: Any


class DeviceArray:
    """An array of our own on a device, row-major; torch, CuPy and numba read it in place."""

    def __init__(self, device: Device, tensor: TensorSpec) -> None:
        self.tensor = tensor
        size_bytes = math.prod(tensor.shape) * stored_dtype(tensor.dtype).itemsize
        self.memory = DeviceMemory(device, size_bytes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.tensor.shape

    @property
    def dtype(self) -> str:
        """The name of the dtype; elements of bfloat16 are handed on as uint16."""
        return self.tensor.dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": stored_dtype(self.dtype).str,
            "data": (self.memory.address, False),
            "version": 3,
            "strides": None,
            "stream": None,
        }

    def filled(self, array: Array) -> Self:
        """Copy an array of the host of the same shape and dtype; return this one."""
        source = np.ascontiguousarray(array)
        self.memory.device.enter()
        self.memory.fill_from(source.ctypes.data)
        return self

    def to_host(self) -> Array:
        """Return a copy for NumPy."""
        array = fresh(self.shape, self.dtype)
        self.memory.device.enter()
        self.memory.copy_to(array.ctypes.data)
        return array


def device_view(tensor: TensorSpec, array: Any, place: str = "") -> DeviceView | None:
    """Return the address of an array that lies on a device; None if it does not.

    Raises:
        TypeError: another dtype.
        ValueError: another shape, or elements that do not lie side by side.
    """
    if isinstance(array, np.ndarray):
        return None
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        kind, shape = interface["typestr"], tuple(interface["shape"])
        bits = tensor.dtype == "bfloat16"
        known = kind in UNNAMED if bits else np.dtype(kind) == stored_dtype(tensor.dtype)
        _require_kind(tensor, place, known, kind)
        strides = interface.get("strides")
        size = stored_dtype(tensor.dtype).itemsize
        steps = None if strides is None else [step // size for step in strides]
        _require_shape(tensor, place, shape, steps)
        return DeviceView(int(interface["data"][0] or 0), array)
    if hasattr(array, "__dlpack__") and int(array.__dlpack_device__()[0]) in (
        ON_CUDA,
        ON_CUDA_MANAGED,
    ):
        return _from_dlpack(tensor, array, place)
    return None


class _Tensor(ctypes.Structure):
    """The first fields of DLManagedTensor (dlpack.h): a DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dims", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset_bytes", ctypes.c_uint64),
    )


def _from_dlpack(tensor: TensorSpec, array: Any, place: str) -> DeviceView:
    """Return the address in the capsule of a DLPack producer, which keeps the memory."""
    capsule = array.__dlpack__(stream=1)  # 1: the default stream, on which kernels run
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    held = _Tensor.from_address(pointer(capsule, b"dltensor"))
    kind = f"{KINDS.get(held.code, 'kind')}{held.bits}"
    names = {"bool8": "bool", "bfloat16": "bfloat16"}
    _require_kind(tensor, place, names.get(kind, kind) == tensor.dtype and held.lanes == 1, kind)
    shape = tuple(held.shape[k] for k in range(held.dims))
    steps = [held.strides[k] for k in range(held.dims)] if held.strides else None
    _require_shape(tensor, place, shape, steps)
    return DeviceView((held.data or 0) + held.offset_bytes, (array, capsule))


def _require_kind(tensor: TensorSpec, place: str, known: bool, kind: str) -> None:
    if not known:
        raise TypeError(
            f"cannot run because {tensor.name}{place} has dtype {kind}; expected {tensor.dtype}"
        )


def _require_shape(
    tensor: TensorSpec, place: str, shape: tuple[int, ...], steps: list[int] | None
) -> None:
    """Require a shape, and row-major elements; `steps` are strides in elements."""
    name = f"cannot run because {tensor.name}{place}"
    if shape != tensor.shape:
        raise ValueError(f"{name} has shape {shape}; expected {tensor.shape}")
    dense = 1
    for extent, step in zip(reversed(shape), reversed(steps or []), strict=False):
        if extent > 1 and step != dense:
            raise ValueError(f"{name} is strided; expected a contiguous array of the device")
        dense *= extent
