"""Facts of the GPUs of this machine, as the driver states them."""

from dataclasses import dataclass, replace
from typing import Final

from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.gpus import PRESETS, Gpu
from ansorpy.target import GpuTarget, gpu_target

# A GPU without a preset: float32 multiply-adds of an SM in a clock as since 8.6 ("Arithmetic
# Instructions", CUDA C++ Programming Guide 13.0); the bfloat16 rate is an estimate.
UNKNOWN: Final = replace(PRESETS["sm_90"], bf16_per_clock=512)
TRANSFERS_PER_CLOCK: Final = 2  # memory with double data rate


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A GPU of this machine.

    Args:
        number: index among the GPUs that the process may use.
        name: marketing name.
        arch: LLVM's name of the architecture, such as `sm_90`.
        memory_bytes: size of its memory.
        driver: newest version of CUDA that the driver supports, such as `13.0`.
        pci_address: its place on the bus, such as `0000:1B:00.0`.
    """

    number: int
    name: str
    arch: str
    memory_bytes: int
    driver: str
    pci_address: str
    gpu: Gpu

    @property
    def target(self) -> GpuTarget:
        """The target of kernels for this GPU."""
        return gpu_target(self.arch, self.gpu)


def facts_of(driver: GpuDriver, number: int) -> DeviceFacts:
    """Return the facts of a GPU; no context is needed.

    Raises:
        DeviceError: there is no such GPU.
    """
    major, minor = (driver.attribute(number, name) for name in ("major", "minor"))
    arch = f"sm_{major}{minor}"
    return DeviceFacts(
        number,
        driver.name(number),
        arch,
        driver.memory_bytes(number),
        "{}.{}".format(*driver.version()),
        driver.pci_address(number),
        _gpu(driver, number, arch),
    )


def _gpu(driver: GpuDriver, number: int, arch: str) -> Gpu:
    def asked(name: str) -> int:
        return driver.attribute(number, name)

    bytes_per_clock = TRANSFERS_PER_CLOCK * asked("memory_bus_bits") / 8
    return replace(  # no attribute tells the rest, which is the same since compute capability 8.0
        PRESETS.get(arch, UNKNOWN),
        sms=asked("sms"),
        registers_per_sm=asked("registers_per_sm"),
        shared_bytes_per_sm=asked("shared_bytes_per_sm"),
        shared_bytes_per_block=asked("shared_bytes_per_block"),
        shared_bytes_reserved=asked("shared_bytes_reserved"),
        max_threads_per_sm=asked("max_threads_per_sm"),
        max_threads_per_block=asked("max_threads_per_block"),
        max_blocks_per_sm=asked("max_blocks_per_sm"),
        warp=asked("warp"),
        l2_bytes=asked("l2_bytes"),
        memory_bytes_per_s=1e3 * asked("memory_clock_khz") * bytes_per_clock,
        clock_hz=1e3 * asked("clock_khz"),
    )
