"""Functions of the emulated driver on modules and launches."""

import ctypes
from ctypes import c_int, c_uint64
from typing import Final

from ansorpy.codegen.simt.device.functions import OF_KERNELS
from ansorpy.codegen.simt.driver import ERROR_LOG, ERROR_LOG_BYTES
from ansorpy.errors import BuildError, RunError
from tests.emulation.device.module import EmulatedFunction, EmulatedModule
from tests.emulation.device.state import (
    ILLEGAL_ADDRESS,
    INVALID_HANDLE,
    INVALID_PTX,
    INVALID_VALUE,
    LAUNCH_FAILED,
    NOT_FOUND,
    OUT_OF_RESOURCES,
    SUCCESS,
    DeviceState,
    put,
    put_text,
    word,
)

MOST_BLOCKS: Final = (1 << 31) - 1


class ModuleCalls(DeviceState):
    """The functions on modules and launches."""

    def _module_load_data_ex(
        self, out: int, image: int, options: int, names: int, values: int
    ) -> int:
        try:
            module = EmulatedModule(ctypes.string_at(image).decode())
        except (BuildError, UnicodeDecodeError) as error:
            return self._refused(INVALID_PTX, str(error), options, names, values)
        return self._new(out, module)

    def _refused(self, code: int, reason: str, options: int, names: int, values: int) -> int:
        """Return a code; write its reason to the log, if the caller asks for one."""
        asked = {
            c_int.from_address(names + 4 * k).value: word(values + 8 * k) for k in range(options)
        }
        if asked.get(ERROR_LOG):
            put_text(asked[ERROR_LOG], asked[ERROR_LOG_BYTES], reason)
        return code

    def _module_unload(self, module: int) -> int:
        return SUCCESS if self._objects.pop(module, None) is not None else INVALID_HANDLE

    def _module_get_function(self, out: int, module: int, name: bytes) -> int:
        held = self._objects.get(module)
        if not isinstance(held, EmulatedModule):
            return INVALID_HANDLE
        if name.decode() != held.name:
            return NOT_FOUND
        return self._new(out, EmulatedFunction(held))

    def _func_get_attribute(self, out: int, number: int, function: int) -> int:
        held = self._objects.get(function)
        if not isinstance(held, EmulatedFunction):
            return INVALID_HANDLE
        known = {OF_KERNELS[name]: value for name, value in held.attributes.items()}
        return put(out, c_int, known[number]) if number in known else INVALID_VALUE

    def _func_set_attribute(self, function: int, number: int, value: int) -> int:
        held = self._objects.get(function)
        if not isinstance(held, EmulatedFunction):
            return INVALID_HANDLE
        if number != OF_KERNELS["max_dynamic_bytes"] or not held.allow(value):
            return INVALID_VALUE
        return SUCCESS

    def _launch_kernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int,
        dynamic: int, stream: int, parameters: int, extra: int,
    ) -> int:  # fmt: skip
        held = self._objects.get(function)
        if not isinstance(held, EmulatedFunction) or self._objects.get(stream) != "stream":
            return INVALID_HANDLE
        if extra or (gy, gz, by, bz) != (1, 1, 1, 1) or not (1 <= gx <= MOST_BLOCKS and bx):
            return INVALID_VALUE
        if not held.fits(bx, dynamic):
            return OUT_OF_RESOURCES if bx <= held.attributes["max_threads"] else INVALID_VALUE
        # As the driver does, take the values now: the arrays may be gone when the kernel starts.
        addresses = [
            c_uint64.from_address(word(parameters + 8 * k)).value
            for k in range(held.module.parameters)
        ]

        def work() -> int:
            if not all(self._holds(one, 1) for one in addresses):
                return ILLEGAL_ADDRESS
            try:
                held.run(gx, bx, addresses)
            except RunError:
                return LAUNCH_FAILED
            return SUCCESS

        return self._do(work)
