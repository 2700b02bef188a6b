"""Broadcasting of shapes and indices, as in NumPy."""

from collections.abc import Sequence
from typing import TypeVar

from ansorpy.errors import SpecError

T = TypeVar("T")


def broadcast_shape(shapes: Sequence[tuple[int, ...]], name: str) -> tuple[int, ...]:
    """Return the shape of an element-by-element result.

    Args:
        shapes: the shape of every operand.
        name: the operator, for messages.

    Raises:
        SpecError: two extents of an axis, counted from the last, differ and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    result: list[int] = []
    for back in range(rank, 0, -1):
        extents = {shape[-back] for shape in shapes if len(shape) >= back}
        wide = extents - {1}
        if len(wide) > 1:
            given = " and ".join(f"{list(shape)}" for shape in shapes)
            raise SpecError(
                f"cannot broadcast the operands of {name} because shapes {given} differ in axis "
                f"{-back}; expected equal extents, or 1"
            )
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def broadcast_index(
    shape: Sequence[int], result: Sequence[int], index: Sequence[T]
) -> tuple[T | int, ...]:
    """Return the index at which an operand of `shape` is read for an element of `result`."""
    first = len(result) - len(shape)
    return tuple(
        0 if extent == 1 and wide != 1 else at
        for extent, wide, at in zip(shape, result[first:], index[first:], strict=True)
    )
