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

_PAGE_BYTES: Final = 4096  # within a page the places of lines decide on their sets, in any cache


@dataclass(frozen=True, eq=False)
class Occupancy:
    """A cache, and the bytes of it that an iteration of a loop takes, all statements together."""

    found: Touched
    size_bytes: int

    _known: dict[int, Value] = field(default_factory=dict)

    def per_iteration(self, loop: Loop) -> Value:
        """Return the bytes of one iteration. A buffer counts once, with its largest part."""
        if loop.number not in self._known:
            self._known[loop.number] = self.found.together(loop, self._bytes)
        return self._known[loop.number]

    def _bytes(self, footprint: Footprint, depth: int) -> Value:
        plain = footprint.lines(depth) * footprint.access.element_bytes
        places = self._places(footprint, depth)
        if places is None:
            return plain
        piled = plain / LINE_BYTES / places
        crowded = piled > self.size_bytes // _PAGE_BYTES
        return footprint.tape.where(crowded, piled * _PAGE_BYTES, plain)

    def _places(self, footprint: Footprint, depth: int) -> Value | None:
        """Return at how many places of a page lines begin, None where they spread over all.

        A cache holds as many lines of one place as it holds pages.
        """
        access, run = footprint.access, footprint.in_a_row(depth)
        tape, count = footprint.tape, _PAGE_BYTES // LINE_BYTES
        begun, apart, crowded = tape.const(1), tape.const(1), False
        pitch = tape.const(access.element_bytes)
        for d in range(1, len(access.shape)):
            extent = footprint.dims[depth][-1 - d]
            pitch = pitch * access.shape[-d]
            if not pitch.is_constant:
                return None
            places = _PAGE_BYTES // gcd(int(pitch.constant), _PAGE_BYTES)
            if d < len(run):  # in one row with those before
                extent = extent / run[d]
            crowded |= places < count and not extent.equals(1)
            begun = begun * extent.at_most(places)
            apart = apart.at_least(tape.where(extent > 1, places, 1))
        if not crowded:
            return None
        lines = footprint.run(depth) * (access.element_bytes / LINE_BYTES) + (1 - 1 / LINE_BYTES)
        return (lines.unary("floor").at_least(1) * begun.at_most(apart)).at_most(count)


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
