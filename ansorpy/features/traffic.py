"""What of a statement's data comes from beyond a cache, and how often a walk through it begins."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from ansorpy.features.occupancy import Caches, Occupancy
from ansorpy.features.region import Footprint
from ansorpy.features.tape import Tape, Value
from ansorpy.features.walk import Statement

_STREAMS: Final = 10  # stretches of memory that are read side by side without waiting for each
_WINDOW_BYTES: Final = 4096  # what is on its way at once, whatever the order: about 64 lines


class Traffic:
    """The traffic of one statement, in bytes of whole lines, in warm calls."""

    def __init__(
        self, caches: Caches, statement: Statement, footprints: Sequence[Footprint]
    ) -> None:
        self.caches = caches
        self.tape: Tape = caches.found.made.tape
        self.statement = statement
        self.footprints = footprints

    def past(self, cache: Occupancy) -> Value:
        """Return the bytes that come from beyond a cache.

        From the inside out: while what all statements touch in one iteration of a loop fits, the
        loop fetches its footprint once; from there on every iteration fetches all again.
        """
        parts = (self._past_of(each, cache) for each in self.footprints)
        return reduce(Value.__add__, parts, self.tape.const(0))

    def _past_of(self, footprint: Footprint, cache: Occupancy) -> Value:
        size = footprint.access.element_bytes
        bytes_ = footprint.lines(len(self.statement.loops)) * size
        for depth in range(len(self.statement.loops) - 1, -1, -1):
            loop = self.statement.loops[depth]
            if loop.extent.equals(1):
                continue
            fits = cache.per_iteration(loop) <= cache.size_bytes
            whole = footprint.lines(depth) * size
            bytes_ = self.tape.where(fits, whole, bytes_ * loop.extent)
        bytes_ = bytes_ * 2 if footprint.access.writes else bytes_
        return self.tape.where(self.caches.found.whole_bytes <= cache.size_bytes, 0, bytes_)

    def waits(self) -> Value:
        """Return how many regions are begun beyond the second cache.

        A region is what is walked, from the inside out, as long as it consists of few stretches
        of memory: rows side by side are one, the next strip of columns is another.
        """
        total = self.tape.const(0)
        for footprint in self.footprints:
            size = footprint.access.element_bytes
            whole = reduce(Value.__mul__, footprint.access.shape, self.tape.const(size))
            small = whole <= self.caches.second.size_bytes
            if small.equals(1):
                continue  # a smaller tensor soon lies in the cache
            region = (self._region(footprint) * size).at_least(_WINDOW_BYTES)
            far = self._past_of(footprint, self.caches.second)
            waits = far / region
            total = total + self.tape.where(small, 0, waits)
        return total

    def _region(self, footprint: Footprint) -> Value:
        """Return the elements that are walked as at most so many stretches of memory.

        Stretches longer than what is on its way at once do not lie side by side: they are begun
        one after the other.
        """
        one = self.tape.const(1)
        walked, still, pieces, stretch = one, one, one, one
        longest = _WINDOW_BYTES // footprint.access.element_bytes
        for depth in range(len(self.statement.loops) - 1, -1, -1):
            if self.statement.loops[depth].extent.equals(1):
                continue
            elements, dims = footprint.elements[depth], footprint.dims[depth]
            run = dims[-1] if dims else one
            if len(dims) > 1:  # whole rows go on in the next one
                run = self.tape.where(footprint.access.shape[-1] <= run, run * dims[-2], run)
            now = elements / run
            beside = self.tape.apply("or", now <= pieces, stretch <= longest)
            still = self.tape.where(elements <= run * _STREAMS, still, 0)
            still = self.tape.where(beside, still, 0)
            walked = self.tape.where(still, elements, walked)
            pieces, stretch = now, run
        return walked
