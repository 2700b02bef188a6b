"""Functions of the emulated driver on devices and contexts."""

import ctypes
from ctypes import c_int, c_size_t, c_void_p
from typing import Final

from tests.emulation.device.facts import ATTRIBUTE_VALUES, NAME, PCI_ADDRESS
from tests.emulation.device.state import (
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_VALUE,
    SUCCESS,
    DeviceState,
    put,
    put_text,
)

VERSION: Final = 13000


class DeviceCalls(DeviceState):
    """The functions on devices and contexts."""

    def _init(self, flags: int) -> int:
        self._started = True
        return INVALID_VALUE if flags else SUCCESS

    def _driver_get_version(self, out: int) -> int:
        return put(out, c_int, VERSION)

    def _get_error_name(self, code: int, out: int) -> int:
        if code not in self._names:
            return INVALID_VALUE
        return put(out, c_void_p, ctypes.addressof(self._names[code]))

    def _device_get_count(self, out: int) -> int:
        return put(out, c_int, 1)

    def _device_get(self, out: int, number: int) -> int:
        return put(out, c_int, 0) if number == 0 else INVALID_DEVICE

    def _device_get_name(self, out: int, size: int, device: int) -> int:
        return put_text(out, size, NAME) if device == 0 else INVALID_DEVICE

    def _device_get_pcibus_id(self, out: int, size: int, device: int) -> int:
        return put_text(out, size, PCI_ADDRESS) if device == 0 else INVALID_DEVICE

    def _device_total_mem(self, out: int, device: int) -> int:
        return put(out, c_size_t, self.memory_bytes) if device == 0 else INVALID_DEVICE

    def _device_get_attribute(self, out: int, number: int, device: int) -> int:
        if device or number not in ATTRIBUTE_VALUES:
            return INVALID_VALUE
        return put(out, c_int, ATTRIBUTE_VALUES[number])

    def _device_primary_ctx_retain(self, out: int, device: int) -> int:
        return self._new(out, "context") if device == 0 else INVALID_DEVICE

    def _ctx_synchronize(self) -> int:
        return self._settled()

    def _ctx_set_current(self, context: int) -> int:
        self._has_context = self._objects.get(context) == "context"
        return SUCCESS if self._has_context else INVALID_CONTEXT
