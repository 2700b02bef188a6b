"""The NumPy basic slice that a read of a tensor takes: `A[2:66, 3]` for A(i + 2, 3), i < 64."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansorpy.expr.affine import linear
from ansorpy.expr.expr import Read


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a tensor that a read touches; dimension d of the part runs along axes[d]."""

    at: tuple[int | slice, ...]
    axes: tuple[str, ...]


def slice_of(read: Read, extents: Mapping[str, int], shape: Sequence[int]) -> Slice | None:
    """Return the slice of a read, None if it is no slice of positive step inside the tensor.

    Not handled: indices over two axes (convolution), an axis in two indices (diagonal), and reads
    beyond the tensor, which only a condition keeps from happening (padding).

    Args:
        extents: of the axes by name; each runs from 0.
    """
    at: list[int | slice] = []
    axes: list[str] = []
    for index, size in zip(read.indices, shape, strict=True):
        form = linear(index)
        if form is None or len(form[1]) > 1:
            return None
        first, steps = form
        axis, step = next(iter(steps.items()), ("", 0))
        last = first + step * (extents[axis] - 1 if axis else 0)
        if axis in axes or step < 0 or not 0 <= first <= last < size:
            return None
        at.append(slice(first, last + 1, step) if axis else first)
        axes += [axis] if axis else []
    return Slice(tuple(at), tuple(axes))
