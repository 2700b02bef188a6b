"""Memory traffic of a statement beyond a cache, and the number of its non-prefetched starts."""

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import Final

from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.occupancy import Caches, Occupancy
from ansorpy.features.region import LINE_BYTES, Footprint
from ansorpy.features.walk import StoreStatement

_STREAMS: Final = 10  # contiguous stretches that are read concurrently without a wait for each
_FOLLOWED: Final = 16  # stretches that a hardware prefetcher follows at a time, each to its end
_WINDOW_BYTES: Final = 4096  # bytes in flight at a time, in any order: about 64 lines


class Traffic:
    """The traffic of one statement in bytes of whole lines, in calls after the first."""

    def __init__(
        self, caches: Caches, statement: StoreStatement, footprints: Sequence[Footprint]
    ) -> None:
        self.caches = caches
        self.builder: ColumnBuilder = caches.touched.stores.builder
        self.statement = statement
        self.footprints = footprints

    def past(self, cache: Occupancy) -> ColumnValue:
        """Return the bytes that come from beyond a cache.

        From the innermost loop outward: as long as one iteration of all statements fits the cache,
        the loop fetches its footprint once; further out, every iteration fetches it again.
        """
        parts = (self._past_of(each, cache) for each in self.footprints)
        return reduce(ColumnValue.__add__, parts, self.builder.const(0))

    def far(self) -> ColumnValue:
        """Return the bytes that come from beyond the L2 cache."""
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
        return self.builder.where(self.caches.touched.whole_bytes <= cache.size_bytes, 0, bytes_)

    def waits(self) -> ColumnValue:
        """Return the number of regions beyond the L2 cache, each of which begins with a wait.

        A region is the largest footprint, from the innermost loop outward, of few contiguous
        stretches: adjacent rows are one region, the next strip of columns is another.
        """
        total = self.builder.const(0)
        for footprint, far in self._large():
            size = footprint.access.element_bytes
            region = (self._region(footprint) * size).at_least(_WINDOW_BYTES)
            total = total + far / region
        return total

    def stretches(self) -> ColumnValue:
        """Return the number of contiguous stretches that are read from beyond the L2 cache.

        A hardware prefetcher stops at the end of a stretch; every row of a strip of columns is a
        stretch.
        """
        total = self.builder.const(0)
        for footprint, far in self._large():
            if not footprint.access.writes:
                stretch = self._stretch(footprint) * footprint.access.element_bytes
                total = total + far / stretch.at_least(LINE_BYTES)
        return total

    def _large(self) -> Iterator[tuple[Footprint, ColumnValue]]:
        """Yield the traffic beyond the L2 cache of every tensor that exceeds it.

        A smaller tensor is in the cache after its first use.
        """
        for footprint, far in zip(self.footprints, self._far, strict=True):
            size = self.builder.const(footprint.access.element_bytes)
            whole = reduce(ColumnValue.__mul__, footprint.access.shape, size)
            small = whole <= self.caches.second.size_bytes
            if not small.equals(1):
                yield footprint, self.builder.where(small, 0, far)

    def _stretch(self, footprint: Footprint) -> ColumnValue:
        """Return the length of the stretches that are read concurrently, few at a time."""
        walked, still = self.builder.const(1), self.builder.const(1)
        for depth in range(len(self.statement.loops) - 1, -1, -1):
            if self.statement.loops[depth].extent.equals(1):
                continue
            run = footprint.run(depth)
            still = self.builder.where(footprint.elements[depth] <= run * _FOLLOWED, still, 0)
            walked = self.builder.where(still, run, walked)
        return walked

    def _region(self, footprint: Footprint) -> ColumnValue:
        """Return the elements of a region: the footprint of at most _STREAMS stretches.

        Stretches longer than the window in flight do not overlap: each begins with a wait.
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
