"""Layouts of values in memory: row-major over the largest extents, so that strides are constant.

Values with equal layouts have the same elements in the same bytes at every size of their dims.
"""

from collections.abc import Sequence
from math import prod

from ansorpy.te.dims import Dim, least


def layout(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without extents of 1, and with the product of neighbours that are numbers."""
    found: list[int] = []
    for extent in shape:
        if isinstance(extent, Dim) or not found or isinstance(found[-1], Dim):
            found.append(extent)
        else:
            found[-1] *= extent
    return tuple(one for one in found if isinstance(one, Dim) or one != 1)


def rows_of(shape: Sequence[int]) -> Dim | None:
    """Return the dim that is the first extent above 1, None if that is a number."""
    first = next(iter(layout(shape)), None)
    return first if isinstance(first, Dim) else None


def is_within(part: Sequence[int], whole: Sequence[int], at: int) -> bool:
    """Return True if a value may be a run of elements of another one, at every size of the dims.

    The part has the last axes of the whole, of the one before them a range; it lies where its
    elements exist at the least sizes.

    Args:
        at: number of elements of the whole before the part.
    """
    a, b = layout(part), layout(whole)
    if a == b:
        return at == 0
    count = 0  # last axes in common
    while count < min(len(a), len(b)) and a[-1 - count] == b[-1 - count]:
        count += 1
    first, outer = a[: len(a) - count], b[: len(b) - count]
    if len(first) > 1 or not outer or any(isinstance(one, Dim) for one in (*first, outer[-1])):
        return False if first else _exists(at, outer, prod(b[len(outer) :]))
    rows = prod(first)
    begin, odd = divmod(at, prod(b[len(outer) :]))
    outside, row = divmod(begin, outer[-1])
    return not odd and row + rows <= outer[-1] and _exists(outside, outer[:-1], 1)


def _exists(at: int, axes: Sequence[int], each: int) -> bool:
    """Return True if an index exists at the least sizes of dims.

    Args:
        at: the index as a number of elements, row-major.
        each: elements of one index.
    """
    index, odd = divmod(at, each)
    for extent in reversed(axes):
        index, own = divmod(index, extent)
        if own >= least(extent):
            return False
    return not odd and index == 0


def renaming(kernel: Sequence[int], value: Sequence[int]) -> dict[str, Dim] | None:
    """Return the dim of a value for the name of each dim of a kernel's argument.

    None if the value is no such argument: it has another layout, or smaller sizes than the kernel
    takes.
    """
    a, b = layout(kernel), layout(value)
    found: dict[str, Dim] = {}
    if len(a) != len(b):
        return None
    for wanted, given in zip(a, b, strict=True):
        if not isinstance(wanted, Dim) or not isinstance(given, Dim):
            if wanted != given:
                return None
            continue
        misfits = given.high != wanted.high or given.low < wanted.low or given.step % wanted.step
        if misfits or found.setdefault(wanted.name, given) != given:
            return None
    return found
