"""GPU of this machine as a back end of `measure`, through NVIDIA's driver by ctypes."""

from functools import cache

from ansorpy.codegen.simt.device.backend import build_texts
from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.codegen.simt.device.functions import driver_library
from ansorpy.codegen.simt.device.kernel import DeviceCode, DeviceKernel
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.loopir.nodes import Program
from ansorpy.target import Target

BUILT = DeviceCode


def build(program: Program, target: Target) -> DeviceCode:
    """Compile a tiled program for the architecture of a target; no GPU is needed.

    Raises:
        BuildError: the program has no kernels, or they cannot be compiled.
    """
    return build_texts(simt_code(program, target), target.cpu)


def load(built: DeviceCode) -> DeviceKernel:
    """Load kernels on the first GPU that this process may use.

    Raises:
        BuildError: the launches do not fit the kernels.
        DeviceError: there is no GPU, or a module does not load.
    """
    return DeviceKernel(built, driver())


@cache
def driver() -> GpuDriver:
    """Return the driver with the context of this process, made at the first call.

    A process that called it must not be forked.

    Raises:
        DeviceError: there is no driver or no GPU.
    """
    opened = GpuDriver(driver_library())
    opened.open()
    return opened
