"""Call a pipeline that Halide compiled ahead of time; buffers follow its C header."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.suite.reference import Array

ENTRY: Final = "pipeline"
FLOAT: Final = 2  # halide_type_float


class Dimension(ctypes.Structure):
    """halide_dimension_t."""

    _fields_ = (
        ("min", ctypes.c_int32), ("extent", ctypes.c_int32), ("stride", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    )  # fmt: skip


class Kind(ctypes.Structure):
    """halide_type_t."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Buffer(ctypes.Structure):
    """halide_buffer_t."""

    _fields_ = (
        ("device", ctypes.c_uint64), ("device_interface", ctypes.c_void_p),
        ("host", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("type", Kind),
        ("dimensions", ctypes.c_int32), ("dim", ctypes.POINTER(Dimension)),
        ("padding", ctypes.c_void_p),
    )  # fmt: skip


def buffer(array: Array) -> Buffer:
    """Return the buffer of a dense float32 array; its first dimension is the array's last."""
    dimensions = (Dimension * array.ndim)()
    stride = 1
    for at, extent in enumerate(reversed(array.shape)):
        dimensions[at] = Dimension(0, extent, stride, 0)
        stride *= extent
    return Buffer(0, None, array.ctypes.data, 0, Kind(FLOAT, 32, 1), array.ndim, dimensions, None)


def loaded(library: Path, arrays: Sequence[Array]) -> tuple[Callable[[], None], list[Any]]:
    """Return the call on these arrays, inputs then output, and the objects that it borrows.

    The call raises RuntimeError if the pipeline returns an error.
    """
    function = getattr(ctypes.CDLL(str(library)), ENTRY)
    buffers = [buffer(array) for array in arrays]
    pointers = [ctypes.byref(one) for one in buffers]

    def call() -> None:
        code = function(*pointers)
        if code:
            raise RuntimeError(f"Halide: error {code}")

    return call, [buffers, pointers, list(arrays)]
