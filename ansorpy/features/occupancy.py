"""What of a cache one iteration occupies: whole lines, piled up where strides meet the same sets.

Ansor counts bytes. Fourteen rows of a matrix 4096 bytes apart are 14 lines, but all of one set: a
cache of eight ways holds eight of them, however large it is.
"""

from dataclasses import dataclass, field

from ansorpy.features.access import Touched
from ansorpy.features.column_program import ColumnValue
from ansorpy.features.region import LINE_BYTES, PAGE_BYTES, Footprint
from ansorpy.features.walk import EnclosingLoop
from ansorpy.target import Target


@dataclass(frozen=True, eq=False)
class Occupancy:
    """A cache, and the bytes of it that an iteration of a loop takes, all statements together."""

    found: Touched
    size_bytes: int

    _known: dict[int, ColumnValue] = field(default_factory=dict)

    def per_iteration(self, loop: EnclosingLoop) -> ColumnValue:
        """Return the bytes of one iteration. A buffer counts once, with its largest part."""
        if loop.number not in self._known:
            self._known[loop.number] = self.found.together(loop, self._bytes)
        return self._known[loop.number]

    def _bytes(self, footprint: Footprint, depth: int) -> ColumnValue:
        plain = footprint.lines(depth) * footprint.access.element_bytes
        places = footprint.places(depth)
        if places is None:
            return plain
        piled = plain / LINE_BYTES / places  # a cache holds as many of them as it holds pages
        crowded = piled > self.size_bytes // PAGE_BYTES
        return footprint.builder.where(crowded, piled * PAGE_BYTES, plain)


@dataclass(frozen=True, eq=False)
class Caches:
    """What the iterations of a program take of the first and the second cache."""

    found: Touched
    first: Occupancy
    second: Occupancy


def caches(found: Touched, target: Target) -> Caches:
    """Return the caches of a program."""
    first, second = (Occupancy(found, size) for size in (target.l1_bytes, target.l2_bytes))
    return Caches(found, first, second)
