"""Samples at positions that are data: grids over images, and sequences in reverse."""

from collections.abc import Sequence
from math import prod
from typing import Final

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.te.wide import rounds_once
from ansorpy.topi.common import axis_of, refuse, require_float, shown

TAPS: Final = {"nearest": 1, "linear": 2, "cubic": 4}
PADDING: Final = ("zeros", "border", "reflection")
CUBIC: Final = -0.75  # the coefficient of Keys (1981), as in ONNX and torch


@rounds_once
def grid_sample(
    data: Tensor, grid: Tensor, *, mode: str = "linear", padding: str = "zeros",
    align_corners: bool = False, name: str = "grid_sample",
) -> Tensor:  # fmt: skip
    """Return data[n, c, ...] at the positions grid[n, ..., axes], last axis of the data first.

    A position of -1 is the border in front, 1 the border behind: of the pixels, or of their
    centres with `align_corners`. Source: ONNX GridSample; Jaderberg et al., 2015.

    Args:
        mode: "nearest" (halves to even), "linear" or "cubic" in each axis.
        padding: elements beyond the borders are "zeros", those at the "border", or mirrored
            ("reflection").

    Raises:
        SpecError: shapes, dtypes, mode or padding do not fit.
    """
    action = f"sample {shown(data)} at {shown(grid)}"
    require_float(data, action)
    rank = len(data.shape) - 2
    fits = rank >= 1 and len(grid.shape) == rank + 2 and grid.shape[-1] == rank
    if not fits or grid.shape[0] != data.shape[0] or grid.dtype != data.dtype:
        refuse(action, "their shapes or dtypes do not fit", "[n, c, ...] and [n, ..., axes]")
    if mode not in TAPS or padding not in PADDING:
        refuse(action, f"mode {mode!r} or padding {padding!r} is not known", ", ".join(TAPS))
    extents = data.shape[2:]

    count = TAPS[mode]
    places = _positions(grid, extents, padding, align_corners, 3 if mode == "cubic" else 0)
    taps = [te.reduce_axis((0, count), f"r{n}") for n in range(rank)]

    def body(n: te.Scalar, c: te.Scalar, *at: te.Scalar) -> te.Reduction:
        indices: list[te.Scalar] = []
        value = None
        inside: list[te.Scalar] = []
        for d, extent in enumerate(extents):
            place = places[(n, *at, te.const(rank - 1 - d, "int64"))]
            low = te.round(place) if count == 1 else te.floor(place)
            tap = taps[d] - (count // 2 - 1) if count > 1 else taps[d]
            index = te.cast(low, "int64") + tap
            inside += [index >= 0, index < extent]
            if padding == "reflection":
                index = _reflected(index, extent, align_corners)
            indices.append(te.clamped(index, 0, extent - 1))
            weight = _weight(te.abs(place - low - te.cast(tap, data.dtype)), mode)
            value = weight if value is None else value * weight
        element = data[(n, c, *indices)]
        if padding == "zeros":
            element = te.select(te.all(*inside), element, te.const(0, data.dtype))
        assert value is not None
        return te.sum(element * value, axis=taps)

    return te.compute((*data.shape[:2], *grid.shape[1:-1]), body, name)


def reverse_sequence(
    data: Tensor, lengths: Tensor, axis: int = 0, batch_axis: int = 1,
    *, name: str = "reverse_sequence",
) -> Tensor:  # fmt: skip
    """Return data with the first lengths[b] elements along an axis in reverse, per batch element.

    Raises:
        SpecError: there are no such axes, or the lengths are no vector of integers for the batch.
    """
    action = f"reverse sequences of {shown(data)}"
    rank = len(data.shape)
    at, batch = axis_of(axis, rank, action), axis_of(batch_axis, rank, action)
    if at == batch or lengths.shape != (data.shape[batch],) or lengths.dtype not in (
        "int32", "int64"):  # fmt: skip
        refuse(action, f"{shown(lengths)} does not fit", f"integers [{data.shape[batch]}]")

    def body(*i: te.Scalar) -> te.Scalar:
        length = te.cast(lengths[i[batch]], "int64")
        place = te.select(i[at] < length, length - 1 - i[at], i[at])
        return data[(*i[:at], te.clamped(place, 0, data.shape[at] - 1), *i[at + 1 :])]

    return te.compute(data.shape, body, name)


def col2im(
    data: Tensor, image: Sequence[int], block: Sequence[int], *, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], name: str = "col2im",
) -> Tensor:  # fmt: skip
    """Return the sum of overlapping blocks: data[n, c * block, positions] to [n, c, image].

    Raises:
        SpecError: the blocks do not fit the image or the data.
    """
    action = f"put blocks of {shown(data)} together"
    rank = len(image)
    counts = [
        (n + padding[d] + padding[rank + d] - dilation[d] * (block[d] - 1) - 1) // stride[d] + 1
        for d, n in enumerate(image)
    ]
    taps = prod(block)
    if len(data.shape) != 3 or data.shape[1] % taps or data.shape[2] != prod(counts):
        refuse(action, f"blocks {list(block)} give {counts} positions", "[n, c * block, positions]")
    axes = [te.reduce_axis((0, extent), f"r{d}") for d, extent in enumerate(block)]

    def body(n: te.Scalar, c: te.Scalar, *at: te.Scalar) -> te.Reduction:
        conditions: list[te.Scalar] = []
        tap: te.Scalar | int = 0
        place: te.Scalar | int = 0
        for d, i in enumerate(at):
            offset = i + padding[d] - axes[d] * dilation[d]
            conditions += [offset >= 0, offset % stride[d] == 0, offset // stride[d] < counts[d]]
            tap = tap * block[d] + axes[d]
            place = place * counts[d] + te.minimum(
                te.maximum(offset // stride[d], 0), counts[d] - 1
            )
        element = data[n, c * taps + tap, place]
        return te.sum(te.select(te.all(*conditions), element, te.const(0, data.dtype)), axis=axes)

    return te.compute((data.shape[0], data.shape[1] // taps, *image), body, name)


def _positions(
    grid: Tensor, extents: Sequence[int], padding: str, align_corners: bool, reach: int
) -> Tensor:
    """Return positions in elements; the last axis counts the axes of the data from its last.

    Positions with padding "border" are at most `reach` elements beyond it: farther out, all
    elements around a position are that at the border.
    """

    def position(*i: te.Scalar) -> te.Scalar:
        position = te.const(0, grid.dtype)
        for axis, extent in enumerate(reversed(extents)):
            at = grid[i] + 1
            at = at * ((extent - 1) / 2) if align_corners else at * (extent / 2) - 0.5
            if padding == "border":
                at = te.minimum(te.maximum(at, float(-reach)), float(extent - 1 + reach))
            elif padding == "reflection":
                at = _mirrored(at, extent, align_corners)
            position = te.select(i[-1] == axis, at, position)
        return position

    return te.compute(grid.shape, position, "position")


def _weight(distance: te.Scalar, mode: str) -> te.Scalar:
    """Return the weight of an element at a distance from the position."""
    if mode == "nearest":
        return te.const(1, distance.dtype)
    if mode == "linear":
        return te.maximum(1 - distance, 0.0)
    x, a = distance, CUBIC
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return te.select(x <= 1, near, te.select(x < 2, far, te.const(0, x.dtype)))


def _mirrored(at: te.Scalar, extent: int, centres: bool) -> te.Scalar:
    """Return a position mirrored at the borders as often as need be."""
    low, width = (0.0, extent - 1.0) if centres else (-0.5, float(extent))
    if width <= 0:
        return te.const(0, at.dtype)
    there = at - low
    there = there - te.floor(there * (1 / (2 * width))) * (2 * width)
    return te.minimum(there, 2 * width - there) + low


def _reflected(index: te.Scalar, extent: int, centres: bool) -> te.Scalar:
    """Return an index mirrored once: a tap lies at most two elements beyond a border."""
    front = -index if centres else -1 - index
    behind = 2 * (extent - 1) - index if centres else 2 * extent - 1 - index
    return te.select(index < 0, front, te.select(index >= extent, behind, index))
