"""Feature group 4: the buffer that a store fills, and where it is allocated."""

from functools import reduce
from typing import Final

from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.walk import StoreStatement

NAMES: Final = ("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod")


def features(builder: ColumnBuilder, statement: StoreStatement) -> list[ColumnValue]:
    """Return bytes, bytes times allocations, allocations, and iterations per allocation."""
    one = builder.const(1)
    access = statement.accesses[0]
    extents = [loop.extent for loop in statement.loops]
    size = reduce(ColumnValue.__mul__, access.shape, builder.const(access.element_bytes))
    outer = reduce(ColumnValue.__mul__, extents[: access.allocated_at], one)
    inner = reduce(ColumnValue.__mul__, extents[access.allocated_at :], one)
    return [size, size * outer, outer, inner]
