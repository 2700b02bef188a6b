"""Is this core as fast as usual? What else runs on a shared real core takes up to half of it.

A virtual core may be one of two threads of a real one. Its neighbour belongs to somebody else,
costs no time slice, and shows in no counter of ours: seen was a core at 0.4 of its speed for 5 to
500 ms at a time. A loop of multiply-adds in registers, always the same, tells.
"""

import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from ansorpy.measure.guard import aligned_empty
from ansorpy.measure.roofline import fma_loop
from ansorpy.target import Target

STEPS: Final = 1000  # of the loop: 20 to 30 us
READINGS: Final = 6  # at most: after a pause wide vectors take some of them to come up to speed
ENOUGH: Final = 1.1  # times the least: no further reading
WINDOW: Final = 512  # readings that are remembered: clocks drift


class Gauge:
    """How much longer than usual a fixed piece of work takes now."""

    def __init__(
        self, work: Callable[[], object], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._work, self._clock = work, clock
        self._known_s: deque[float] = deque(maxlen=WINDOW)

    def slowdown(self) -> float:
        """Return the time it takes now over the least of the last readings, at least 1."""
        least = self._reading()
        for _ in range(READINGS - 1):
            if least <= ENOUGH:
                break
            least = min(least, self._reading())
        return least

    def _reading(self) -> float:
        start = self._clock()
        self._work()
        seconds = self._clock() - start
        self._known_s.append(seconds)
        return seconds / min(self._known_s)


@lru_cache(maxsize=1)
def core_gauge() -> Gauge:
    """Return the gauge of this process."""
    loop, size_bytes, _ = fma_loop(Target(), "float32")
    memory = aligned_empty(size_bytes, np.dtype(np.uint8))
    memory.fill(0)
    return Gauge(lambda: loop(STEPS, memory.ctypes.data))
