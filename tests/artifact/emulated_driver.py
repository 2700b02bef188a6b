"""The emulated driver as the loader of zips meets it: images are PTX or cubins, calls are counted.

The emulated driver itself belongs to the device back end; it cannot run PTX, so that a module has
the kernels of a known program.
"""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ansorpy.codegen.simt.driver import LIBRARY
from ansorpy.codegen.simt.launch import SimtCode
from tests.emulation.device.device import EmulatedDevice
from tests.emulation.device.module import EmulatedFunction, EmulatedModule
from tests.emulation.device.state import INVALID_PTX, NOT_FOUND, put, word

NO_CODE = 209  # CUDA_ERROR_NO_BINARY_FOR_GPU
CAPABILITY = (75, 76)
Array = np.ndarray[Any, Any]


class ZipDevice(EmulatedDevice):
    """A device that has the kernels of `code`, for any bytes that are loaded.

    Args:
        capability: of the device.
        accepts: the driver's answer to the bytes of a module: 0, or an error.
    """

    def __init__(
        self,
        code: SimtCode,
        capability: tuple[int, int] = (9, 0),
        accepts: Callable[[bytes], int] = lambda _: 0,
    ) -> None:
        super().__init__()
        self.capability, self.accepts = dict(zip(CAPABILITY, capability, strict=True)), accepts
        self.kernels = {
            launch.name: EmulatedFunction(EmulatedModule(text))
            for text, launch in zip(code.texts, code.launches, strict=True)
        }
        self.foreign: list[Array] = []  # arrays of other libraries on the device
        self.loaded: list[bytes] = []
        self.copies: list[str] = []
        self.launches: list[tuple[str, int, int, int]] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand in for the driver library of this machine."""
        real, library = ctypes.CDLL, self.library()

        def opened(name: Any, *more: Any, **words: Any) -> Any:
            return library if name == LIBRARY else real(name, *more, **words)

        monkeypatch.setattr(ctypes, "CDLL", opened)

    @property
    def allocations(self) -> int:
        """The number of allocations."""
        return len(self._allocations)

    def share(self, array: Array) -> "Shared":
        """Return an array of the device as another library shows it."""
        self.foreign.append(array)
        return Shared(array)

    def _holds(self, address: int, size: int) -> bool:
        return super()._holds(address, size) or any(
            one.ctypes.data <= address and address + size <= one.ctypes.data + one.nbytes
            for one in self.foreign
        )

    def _device_get_attribute(self, out: int, number: int, device: int) -> int:
        if number in self.capability:
            return put(out, ctypes.c_int, self.capability[number])
        return super()._device_get_attribute(out, number, device)

    def _mem_alloc(self, out: int, size: int) -> int:
        code = super()._mem_alloc(out, size)
        ctypes.memset(word(out), 0xFF, size)  # NaN: elements that no kernel wrote are found
        return code

    def _memcpy_hto_d(self, address: int, source: int, size: int) -> int:
        self.copies.append("to the device")
        return super()._memcpy_hto_d(address, source, size)

    def _memcpy_dto_h(self, target: int, address: int, size: int) -> int:
        self.copies.append("to the host")
        return super()._memcpy_dto_h(target, address, size)

    def _memcpy_dto_d(self, target: int, source: int, size: int) -> int:
        self.copies.append("on the device")
        return super()._memcpy_dto_d(target, source, size)

    def _module_load_data_ex(
        self, out: int, image: int, options: int, names: int, values: int
    ) -> int:
        head = ctypes.string_at(image, 4)
        code = head if head == b"\x7fELF" else ctypes.string_at(image)
        error = self.accepts(code)
        if error:
            return self._refused(error, "ptxas: no such instruction", options, names, values)
        self.loaded.append(code)
        return self._new(out, "module")

    def _module_get_function(self, out: int, module: int, name: bytes) -> int:
        if self._objects.get(module) != "module" or name.decode() not in self.kernels:
            return NOT_FOUND
        return self._new(out, self.kernels[name.decode()])

    def _launch_kernel(self, function: int, *rest: Any) -> int:
        names = {id(kernel): name for name, kernel in self.kernels.items()}
        name = names[id(self._objects[function])]
        self.launches.append((name, rest[0], rest[3], rest[6]))
        return super()._launch_kernel(function, *rest)


class Shared:
    """A NumPy array that says it lies on the device."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        return {**self.array.__array_interface__, "version": 3, "stream": None}


class Producer:
    """As `Shared`, by DLPack."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int | None = None) -> Any:
        assert stream == 1
        return self.array.__dlpack__()


BAD_PTX = INVALID_PTX
