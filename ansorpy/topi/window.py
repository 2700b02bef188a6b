"""Geometry of a sliding window, for convolutions and pooling."""

from collections.abc import Sequence
from dataclasses import dataclass

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import per_dimension, refuse
from ansorpy.topi.slicing import pad

Extents = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Kernel, stride, dilation and padding of a window, one number per spatial dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]  # elements of padding in front of each dimension
    after: tuple[int, ...]
    action: str  # the verb and its object for messages, as in "convolve X[1, 3, 8, 8]"

    def outputs(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return the output extents; SpecError if the window does not fit the padded input."""
        result = []
        for n, extent in enumerate(extents):
            wide = extent + self.before[n] + self.after[n]
            reach = self.dilation[n] * (self.kernel[n] - 1) + 1
            if reach > wide:
                refuse(self.action, f"a window of {reach} does not fit {wide} padded elements",
                       f"a window of at most {wide} in spatial dimension {n}")  # fmt: skip
            result.append((wide - reach) // self.stride[n] + 1)
        return tuple(result)

    def padded(self, data: Tensor, first: int, value: te.Scalar, axes: Sequence[str]) -> Tensor:
        """Return `data` with padding around the spatial axes, which begin at axis `first`."""
        last = len(data.shape) - first - len(self.kernel)
        before = (*[0] * first, *self.before, *[0] * last)
        after = (*[0] * first, *self.after, *[0] * last)
        return pad(data, before, after, value=value, axes=axes)

    def taps(self, names: Sequence[str]) -> tuple[te.ReduceAxis, ...]:
        """Return one reduce axis per spatial dimension."""
        pairs = zip(self.kernel, names, strict=True)
        return tuple(te.reduce_axis((0, extent), name) for extent, name in pairs)

    def at(self, index: Sequence[te.Scalar], taps: Sequence[te.Scalar]) -> tuple[te.Scalar, ...]:
        """Return the padded positions that an output position and its taps read."""
        return tuple(
            i * s + r * d
            for i, r, s, d in zip(index, taps, self.stride, self.dilation, strict=True)
        )


def geometry(
    kernel: Sequence[int], stride: Extents, padding: Extents, dilation: Extents, action: str
) -> Geometry:
    """Return the checked geometry of a window.

    Args:
        padding: one number for all sides; one per dimension, the same on both sides; or all
            numbers in front, then all numbers behind, as in ONNX.

    Raises:
        SpecError: a stride or dilation below 1, a negative padding, or a wrong count of numbers.
    """
    rank = len(kernel)
    strides = per_dimension(stride, rank, "stride", action)
    dilations = per_dimension(dilation, rank, "dilation", action)
    around = (padding,) * rank if isinstance(padding, int) else tuple(padding)
    if len(around) not in (rank, 2 * rank):
        refuse(action, f"padding has {len(around)} numbers", f"one, {rank} or {2 * rank}")
    for what, values, least in (
        ("stride", strides, 1), ("dilation", dilations, 1), ("padding", around, 0),
        ("kernel", kernel, 1),
    ):  # fmt: skip
        if min(values) < least:
            refuse(action, f"{what} is {list(values)}", f"numbers of at least {least}")
    return Geometry(tuple(kernel), strides, dilations, around[:rank], around[-rank:], action)
