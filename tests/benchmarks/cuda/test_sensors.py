"""Clocks, power and temperature through C functions of the management library's signatures."""

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

from benchmarks.cuda.sensors import SIGNATURES, Reading, Sensors, library_call

HANDLE = 0x77
VALUES = {
    ("nvmlDeviceGetClockInfo", 1): 1755,
    ("nvmlDeviceGetClockInfo", 2): 2619,
    ("nvmlDeviceGetMaxClockInfo", 1): 1980,
    ("nvmlDeviceGetPowerUsage",): 312_500,
    ("nvmlDeviceGetEnforcedPowerLimit",): 700_000,
    ("nvmlDeviceGetTemperature", 0): 51,
    ("nvmlDeviceGetCurrentClocksThrottleReasons",): 1 << 40,
}


def library(bus: bytes, broken: str = "") -> Callable[..., int]:
    """Return calls of C functions that know one GPU; the broken one fails."""

    def body(name: str, *arguments: Any) -> int:
        if name == broken:
            return 3
        match name, arguments:
            case "nvmlInit_v2", ():
                return 0
            case "nvmlSystemGetDriverVersion", (text, size):
                ctypes.memmove(text, b"580.95.05\0"[:size], 10)
                return 0
            case "nvmlDeviceGetHandleByPciBusId_v2", (asked, out):
                c_void_p.from_address(out).value = HANDLE
                return 0 if asked == bus else 6
            case _, (handle, *rest, out):
                wide = name == "nvmlDeviceGetCurrentClocksThrottleReasons"
                kind = c_ulonglong if wide else c_uint
                kind.from_address(out).value = VALUES[name, *rest]
                return 0 if handle == HANDLE else 2
            case _:
                return 1

    made = {
        name: ctypes.CFUNCTYPE(c_int, *types)(lambda *given, name=name: body(name, *given))
        for name, types in SIGNATURES.items()
    }
    return lambda name, *arguments: made[name](*arguments)


def test_a_reading_has_the_units_of_its_names() -> None:
    sensors = Sensors(library(b"0000:1B:00.0"), "0000:1B:00.0")
    assert sensors.driver() == "580.95.05"
    assert sensors.read() == Reading(1755, 2619, 1980, 312.5, 700.0, 51, 1 << 40)


def test_a_value_unknown_to_the_library_is_none() -> None:
    unknown = Sensors(library(b"0000:1B:00.0"), "0000:2C:00.0")
    assert unknown.read() == Reading()
    assert unknown.driver() == ""
    partly = Sensors(library(b"0", broken="nvmlDeviceGetPowerUsage"), "0").read()
    assert (partly.power_w, partly.temperature_c) == (None, 51)
    assert Sensors(library(b"0", broken="nvmlInit_v2"), "0").read() == Reading()


def test_without_the_library_there_are_no_readings() -> None:
    assert library_call("no.so.9") is None
    assert Sensors(None, "0").read() == Reading()
    found = library_call("libc.so.6")
    assert found is not None
    assert Sensors(found, "0").read() == Reading()  # it has none of the functions
