"""The GPUs of this machine, found in a process of its own.

A process that has started the driver must not be forked, and a driver may hang or crash.
"""

import ctypes
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, Final

from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.codegen.simt.device.facts import DeviceFacts, facts_of
from ansorpy.codegen.simt.device.functions import driver_library
from ansorpy.codegen.simt.driver import LIBRARY
from ansorpy.errors import DeviceError
from ansorpy.gpus import Gpu
from ansorpy.target import GpuTarget

TIMEOUT_S: Final = 60.0  # a driver without its daemon initialises GPUs for seconds


def present_gpu() -> GpuTarget | None:
    """Return the target of the first GPU that this process may use; None without one."""
    found = present_gpus()
    return found[0].target if found else None


@cache
def present_gpus() -> tuple[DeviceFacts, ...]:
    """Return the GPUs that this process may use, in the driver's order; asked for once."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return ()
    command = [sys.executable, "-P", "-m", __name__]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S,
            check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()
    return read_facts(done.stdout)


def facts_text(driver: GpuDriver) -> str:
    """Return the facts of all GPUs as JSON."""
    return json.dumps([asdict(facts_of(driver, number)) for number in range(driver.count())])


def read_facts(text: str) -> tuple[DeviceFacts, ...]:
    """Read the facts of GPUs; none if the text is no such JSON."""
    try:
        found: Sequence[Mapping[str, Any]] = json.loads(text)
        return tuple(DeviceFacts(**{**one, "gpu": Gpu(**one["gpu"])}) for one in found)
    except (ValueError, TypeError, KeyError):
        return ()


def _main() -> None:
    try:
        print(facts_text(GpuDriver(driver_library())))  # noqa: T201 - the answer of this process
    except DeviceError:
        print("[]")  # noqa: T201


if __name__ == "__main__":
    _main()
