"""Functions of the emulated driver on memory."""

import ctypes
from ctypes import c_uint64
from mmap import mmap

from tests.emulation.device.state import (
    CAPTURE_UNSUPPORTED,
    INVALID_HANDLE,
    INVALID_VALUE,
    OUT_OF_MEMORY,
    SUCCESS,
    DeviceState,
    put,
)


class MemoryCalls(DeviceState):
    """The functions on memory."""

    def _mem_alloc(self, out: int, size: int) -> int:
        if not size:
            return INVALID_VALUE
        if size > self._free_bytes:
            return OUT_OF_MEMORY
        held = mmap(-1, size)
        address = ctypes.addressof(ctypes.c_char.from_buffer(held))
        self._free_bytes -= size
        self._allocations[address] = held
        return put(out, c_uint64, address)

    def _mem_free(self, address: int) -> int:
        held = self._allocations.pop(address, None)
        if held is None:
            return INVALID_VALUE
        self._free_bytes += len(held)
        return SUCCESS

    def _moved(self, to: int, source: int, size: int, own: int) -> int:
        if self._recorded is not None:
            self._spoiled = True
            return CAPTURE_UNSUPPORTED
        if not self._holds(own, size):
            return INVALID_VALUE
        ctypes.memmove(to, source, size)
        return SUCCESS

    def _memcpy_hto_d(self, address: int, source: int, size: int) -> int:
        return self._moved(address, source, size, address)

    def _memcpy_dto_h(self, target: int, address: int, size: int) -> int:
        return self._moved(target, address, size, address)

    def _memcpy_dto_d(self, target: int, source: int, size: int) -> int:
        if not self._holds(source, size):
            return INVALID_VALUE
        return self._moved(target, source, size, target)

    def _memset_d8(self, address: int, byte: int, size: int) -> int:
        if self._recorded is not None:
            self._spoiled = True
            return CAPTURE_UNSUPPORTED
        if not self._holds(address, size):
            return INVALID_VALUE
        ctypes.memset(address, byte, size)
        return SUCCESS

    def _memset_d8_async(self, address: int, byte: int, size: int, stream: int) -> int:
        if self._objects.get(stream) != "stream":
            return INVALID_HANDLE
        if not self._holds(address, size):
            return INVALID_VALUE

        def work() -> int:
            ctypes.memset(address, byte, size)
            return SUCCESS

        return self._do(work)
