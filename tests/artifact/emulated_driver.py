"""The functions of libcuda.so.1 over the emulator: memory of the host, kernels as fibres.

Calls go through ctypes with C signatures, so that a loader passes real pointers and integers.
"""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ansorpy.codegen.simt.driver import ERROR_LOG, ERROR_LOG_BYTES, LIBRARY, SIGNATURES
from ansorpy.codegen.simt.emulator import build_texts, load
from ansorpy.codegen.simt.launch import SimtCode

INVALID_VALUE, NO_CODE, NOT_FOUND, BAD_PTX = 1, 209, 500, 218
CONTEXT, MODULE = 0xC0, 0x30
NAMES = {1: b"CUDA_ERROR_INVALID_VALUE", 209: b"CUDA_ERROR_NO_BINARY_FOR_GPU",
         218: b"CUDA_ERROR_INVALID_PTX", 500: b"CUDA_ERROR_NOT_FOUND"}  # fmt: skip
WORD = ctypes.c_uint64


class EmulatedDriver:
    """A device whose kernels are those of `code`, for any bytes that are loaded.

    Args:
        capability: of the device.
        accepts: says for the bytes of a module whether the driver takes them: 0, or an error.
    """

    def __init__(
        self,
        code: SimtCode,
        capability: tuple[int, int] = (9, 0),
        accepts: Callable[[bytes], int] = lambda _: 0,
    ) -> None:
        self.code, self.capability, self.accepts = code, capability, accepts
        self.kernels = [
            load(build_texts(SimtCode((text,), (launch,), code.buffers)))
            for text, launch in zip(code.texts, code.launches, strict=True)
        ]
        self.memory: dict[int, Any] = {}
        self.loaded: list[bytes] = []
        self.launched: list[tuple[int, ...]] = []
        self.copies: list[tuple[str, int]] = []
        self.current = 0

    def library(self) -> Any:
        """Return the object that stands for the loaded library."""
        functions = {}
        for name, kinds in SIGNATURES.items():
            function = getattr(self, name)
            functions[name] = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(function)
        return SimpleNamespace(**functions)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand in for the driver library of this machine."""
        real = ctypes.CDLL

        def opened(name: Any, *more: Any, **words: Any) -> Any:
            return self.library() if name == LIBRARY else real(name, *more, **words)

        monkeypatch.setattr(ctypes, "CDLL", opened)

    def cuInit(self, flags: int) -> int:  # noqa: N802 - names of the driver, here and below
        return INVALID_VALUE if flags else 0

    def cuGetErrorName(self, code: int, place: int) -> int:  # noqa: N802
        if code not in NAMES:
            return INVALID_VALUE
        self.text = ctypes.create_string_buffer(NAMES[code])
        WORD.from_address(place).value = ctypes.addressof(self.text)
        return 0

    def cuDeviceGet(self, place: int, number: int) -> int:  # noqa: N802
        ctypes.c_int.from_address(place).value = 7
        return INVALID_VALUE if number else 0

    def cuDeviceGetName(self, place: int, size: int, handle: int) -> int:  # noqa: N802
        ctypes.memmove(place, b"Emulator\0", min(size, 9))
        return 0 if handle == 7 else INVALID_VALUE

    def cuDeviceGetAttribute(self, place: int, number: int, handle: int) -> int:  # noqa: N802
        assert handle == 7
        ctypes.c_int.from_address(place).value = self.capability[number - 75]
        return 0

    def cuDevicePrimaryCtxRetain(self, place: int, handle: int) -> int:  # noqa: N802
        assert handle == 7
        WORD.from_address(place).value = CONTEXT
        return 0

    def cuCtxSetCurrent(self, context: int) -> int:  # noqa: N802
        self.current = context
        return 0 if context == CONTEXT else INVALID_VALUE

    def cuCtxSynchronize(self) -> int:  # noqa: N802
        return 0 if self.current == CONTEXT else INVALID_VALUE

    def cuStreamSynchronize(self, stream: int | None) -> int:  # noqa: N802
        return INVALID_VALUE if stream else 0

    def cuModuleLoadDataEx(  # noqa: N802
        self, place: int, data: int, count: int, names: int, values: int
    ) -> int:
        head = ctypes.string_at(data, 4)
        whole = ctypes.string_at(data) if head != b"\x7fELF" else head
        error = self.accepts(whole)
        options = (ctypes.c_int * count).from_address(names)
        given = dict(zip(options, (WORD * count).from_address(values), strict=True))
        if error:
            said = b"ptxas: no such instruction"
            ctypes.memmove(given[ERROR_LOG], said, min(len(said), given[ERROR_LOG_BYTES]))
            return error
        self.loaded.append(whole)
        WORD.from_address(place).value = MODULE
        return 0

    def cuModuleUnload(self, module: int) -> int:  # noqa: N802
        return 0 if module == MODULE else INVALID_VALUE

    def cuModuleGetFunction(self, place: int, module: int, name: bytes) -> int:  # noqa: N802
        names = [launch.name.encode() for launch in self.code.launches]
        if module != MODULE or name not in names:
            return NOT_FOUND
        WORD.from_address(place).value = 1 + names.index(name)
        return 0

    def cuFuncSetAttribute(self, kernel: int, attribute: int, value: int) -> int:  # noqa: N802
        self.copies.append((f"attribute {attribute} of kernel {kernel - 1}", value))
        return 0

    def cuMemAlloc_v2(self, place: int, size: int) -> int:  # noqa: N802
        memory = (ctypes.c_uint8 * (size + 255))()
        ctypes.memset(memory, 0xFF, size + 255)  # NaN: elements that no kernel wrote are found
        address = -(-ctypes.addressof(memory) // 256) * 256
        self.memory[address] = memory
        WORD.from_address(place).value = address
        return 0

    def cuMemFree_v2(self, address: int) -> int:  # noqa: N802
        return 0 if self.memory.pop(address, None) is not None else INVALID_VALUE

    def cuMemcpyHtoD_v2(self, goal: int, source: int, size: int) -> int:  # noqa: N802
        return self.copied("to device", goal, source, size)

    def cuMemcpyDtoH_v2(self, goal: int, source: int, size: int) -> int:  # noqa: N802
        return self.copied("to host", goal, source, size)

    def cuMemcpyDtoD_v2(self, goal: int, source: int, size: int) -> int:  # noqa: N802
        return self.copied("on device", goal, source, size)

    def copied(self, kind: str, goal: int, source: int, size: int) -> int:
        self.copies.append((kind, size))
        ctypes.memmove(goal, source, size)
        return 0 if self.current == CONTEXT else INVALID_VALUE

    def cuLaunchKernel(self, kernel: int, *rest: Any) -> int:  # noqa: N802
        *numbers, shared, stream, places, extra = rest
        launch = self.code.launches[kernel - 1]
        self.launched.append((kernel - 1, *numbers, shared))
        if numbers != [launch.blocks, 1, 1, launch.threads, 1, 1] or stream or extra:
            return INVALID_VALUE
        pointers = (WORD * len(self.code.buffers)).from_address(places)
        addresses = [WORD.from_address(pointer).value for pointer in pointers]
        run = self.kernels[kernel - 1]
        (run.run_ahead if launch.ahead else run.run)(addresses)
        return 0
