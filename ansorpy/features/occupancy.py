"""What of a cache one iteration occupies: whole lines, piled up where strides meet the same sets.

Ansor counts bytes. Fourteen rows of a matrix 4096 bytes apart are 14 lines, but all of one set: a
cache of eight ways holds eight of them, however large it is.
"""

from dataclasses import dataclass, field
from math import gcd
from typing import Final

from ansorpy.features.access import Touched
from ansorpy.features.region import LINE_BYTES, Footprint
from ansorpy.features.tape import Value
from ansorpy.features.walk import Loop
from ansorpy.target import Target

_WAY_BYTES: Final = 4096  # of the first cache, which is indexed within a page
_WAYS: Final = 8


@dataclass(frozen=True, eq=False)
class Occupancy:
    """A cache, and the bytes of it that an iteration of a loop takes, all statements together."""

    found: Touched
    size_bytes: int
    way_bytes: int = 0  # how far apart two lines of one set are; 0: as if any line went anywhere

    _known: dict[int, Value] = field(default_factory=dict)

    def per_iteration(self, loop: Loop) -> Value:
        """Return the bytes of one iteration. A buffer counts once, with its largest part."""
        if loop.number not in self._known:
            self._known[loop.number] = self.found.together(loop, self._bytes)
        return self._known[loop.number]

    def _bytes(self, footprint: Footprint, depth: int) -> Value:
        plain = footprint.lines(depth) * footprint.access.element_bytes
        sets = self._sets(footprint, depth)
        if sets is None:
            return plain
        piled = plain / LINE_BYTES / sets  # lines of one set
        return footprint.tape.where(piled > _WAYS, piled * self.way_bytes, plain)

    def _sets(self, footprint: Footprint, depth: int) -> Value | None:
        """Return how many sets the lines fall into, None where they spread over all."""
        if not self.way_bytes or not footprint.dims[depth]:
            return None
        access, dims = footprint.access, footprint.dims[depth]
        tape, count = footprint.tape, self.way_bytes // LINE_BYTES
        run = dims[-1] * (access.element_bytes / LINE_BYTES)
        sets, crowded = (run + (1 - 1 / LINE_BYTES)).unary("floor").at_least(1), False
        pitch = tape.const(access.element_bytes)
        for extent, inner in zip(dims[-2::-1], access.shape[:0:-1], strict=True):
            pitch = pitch * inner
            if not pitch.is_constant:
                return None
            places = self.way_bytes // gcd(int(pitch.constant), self.way_bytes)
            crowded |= places < count and not extent.equals(1)
            sets = sets * extent.at_most(places)
        return sets.at_most(count) if crowded else None


@dataclass(frozen=True, eq=False)
class Caches:
    """What the iterations of a program take of the first and the second cache."""

    found: Touched
    first: Occupancy
    second: Occupancy


def caches(found: Touched, target: Target) -> Caches:
    """Return the caches of a program."""
    first = Occupancy(found, target.l1_bytes, _WAY_BYTES)
    return Caches(found, first, Occupancy(found, target.l2_bytes))
