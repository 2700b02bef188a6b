"""Cache occupancy of one iteration: whole lines, with conflicts of lines in the same set.

Ansor counts bytes. Fourteen rows of a matrix 4096 bytes apart are 14 lines of the same set: a
cache of eight ways holds eight of them, regardless of its size.
"""

from dataclasses import dataclass, field

from ansorpy.features.access import Touched
from ansorpy.features.column_program import ColumnValue
from ansorpy.features.region import LINE_BYTES, PAGE_BYTES, Footprint
from ansorpy.features.walk import EnclosingLoop
from ansorpy.target import Target


@dataclass(frozen=True, eq=False)
class Occupancy:
    """A cache, and the bytes of it that all statements in an iteration of a loop occupy."""

    touched: Touched
    size_bytes: int

    _known: dict[int, ColumnValue] = field(default_factory=dict)

    def per_iteration(self, loop: EnclosingLoop) -> ColumnValue:
        """Return the bytes of one iteration; a buffer counts once, with its largest region."""
        if loop.number not in self._known:
            self._known[loop.number] = self.touched.together(loop, self._bytes)
        return self._known[loop.number]

    def _bytes(self, footprint: Footprint, depth: int) -> ColumnValue:
        plain = footprint.lines(depth) * footprint.access.element_bytes
        places = footprint.places(depth)
        if places is None:
            return plain
        piled = plain / LINE_BYTES / places  # lines per place; a cache has room for one per page
        crowded = piled > self.size_bytes // PAGE_BYTES
        return footprint.builder.where(crowded, piled * PAGE_BYTES, plain)


@dataclass(frozen=True, eq=False)
class Caches:
    """Occupancy of L1 and L2 by the iterations of a program; of a GPU, L2 is shared memory."""

    touched: Touched
    first: Occupancy
    second: Occupancy


def caches(touched: Touched, target: Target) -> Caches:
    """Return the caches of a program."""
    first, second = (Occupancy(touched, size) for size in (target.l1_bytes, target.scratch_bytes))
    return Caches(touched, first, second)
