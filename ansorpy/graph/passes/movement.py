"""Algebra of transposes and reshapes: a chain of them as one permutation of parts of axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from ansorpy.te.dims import Dim

Part = tuple[int, int, int]  # axis of the source, stride within it, extent: at least 2


@dataclass(frozen=True, slots=True)
class Movement:
    """The elements of a source in another order and shape.

    An axis of the result is a row of parts of axes of the source, outermost first; an axis of
    extent 1 has no parts. A dim is one part, alone. Source: the InfiniTensor exercise on merging
    transposes, generalised to reshapes.
    """

    source: tuple[int, ...]
    axes: tuple[tuple[Part, ...], ...]

    @classmethod
    def of(cls, shape: Sequence[int]) -> "Movement":
        """Return the movement of a tensor that leaves it as it is."""
        axes = tuple(((n, 1, extent),) if extent != 1 else () for n, extent in enumerate(shape))
        return cls(tuple(shape), axes)

    def transposed(self, perm: Sequence[int]) -> "Movement":
        """Return this movement, then a permutation of the axes of the result."""
        return Movement(self.source, tuple(self.axes[axis] for axis in perm))

    def reshaped(self, shape: Sequence[int]) -> "Movement | None":
        """Return this movement, then a reshape; None if an axis would be cut unevenly."""
        parts = [*chain.from_iterable(self.axes)][::-1]
        groups: list[tuple[Part, ...]] = []
        for extent in shape:
            group: list[Part] = []
            left = extent
            while left > 1:
                axis, stride, size = parts.pop()
                if isinstance(left, Dim) or isinstance(size, Dim):
                    if left != size:
                        return None
                    group.append((axis, stride, size))
                    left = 1
                elif left % size == 0:
                    group.append((axis, stride, size))
                    left //= size
                elif size % left == 0:
                    inner = size // left
                    group.append((axis, stride * inner, left))
                    parts.append((axis, stride, inner))
                    left = 1
                else:
                    return None
            groups.append(tuple(group))
        return Movement(self.source, tuple(groups))

    @property
    def blocks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The movement in its normal form: extents of the source, and their permutation.

        Extents of 1 are dropped, and neighbours that stay neighbours are one extent, but for dims.
        A movement that keeps the order, without dims, has at most one extent.
        """
        strides = [1] * (len(self.source) + 1)
        for n in range(len(self.source) - 1, -1, -1):
            strides[n] = strides[n + 1] * self.source[n]
        merged: list[tuple[int, int]] = []  # stride in elements of the source, extent
        for axis, inner, extent in chain.from_iterable(self.axes):
            stride = strides[axis + 1] * inner
            dims = isinstance(extent, Dim) or (merged and isinstance(merged[-1][1], Dim))
            if merged and merged[-1][0] == stride * extent and not dims:
                merged[-1] = stride, merged[-1][1] * extent
            else:
                merged.append((stride, extent))
        order = sorted(range(len(merged)), key=lambda n: -merged[n][0])
        return tuple(merged[n][1] for n in order), tuple(order.index(n) for n in range(len(order)))
