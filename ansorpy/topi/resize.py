"""Resizing of images data[n, c, h, w] to other extents.

A position of the result lies at i * scale in the data with `coordinates` "asymmetric", and at
(i + 0.5) * scale - 0.5 with "half_pixel" (ONNX's names), scale = old extent / new extent. All
index arithmetic is in whole numbers, so that no position is rounded.
"""

import numpy as np

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import axis_of, refuse, require_float, require_rank, shown


def resize_nearest(
    data: Tensor,
    size: tuple[int, int],
    *,
    coordinates: str = "asymmetric",
    name: str = "resize_nearest",
) -> Tensor:
    """Return data[n, c, h, w] resized to `size`, each element copied from one of the data.

    The element is the one at the position rounded down ("asymmetric"; torch's "nearest"), or the
    nearest one, of two equally near the second ("half_pixel"; torch's "nearest-exact").

    Raises:
        SpecError: another rank, an extent below 1, or unknown coordinates.
    """
    _check(data, size, coordinates)
    half = coordinates == "half_pixel"

    def source(i: te.Scalar, old: int, new: int) -> te.Scalar:
        if old % new == 0 and not half:
            return i * (old // new)
        if new % old == 0:
            return i // (new // old)
        return (i * (2 * old) + old) // (2 * new) if half else i * old // new

    height, width = data.shape[2:]
    return te.compute(
        (*data.shape[:2], *size),
        lambda n, c, h, w: data[n, c, source(h, height, size[0]), source(w, width, size[1])],
        name,
    )


def resize_linear(
    data: Tensor,
    size: tuple[int, int],
    *,
    coordinates: str = "half_pixel",
    name: str = "resize_linear",
) -> Tensor:
    """Return data[n, c, h, w] of floats resized to `size` by bilinear interpolation.

    A position beyond the border takes the element at the border.

    Raises:
        SpecError: another rank or dtype, an extent below 1, or unknown coordinates.
    """
    _check(data, size, coordinates)
    require_float(data, f"interpolate {shown(data)}")
    half = coordinates == "half_pixel"

    def around(i: te.Scalar, old: int, new: int) -> tuple[te.Scalar, te.Scalar, te.Scalar]:
        """Return the indices beside a position and the weight of the second."""
        # The position is (i * 2 * old + old - new) / (2 * new), or i * old / new.
        top, bottom = (i * (2 * old) + (old - new), 2 * new) if half else (i * old, new)
        low = top // bottom
        weight = te.cast(top % bottom, data.dtype) * (1 / bottom)
        first = te.minimum(te.maximum(low, 0), old - 1)
        second = te.minimum(te.maximum(low + 1, 0), old - 1)
        return first, second, weight

    def body(n: te.Scalar, c: te.Scalar, h: te.Scalar, w: te.Scalar) -> te.Scalar:
        top, bottom, down = around(h, data.shape[2], size[0])
        left, right, across = around(w, data.shape[3], size[1])
        above = data[n, c, top, left] * (1 - across) + data[n, c, top, right] * across
        below = data[n, c, bottom, left] * (1 - across) + data[n, c, bottom, right] * across
        return above * (1 - down) + below * down

    return te.compute((*data.shape[:2], *size), body, name)


def resample(
    data: Tensor, places: "np.typing.ArrayLike", weights: "np.typing.ArrayLike", axis: int,
    *, name: str = "resample",
) -> Tensor:  # fmt: skip
    """Return weighted sums of elements along an axis: of data[places[i, t]] * weights[i, t] over t.

    Args:
        places: constant indices [new extent, terms], from 0 on.
        weights: constant factors of the same shape.

    Raises:
        SpecError: the tables do not fit each other or the axis.
    """
    action = f"resample {shown(data)}"
    at = axis_of(axis, len(data.shape), action)
    rows, factors = np.asarray(places, np.int64), np.asarray(weights)
    if rows.ndim != 2 or factors.shape != rows.shape or not rows.size:
        because = f"its tables are {list(rows.shape)} and {list(factors.shape)}"
        refuse(action, because, "two matrices of one shape")
    if rows.min() < 0 or rows.max() >= data.shape[at]:
        refuse(action, f"places are {rows.min()} to {rows.max()}", f"0 to {data.shape[at] - 1}")
    index, last = te.constant(rows, "places"), data.shape[at] - 1
    storage = "float32" if data.dtype == "bfloat16" else data.dtype
    factor = te.constant(factors.astype(storage), "weights", data.dtype)
    t = te.reduce_axis((0, rows.shape[1]), "t")

    def body(*i: te.Scalar) -> te.Reduction:
        place = te.clamped(index[i[at], t], 0, last)
        return te.sum(data[(*i[:at], place, *i[at + 1 :])] * factor[i[at], t], axis=t)

    return te.compute((*data.shape[:at], rows.shape[0], *data.shape[at + 1 :]), body, name)


def _check(data: Tensor, size: tuple[int, int], coordinates: str) -> None:
    action = f"resize {shown(data)}"
    require_rank(data, 4, action, "[n, c, h, w]")
    if min(size) < 1:
        refuse(action, f"size is {list(size)}", "two extents of at least 1")
    if coordinates not in ("asymmetric", "half_pixel"):
        refuse(action, f"coordinates {coordinates!r} are not known", "asymmetric or half_pixel")
