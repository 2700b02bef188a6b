"""Error codes of the driver as sentences, and as exceptions."""

from collections.abc import Mapping
from typing import Final

from ansorpy.errors import DeviceError, DeviceFault, DeviceMemoryError

OUT_OF_MEMORY: Final = 2
REASONS: Final[Mapping[int, str]] = {
    1: "an argument has a value that the driver refuses",
    OUT_OF_MEMORY: "the memory of the GPU is full",
    3: "the driver is not initialised",
    34: "the driver library is a stub of the toolkit; expected the library of a driver",
    36: "the driver is too old for the call",
    46: "another process has the GPU for itself",
    100: "there is no GPU",
    101: "there is no GPU of that number",
    200: "the image of the module is damaged",
    201: "no context is current",
    209: "the module has no machine code for the architecture of the GPU",
    214: "the memory of the GPU has an error that cannot be corrected",
    218: "the driver cannot compile the PTX",
    221: "the driver has no compiler for PTX; expected a cubin",
    222: "the PTX is newer than the driver",
    400: "a handle belongs to nothing that exists",
    500: "the module has no kernel of that name",
    600: "the work has not ended",
    700: "a kernel accessed memory outside of all allocations",
    701: "a block needs more registers, threads or shared memory than the GPU has",
    702: "a kernel ran beyond the time limit of the display",
    709: "the context was destroyed",
    710: "an assertion of a kernel failed",
    714: "the stack of a kernel is damaged",
    715: "a kernel has an instruction that the GPU does not know",
    716: "a kernel accessed memory at an address that its width does not divide",
    717: "a kernel accessed memory of another address space",
    718: "a kernel jumped out of its code",
    719: "a kernel failed",
    800: "the operation is not permitted",
    801: "the GPU or the driver does not support the operation",
    802: "the GPUs of the system are not ready",
    803: "the driver and its library have different versions",
    804: "the GPU does not support the compatibility library of the driver",
    900: "the operation is not permitted while a stream is captured",
    901: "an earlier error ended the capture of the stream",
    999: "an internal error of the driver",
}
# After one of these every call of the context fails with it: the process has to be replaced.
FAULTS: Final = frozenset({214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719})


def device_error(what: str, code: int, name: str, log: str = "") -> DeviceError:
    """Return the error of a call of the driver.

    Args:
        what: the failed action, as it follows "cannot".
        name: the driver's name of the code, with the code.
        log: further lines of the driver.
    """
    reason = REASONS.get(code, "of an error without a description here")
    told = f": {' '.join(log.split())}" if log.strip() else ""
    message = f"cannot {what} because {reason}: {name}{told}"
    if code in FAULTS:
        return DeviceFault(message)
    return DeviceMemoryError(message) if code == OUT_OF_MEMORY else DeviceError(message)
