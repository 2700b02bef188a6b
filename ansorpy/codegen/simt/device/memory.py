"""Device memory for the buffers of a kernel, between red zones."""

import weakref
from collections.abc import Sequence
from typing import Final

import numpy as np

from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.errors import OverrunError
from ansorpy.loopir.nodes import Buffer

ZONE_BYTES: Final = 64 * 1024  # on both sides: a whole tile of rows beside a buffer
ALIGNMENT: Final = 256  # bytes, as new device memory has


class DeviceArena:
    """A copy of every buffer in device memory.

    A copy lies as its original does within 256 bytes, so that a kernel finds the alignment that
    its caller gave it. Its neighbours hold a byte that must neither matter nor change.
    """

    def __init__(self, driver: GpuDriver, buffers: Sequence[Buffer]) -> None:
        self._driver, self._buffers = driver, tuple(buffers)
        self._sizes = [one.size_bytes for one in buffers]
        self._starts: list[int] = []
        self._byte = 0
        self.addresses: tuple[int, ...] = ()
        weakref.finalize(self, _freed, driver, self._starts)
        for size in self._sizes:
            self._starts.append(driver.allocate(self._whole(size)))

    def upload(self, addresses: Sequence[int], byte: int) -> None:
        """Copy every buffer to the device, in order.

        Args:
            addresses: of the buffers in this process.
            byte: contents of the red zones.
        """
        self._byte = byte
        self.addresses = tuple(
            start + ZONE_BYTES + address % ALIGNMENT
            for start, address in zip(self._starts, addresses, strict=True)
        )
        for k, size in enumerate(self._sizes):
            self._driver.fill(self._starts[k], byte, self._whole(size))
            if size:
                self._driver.copy_in(self.addresses[k], addresses[k], size)

    def download(self, addresses: Sequence[int]) -> None:
        """Copy every buffer back.

        Raises:
            OverrunError: a red zone has changed.
        """
        for k, size in enumerate(self._sizes):
            if size:
                self._driver.copy_out(addresses[k], self.addresses[k], size)
            self._check_zones(k, size)

    def _check_zones(self, k: int, size: int) -> None:
        start, body = self._starts[k], self.addresses[k]
        end = start + self._whole(size)
        for first, last in ((start, body), (body + size, end)):
            held = np.empty(last - first, np.uint8)
            self._driver.copy_out(held.ctypes.data, first, held.size)
            changed = np.flatnonzero(held != self._byte)
            if changed.size:
                at = int(changed[0]) + first - body
                raise OverrunError(
                    f"wrote {at} bytes from the start of {self._buffers[k].name} on the GPU,"
                    f" which has {size}"
                )

    @staticmethod
    def _whole(size: int) -> int:
        return size + 2 * ZONE_BYTES + ALIGNMENT


def _freed(driver: GpuDriver, starts: Sequence[int]) -> None:
    for start in starts:
        driver.free(start)
