"""A program for a GPU as images of modules, and as kernels of this process."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.simt.device.call import GraphCall
from ansorpy.codegen.simt.device.driver import DeviceFunction, GpuDriver
from ansorpy.codegen.simt.device.memory import DeviceArena
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Buffer

# Contents of red zones: NaN and -1, then a small number; a kernel that reads them differs.
RED: Final = (0xFF, 0xA5)


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The kernels of a program, one image per launch: a cubin, or PTX."""

    images: tuple[bytes, ...]
    launches: tuple[Launch, ...]
    buffers: tuple[Buffer, ...]

    @property
    def phases(self) -> tuple[PhaseInfo, ...]:
        """The launches as phases; a task is a block."""
        return SimtCode((), self.launches, self.buffers).phases

    @property
    def steady(self) -> tuple[str, ...]:
        """No buffer is known to be only read."""
        return ()


@dataclass(frozen=True, slots=True)
class LoadedLaunch:
    """A launch and its kernel in a loaded module."""

    launch: Launch
    function: DeviceFunction

    def start(self, driver: GpuDriver, addresses: Sequence[int]) -> None:
        """Launch the kernel in the stream."""
        one = self.launch
        driver.launch(self.function, one.blocks, one.threads, addresses, one.dynamic_bytes)


class DeviceKernel:
    """Loaded kernels; `addresses` has the address of each of `buffers` in this process, in order.

    Every run copies all buffers to the device and back. The hardware chooses the order of blocks:
    `run_backwards` differs from `run` in the bytes beside the buffers only.

    Raises:
        BuildError: the launches do not fit the kernels.
        DeviceError: a module does not load.
    """

    def __init__(self, built: DeviceCode, driver: GpuDriver) -> None:
        self.buffers, self._driver = built.buffers, driver
        modules: list[int] = []
        weakref.finalize(self, _unload, driver, modules)
        if len(built.images) != len(built.launches):
            raise BuildError(
                f"cannot load {len(built.images)} images for {len(built.launches)} launches;"
                " expected one each"
            )
        self.launches = tuple(
            self._loaded(launch, image, modules)
            for launch, image in zip(built.launches, built.images, strict=True)
        )
        self._arena: DeviceArena | None = None

    def _loaded(self, launch: Launch, image: bytes, modules: list[int]) -> LoadedLaunch:
        modules.append(self._driver.load(image, launch.name))
        function = self._driver.kernel(modules[-1], launch.name)
        if not 1 <= launch.threads <= function.max_threads or launch.blocks < 1:
            raise BuildError(
                f"cannot launch {launch.name} on {launch.blocks} blocks of {launch.threads}"
                f" threads; expected at least one block of 1 to {function.max_threads} threads"
            )
        # A driver may count its own part of a block's shared memory.
        own = self._driver.attribute(self._driver.device, "shared_bytes_reserved")
        if function.shared_bytes > launch.shared_bytes + own:
            raise BuildError(
                f"cannot launch {launch.name} with {launch.shared_bytes} bytes of shared memory;"
                f" expected {function.shared_bytes}"
            )
        if launch.dynamic_bytes:
            self._driver.allow_dynamic(function, launch.dynamic_bytes)
        return LoadedLaunch(launch, function)

    def run(self, addresses: Sequence[int]) -> None:
        """Run the launches that are not ahead.

        Raises:
            OverrunError: a kernel wrote beside a buffer.
            DeviceFault: a kernel failed; this process must be replaced.
        """
        self._once(addresses, False, RED[0])

    def run_backwards(self, addresses: Sequence[int]) -> None:
        """As `run`, with other bytes beside the buffers."""
        self._once(addresses, False, RED[1])

    def run_ahead(self, addresses: Sequence[int]) -> None:
        """Run the launches that read constant inputs only."""
        if any(one.launch.ahead for one in self.launches):
            self._once(addresses, True, RED[0])

    def bind(self, addresses: Sequence[int]) -> GraphCall:
        """Return `run` as a call without arguments, on device memory of its own."""
        arena = DeviceArena(self._driver, self.buffers)
        arena.upload(addresses, RED[0])
        starts = [
            _bound(one, self._driver, arena.addresses)
            for one in self.launches
            if not one.launch.ahead
        ]
        return GraphCall(self._driver, starts, arena, tuple(addresses), self)

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        """Return `run` as a call without arguments; the threads of this machine do not matter."""
        del threads
        return self.bind(addresses)

    def _once(self, addresses: Sequence[int], ahead: bool, byte: int) -> None:
        if self._arena is None:
            self._arena = DeviceArena(self._driver, self.buffers)
        self._arena.upload(addresses, byte)
        for one in self.launches:
            if one.launch.ahead == ahead:
                one.start(self._driver, self._arena.addresses)
                self._driver.wait(f"run {one.launch.name}")
        self._arena.download(addresses)


def _bound(launch: LoadedLaunch, driver: GpuDriver, addresses: Sequence[int]) -> Callable[[], None]:
    return lambda: launch.start(driver, addresses)


def _unload(driver: GpuDriver, modules: Sequence[int]) -> None:
    for module in modules:
        driver.unload(module)
