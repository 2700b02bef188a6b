"""A program on device memory as one call: its launches as a graph, timed by events."""

import weakref
from collections.abc import Callable, Sequence
from typing import Final

from ansorpy.codegen.simt.device.driver import GpuDriver
from ansorpy.codegen.simt.device.memory import DeviceArena

FLUSHES: Final = 2  # sizes of the L2 cache that are overwritten, so that none of it is left
Start = Callable[[], None]  # launches a kernel in the stream


class Replay:
    """Launches as an executable graph, captured once, and two events."""

    def __init__(self, driver: GpuDriver, starts: Sequence[Start]) -> None:
        self.driver = driver
        driver.begin_capture()
        try:
            for start in starts:
                start()
        except BaseException:
            driver.drop_capture()
            raise
        self._graph = driver.end_capture()
        self._events = driver.event(), driver.event()
        weakref.finalize(self, _freed, driver, self._graph, self._events)

    def start(self) -> None:
        """Run the graph after earlier work of the stream."""
        self.driver.replay(self._graph)

    def seconds(self, loops: int) -> float:
        """Return the seconds of `loops` replays in a row, by the clock of the device."""
        first, last = self._events
        self.driver.record(first)
        for _ in range(loops):
            self.start()
        self.driver.record(last)
        return self.driver.elapsed_s(first, last)


class GraphCall:
    """The launches of a program on a device copy of its buffers.

    `seconds` times them by the clock of the device, without copies of buffers: with the caches
    of the replay before, or after the L2 cache was overwritten (`cold`).

    Args:
        starts: the launches.
        arena: the device copy.
        addresses: the originals, which a call updates.
        owner: kept alive: the modules.
    """

    def __init__(
        self,
        driver: GpuDriver,
        starts: Sequence[Start],
        arena: DeviceArena,
        addresses: tuple[int, ...],
        owner: object,
        flush_bytes: int = 0,
    ) -> None:
        self._driver, self._starts, self._arena = driver, tuple(starts), arena
        self._addresses, self._owner = addresses, owner
        self._replay = Replay(driver, starts)
        self._flush_bytes = flush_bytes
        self._flush = driver.allocate(flush_bytes) if flush_bytes else 0
        if self._flush:
            weakref.finalize(self, driver.free, self._flush)

    def __call__(self) -> None:
        """Run the launches once and copy every buffer back.

        Raises:
            OverrunError: a kernel wrote beside a buffer.
            DeviceFault: a kernel failed; this process must be replaced.
        """
        self._replay.start()
        self._driver.wait("run a graph")
        self._arena.download(self._addresses)

    def cold(self, flush_bytes: int = 0) -> "GraphCall":
        """Return the call with the L2 cache overwritten before every timed replay.

        Args:
            flush_bytes: overwritten bytes; 0: twice the L2 cache.
        """
        flush_bytes = flush_bytes or FLUSHES * self._driver.attribute(
            self._driver.device, "l2_bytes"
        )
        return GraphCall(
            self._driver,
            self._starts,
            self._arena,
            self._addresses,
            (self._owner, self),
            flush_bytes,
        )

    def seconds(self, loops: int) -> float:
        """Return the seconds of `loops` replays by the clock of the device, flushes left out."""
        if not self._flush:
            return self._replay.seconds(loops)
        total = 0.0
        for turn in range(loops):
            self._driver.fill_in_stream(self._flush, turn % 256, self._flush_bytes)
            total += self._replay.seconds(1)
        return total


def _freed(driver: GpuDriver, graph: int, events: Sequence[int]) -> None:
    driver.free_graph(graph)
    for event in events:
        driver.free_event(event)
