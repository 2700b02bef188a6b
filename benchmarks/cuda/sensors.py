"""Clocks, power and temperature of a GPU, from NVIDIA's management library by ctypes."""

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import Any, Final

LIBRARY: Final = "libnvidia-ml.so.1"  # part of the driver
SM_CLOCK, MEMORY_CLOCK = 1, 2  # nvmlClockType_t
TEMPERATURE: Final = 0  # nvmlTemperatureSensors_t: the chip
TEXT_BYTES: Final = 96
SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "nvmlInit_v2": (),
    "nvmlSystemGetDriverVersion": (c_void_p, c_uint),
    "nvmlDeviceGetHandleByPciBusId_v2": (c_char_p, c_void_p),
    "nvmlDeviceGetClockInfo": (c_void_p, c_uint, c_void_p),
    "nvmlDeviceGetMaxClockInfo": (c_void_p, c_uint, c_void_p),
    "nvmlDeviceGetPowerUsage": (c_void_p, c_void_p),
    "nvmlDeviceGetEnforcedPowerLimit": (c_void_p, c_void_p),
    "nvmlDeviceGetTemperature": (c_void_p, c_uint, c_void_p),
    "nvmlDeviceGetCurrentClocksThrottleReasons": (c_void_p, c_void_p),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of a GPU at one moment; None if it is not known.

    Args:
        throttle: bits of `nvmlClocksEventReasons`, 0 if nothing lowers the clocks.
    """

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    sm_most_mhz: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    throttle: int | None = None


class Sensors:
    """The sensors of a GPU.

    Args:
        call: calls a function of the library by name and returns its code, 0 for success; None
            if there is no library.
        pci_address: place of the GPU on the bus.
    """

    def __init__(self, call: Callable[..., int] | None, pci_address: str) -> None:
        self._call, self._handle = call, c_void_p()
        find = "nvmlDeviceGetHandleByPciBusId_v2"
        if call and (call("nvmlInit_v2") or call(find, pci_address.encode(), byref(self._handle))):
            self._call = None

    def driver(self) -> str:
        """Return the version of the driver, such as `580.95.05`; "" if it is not known."""
        text = ctypes.create_string_buffer(TEXT_BYTES)
        if self._call is None or self._call("nvmlSystemGetDriverVersion", text, TEXT_BYTES):
            return ""
        return text.value.decode(errors="replace")

    def read(self) -> Reading:
        """Return the state of the GPU now."""
        power, limit = (
            self._asked(name)
            for name in ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit")
        )
        return Reading(
            self._asked("nvmlDeviceGetClockInfo", SM_CLOCK),
            self._asked("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
            self._asked("nvmlDeviceGetMaxClockInfo", SM_CLOCK),
            None if power is None else power / 1e3,  # milliwatts
            None if limit is None else limit / 1e3,
            self._asked("nvmlDeviceGetTemperature", TEMPERATURE),
            self._asked("nvmlDeviceGetCurrentClocksThrottleReasons", out=c_ulonglong()),
        )

    def _asked(self, name: str, *arguments: int, out: Any = None) -> int | None:
        found = c_uint() if out is None else out
        if self._call is None or self._call(name, self._handle, *arguments, byref(found)):
            return None
        return int(found.value)


def library_call(library: str = LIBRARY) -> Callable[..., int] | None:
    """Return a function that calls the management library by name; None if it is not there."""
    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        return None

    def call(name: str, *arguments: Any) -> int:
        function = getattr(loaded, name, None)
        if function is None:
            return -1
        function.argtypes, function.restype = SIGNATURES[name], ctypes.c_int
        return int(function(*arguments))

    return call
