"""What of a statement's data comes from beyond a cache, and how often a walk through it begins."""

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import Final

from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.occupancy import Caches, Occupancy
from ansorpy.features.region import LINE_BYTES, Footprint
from ansorpy.features.walk import StoreStatement

_STREAMS: Final = 10  # stretches of memory that are read side by side without waiting for each
_FOLLOWED: Final = 16  # as many a prefetcher follows at once, each to its end
_WINDOW_BYTES: Final = 4096  # what is on its way at once, whatever the order: about 64 lines


class Traffic:
    """The traffic of one statement, in bytes of whole lines, in warm calls."""

    def __init__(
        self, caches: Caches, statement: StoreStatement, footprints: Sequence[Footprint]
    ) -> None:
        self.caches = caches
        self.builder: ColumnBuilder = caches.found.made.builder
        self.statement = statement
        self.footprints = footprints

    def past(self, cache: Occupancy) -> ColumnValue:
        """Return the bytes that come from beyond a cache.

        From the inside out: while what all statements touch in one iteration of a loop fits, the
        loop fetches its footprint once; from there on every iteration fetches all again.
        """
        parts = (self._past_of(each, cache) for each in self.footprints)
        return reduce(ColumnValue.__add__, parts, self.builder.const(0))

    def far(self) -> ColumnValue:
        """Return the bytes that come from beyond the second cache."""
        return reduce(ColumnValue.__add__, self._far, self.builder.const(0))

    @cached_property
    def _far(self) -> tuple[ColumnValue, ...]:
        return tuple(self._past_of(each, self.caches.second) for each in self.footprints)

    def _past_of(self, footprint: Footprint, cache: Occupancy) -> ColumnValue:
        size = footprint.access.element_bytes
        bytes_ = footprint.lines(len(self.statement.loops)) * size
        for depth in range(len(self.statement.loops) - 1, -1, -1):
            loop = self.statement.loops[depth]
            if loop.extent.equals(1):
                continue
            fits = cache.per_iteration(loop) <= cache.size_bytes
            whole = footprint.lines(depth) * size
            bytes_ = self.builder.where(fits, whole, bytes_ * loop.extent)
        bytes_ = bytes_ * 2 if footprint.access.writes else bytes_
        return self.builder.where(self.caches.found.whole_bytes <= cache.size_bytes, 0, bytes_)

    def waits(self) -> ColumnValue:
        """Return how many regions are begun beyond the second cache.

        A region is what is walked, from the inside out, as long as it consists of few stretches
        of memory: rows side by side are one, the next strip of columns is another.
        """
        total = self.builder.const(0)
        for footprint, far in self._large():
            size = footprint.access.element_bytes
            region = (self._region(footprint) * size).at_least(_WINDOW_BYTES)
            total = total + far / region
        return total

    def stretches(self) -> ColumnValue:
        """Return how many stretches of memory are read from beyond the second cache.

        What a prefetcher foresees ends with a stretch: the rows of a strip of columns are one each.
        """
        total = self.builder.const(0)
        for footprint, far in self._large():
            if not footprint.access.writes:
                stretch = self._stretch(footprint) * footprint.access.element_bytes
                total = total + far / stretch.at_least(LINE_BYTES)
        return total

    def _large(self) -> Iterator[tuple[Footprint, ColumnValue]]:
        """Yield what comes from beyond the second cache of what it does not hold as a whole.

        A smaller tensor soon lies in it.
        """
        for footprint, far in zip(self.footprints, self._far, strict=True):
            size = self.builder.const(footprint.access.element_bytes)
            whole = reduce(ColumnValue.__mul__, footprint.access.shape, size)
            small = whole <= self.caches.second.size_bytes
            if not small.equals(1):
                yield footprint, self.builder.where(small, 0, far)

    def _stretch(self, footprint: Footprint) -> ColumnValue:
        """Return how long the stretches are that are walked side by side, few at a time."""
        walked, still = self.builder.const(1), self.builder.const(1)
        for depth in range(len(self.statement.loops) - 1, -1, -1):
            if self.statement.loops[depth].extent.equals(1):
                continue
            run = footprint.run(depth)
            still = self.builder.where(footprint.elements[depth] <= run * _FOLLOWED, still, 0)
            walked = self.builder.where(still, run, walked)
        return walked

    def _region(self, footprint: Footprint) -> ColumnValue:
        """Return the elements that are walked as at most so many stretches of memory.

        Stretches longer than what is on its way at once do not lie side by side: they are begun
        one after the other.
        """
        one = self.builder.const(1)
        walked, still, pieces, stretch = one, one, one, one
        longest = _WINDOW_BYTES // footprint.access.element_bytes
        for depth in range(len(self.statement.loops) - 1, -1, -1):
            if self.statement.loops[depth].extent.equals(1):
                continue
            elements = footprint.elements[depth]
            run = footprint.run(depth)
            now = elements / run
            beside = self.builder.apply("or", now <= pieces, stretch <= longest)
            still = self.builder.where(elements <= run * _STREAMS, still, 0)
            still = self.builder.where(beside, still, 0)
            walked = self.builder.where(still, elements, walked)
            pieces, stretch = now, run
        return walked
