"""State of the emulated driver, and values at the addresses that callers give."""

import ctypes
from collections.abc import Callable
from ctypes import c_uint64, c_void_p
from itertools import count
from mmap import mmap
from typing import Any, Final

from ansorpy.codegen.simt.device.error_codes import FAULTS

MEMORY_BYTES: Final = 1 << 30
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
INVALID_DEVICE, INVALID_CONTEXT, INVALID_PTX, INVALID_HANDLE = 101, 201, 218, 400
NOT_FOUND, ILLEGAL_ADDRESS, OUT_OF_RESOURCES, LAUNCH_FAILED = 500, 700, 701, 719
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, UNKNOWN = 900, 901, 999
NAMES: Final = {
    INVALID_VALUE: b"CUDA_ERROR_INVALID_VALUE",
    OUT_OF_MEMORY: b"CUDA_ERROR_OUT_OF_MEMORY",
    NOT_INITIALIZED: b"CUDA_ERROR_NOT_INITIALIZED",
    INVALID_DEVICE: b"CUDA_ERROR_INVALID_DEVICE",
    INVALID_CONTEXT: b"CUDA_ERROR_INVALID_CONTEXT",
    INVALID_PTX: b"CUDA_ERROR_INVALID_PTX",
    INVALID_HANDLE: b"CUDA_ERROR_INVALID_HANDLE",
    NOT_FOUND: b"CUDA_ERROR_NOT_FOUND",
    ILLEGAL_ADDRESS: b"CUDA_ERROR_ILLEGAL_ADDRESS",
    OUT_OF_RESOURCES: b"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    LAUNCH_FAILED: b"CUDA_ERROR_LAUNCH_FAILED",
    CAPTURE_UNSUPPORTED: b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    CAPTURE_INVALIDATED: b"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
    UNKNOWN: b"CUDA_ERROR_UNKNOWN",
}

Work = Callable[[], int]  # work of a stream: returns a code


class DeviceState:
    """Memory, handles, the stream and the errors of one emulated GPU.

    Args:
        memory_bytes: size of its memory.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._free_bytes = self.memory_bytes = memory_bytes
        self._allocations: dict[int, mmap] = {}
        # By handle; without one, work goes to the default stream.
        self._objects: dict[int | None, Any] = {None: "stream"}
        self._handles = count(0x1000, 16)
        self._started = self._has_context = False
        self._fault = SUCCESS
        self._recorded: list[Work] | None = None  # work of a capture in progress
        self._spoiled = False  # whether that capture had an error
        self._late = SUCCESS  # code of work in the stream, told at the next wait
        self._names = {code: ctypes.create_string_buffer(name) for code, name in NAMES.items()}

    def _new(self, pointer: int, value: Any) -> int:
        handle = next(self._handles)
        self._objects[handle] = value
        return put(pointer, c_void_p, handle)

    def _do(self, work: Work) -> int:
        """Do work of the stream, or record it; its own errors are told at the next wait."""
        if self._recorded is not None:
            self._recorded.append(work)
        elif not self._late:
            self._late = work()
        return SUCCESS

    def _holds(self, address: int, size: int) -> bool:
        """Return whether bytes lie in one allocation."""
        return any(
            start <= address and address + size <= start + len(held)
            for start, held in self._allocations.items()
        )

    def _settled(self) -> int:
        code, self._late = self._late, SUCCESS
        if code in FAULTS:
            self._fault = code
        return code


def put(pointer: int, kind: Any, value: Any) -> int:
    """Store a value at an address; return success."""
    kind.from_address(pointer).value = value
    return SUCCESS


def put_text(pointer: int, size: int, text: str) -> int:
    """Store a C string of at most `size` bytes; return success."""
    data = text.encode()[: size - 1] + b"\0"
    ctypes.memmove(pointer, data, len(data))
    return SUCCESS


def word(address: int) -> int:
    """Return the 64 bits at an address."""
    return int(c_uint64.from_address(address).value)
