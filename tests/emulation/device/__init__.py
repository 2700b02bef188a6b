"""Back end of `measure` as for a GPU, with the emulator of kernels in place of its driver.

Only tests and the short form of the harness name it: it proves that all calls of the driver are
right, and its times are times of this processor.
"""

from functools import cache

from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.codegen.simt.device.kernel import DeviceCode, DeviceKernel
from ansorpy.codegen.simt.launch import SimtCode
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.loopir.nodes import Program
from ansorpy.target import Target
from tests.emulation.device.device import EmulatedDevice

BUILT = DeviceCode


def build(program: Program, target: Target) -> DeviceCode:
    """Return the kernels of a tiled program; their images are LLVM text.

    Raises:
        BuildError: the program has no kernels.
    """
    return build_texts(simt_code(program, target), target.cpu)


def build_texts(code: SimtCode, arch: str) -> DeviceCode:
    """Return kernels with their text as images."""
    del arch
    return DeviceCode(tuple(text.encode() for text in code.texts), code.launches, code.buffers)


def load(built: DeviceCode) -> DeviceKernel:
    """Load kernels with the emulated driver of this process.

    Raises:
        BuildError: the launches do not fit the kernels.
        DeviceError: a module does not load.
    """
    return DeviceKernel(built, driver())


@cache
def driver() -> GpuDriver:
    """Return the emulated driver of this process with its context."""
    opened = GpuDriver(EmulatedDevice().library())
    opened.open()
    return opened
