"""Feature group 5: the loops around a store."""

from functools import reduce
from typing import Final

from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.walk import StoreStatement
from ansorpy.loopir.nodes import LoopKind

NAMES: Final = ("outer_prod", "num_loops", "auto_unroll_max_step")


def features(builder: ColumnBuilder, statement: StoreStatement) -> list[ColumnValue]:
    """Return iterations, the number of loops that run more than once, and the unroll budget."""
    # The steps of a dot-product instruction do not count, as in `compute`.
    extents = [loop.extent for loop in statement.loops if loop.kind is not LoopKind.DOT]
    product = reduce(ColumnValue.__mul__, extents, builder.const(1))
    number = reduce(
        ColumnValue.__add__,
        (builder.where(extent > 1, 1, 0) for extent in extents),
        builder.const(0),
    )
    return [product, number, statement.unroll]
