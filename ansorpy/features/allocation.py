"""Feature group 4: the buffer that a store fills, and where it is allocated."""

from functools import reduce
from typing import Final

from ansorpy.features.tape import Tape, Value
from ansorpy.features.walk import Statement

NAMES: Final = ("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod")


def features(tape: Tape, statement: Statement) -> list[Value]:
    """Return bytes, bytes times allocations, allocations, and iterations inside each of them."""
    one = tape.const(1)
    access = statement.accesses[0]
    extents = [loop.extent for loop in statement.loops]
    size = reduce(Value.__mul__, access.shape, tape.const(access.element_bytes))
    outer = reduce(Value.__mul__, extents[: access.allocated_at], one)
    inner = reduce(Value.__mul__, extents[access.allocated_at :], one)
    return [size, size * outer, outer, inner]
