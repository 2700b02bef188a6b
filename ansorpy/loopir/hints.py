"""Hints of a tile to the code generator.

The file needs the standard library only: `simd.py` of a delivered kernel holds a copy of it.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Hints:
    """Requests for faster code; a hint never changes the values that a tile stores.

    `reload`: load elements that other tiles read as well again, instead of keeping them in
    registers; with many accumulators LLVM would spill them.
    `non_temporal`: store whole cache lines past the caches.
    `in_order`: load nothing before the loads of the statements above; LLVM moves the loads of
    unrolled copies to the front, more than there are registers, and would spill them.
    """

    reload: bool = False
    non_temporal: bool = False
    in_order: bool = False

    def __str__(self) -> str:
        """Return the hints that are given, as the arguments that make them again."""
        given = ((one.name, getattr(self, one.name), one.default) for one in fields(self))
        return ", ".join(f"{name}={value!r}" for name, value, plain in given if value != plain)
