"""Resize: every axis by itself, as a table of source elements and weights made ahead of time.

Positions follow the specification of ONNX, opset 19: the coordinate transformation, then the
nearest element or the weights of its neighbours. Positions are exact if the file states sizes, and
rounded to float32, as scales are, if it states scales.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, floor
from typing import Any, Final

import numpy as np

from ansorpy import te, topi
from ansorpy.expr.dtypes import FLOATS, INTEGER_RANGE
from ansorpy.graph.graph import Array
from ansorpy.graph.operator import Operands, no_dim, operator
from ansorpy.te.dims import Dim
from ansorpy.te.tensor import Tensor


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """One axis: extents before and after, the scale, and the region of interest.

    The scale is a Fraction or a float32 of NumPy, and so are positions.
    """

    old: int
    new: int
    scale: Any
    first: float = 0.0
    last: float = 1.0

    def position(self, i: int, mode: str) -> Fraction | float:
        """Return the position in the data of an element of the result."""
        old, scale = self.old, self.scale
        half = type(scale)(1) / 2
        new = scale * old  # not rounded down, as examples of the specification have it
        match mode:
            case "half_pixel":
                position = (i + half) / scale - half
            case "half_pixel_symmetric":
                position = old * half * (1 - self.new / new) + (i + half) / scale - half
            case "pytorch_half_pixel":
                position = (i + half) / scale - half if self.new > 1 else half * 0
            case "align_corners":
                position = i * (old - 1) / (new - 1) if new > 1 else half * 0
            case "tf_half_pixel_for_nn":  # opsets 11 and 12 alone have it
                position = (i + half) / scale
            case "asymmetric":
                position = i / scale
            case _:  # tf_crop_and_resize
                first, last = np.float32(self.first), np.float32(self.last)
                position = (
                    first * (old - 1) + i * (last - first) * (old - 1) / np.float32(self.new - 1)
                    if self.new > 1
                    else np.float32(0.5) * (first + last) * (old - 1)
                )
        return position if isinstance(position, Fraction) else float(position)


LARGEST_EXTENT: Final = 1 << 16  # elements of a resized axis: images are smaller
WHOLE: Final = 2.0**-45  # share of a result that rounding of its float64 terms may take away
MODES: Final = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize", "tf_half_pixel_for_nn",
)  # fmt: skip
HALF: Final = Fraction(1, 2)
ROUNDINGS: Final[Mapping[str, Callable[[Any], int]]] = {
    "round_prefer_floor": lambda x: ceil(x - HALF),
    "round_prefer_ceil": lambda x: floor(x + HALF),
    "floor": floor,
    "ceil": ceil,
}


@operator(
    "Resize", "antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a",
    "exclude_outside", "extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode",
)  # fmt: skip
def _resize(on: Operands) -> Tensor:
    x = on.tensor(0)
    for name, default, allowed in (
        ("coordinate_transformation_mode", "half_pixel", MODES),
        ("mode", "nearest", ("nearest", "linear", "cubic")),
        ("nearest_mode", "round_prefer_floor", tuple(ROUNDINGS)),
    ):
        if on.attribute(name, default) not in allowed:
            on.refuse(f"attribute {name!r} is {on.attribute(name)!r}", ", ".join(allowed))
    axes = on.attribute("axes", tuple(range(len(x.shape))))
    dtype = x.dtype
    lines = _lines(on, x, axes)
    if on.attribute("mode", "nearest") != "nearest" and dtype not in ("float32", "float64"):
        x = topi.cast(x, "float32" if dtype in FLOATS else "float64")
    masks = []
    for axis, line in zip(axes, lines, strict=True):
        if line is None:
            continue
        x, outside = _along(on, x, axis, line)
        masks += [outside] if outside.any() else []
    value = on.attribute("extrapolation_value", 0.0)
    for mask in masks:
        x = topi.where(te.constant(mask), value if x.dtype in FLOATS else int(value), x)
    return _rounded(x, dtype)


def _rounded(x: Tensor, dtype: str) -> Tensor:
    """Return interpolated elements in a dtype; integers are rounded towards zero.

    Weights may add up to a little less than 1, and a whole number must not become the one below.
    """
    if x.dtype in FLOATS and dtype not in FLOATS:
        low, high = INTEGER_RANGE[dtype]
        x = topi.clip(topi.multiply(x, 1 + WHOLE), float(low), float(high))
    return topi.cast(x, dtype)


def _lines(on: Operands, x: Tensor, axes: Sequence[int]) -> list[ResizedAxis | None]:
    """Return the axes that are resized; None for a dim, which keeps its size."""
    extents = [x.shape[axis] for axis in axes]
    if on.given(3) and on.ints(3):
        sizes = list(on.ints(3))
        _kept(on, [new == old for new, old in zip(sizes, extents, strict=False)], extents)
        sizes, extents = ([1 if isinstance(n, Dim) else n for n in ns] for ns in (sizes, extents))
        if len(sizes) != len(axes):
            on.refuse(f"there are {len(sizes)} sizes", f"{len(axes)}, one per axis")
        scales: list[Any] = [Fraction(new, old) for new, old in zip(sizes, extents, strict=True)]
        policy = on.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            scale = min(scales) if policy == "not_larger" else max(scales)
            scales = [scale] * len(axes)
            sizes = [floor(scale * old + HALF) for old in extents]
    else:
        scales = list(on.array(2).astype(np.float32).reshape(-1))
        if len(scales) != len(axes) or min(scales) <= 0:
            on.refuse(
                f"its scales are {[float(one) for one in scales[:8]]}",
                f"{len(axes)} positive numbers",
            )
        _kept(on, [scale == 1 for scale in scales], extents)
        extents = [1 if isinstance(extent, Dim) else extent for extent in extents]
        sizes = [floor(scale * old) for scale, old in zip(scales, extents, strict=True)]
    if min(sizes) < 1 or max(sizes) > LARGEST_EXTENT:
        on.refuse(f"its sizes are {sizes[:8]}", f"extents from 1 to {LARGEST_EXTENT}")
    crop = on.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    roi = [float(v) for v in on.array(1).reshape(-1)] if crop else [0.0, 1.0]
    count = len(axes) if crop else 1
    if len(roi) != 2 * count:
        on.refuse(f"roi has {len(roi)} numbers", f"{2 * count}")
    return [
        None if isinstance(x.shape[axes[n]], Dim)
        else ResizedAxis(old, new, scale, *((roi[n], roi[count + n]) if crop else (0.0, 1.0)))
        for n, (old, new, scale) in enumerate(zip(extents, sizes, scales, strict=True))
    ]  # fmt: skip


def _kept(on: Operands, kept: Sequence[bool], extents: Sequence[int]) -> None:
    """Refuse a dim that does not keep its size."""
    for same, extent in zip(kept, extents, strict=True):
        if isinstance(extent, Dim) and not same:
            raise no_dim(on.node, [extent], "its positions follow from the number")


def _along(on: Operands, x: Tensor, axis: int, line: ResizedAxis) -> tuple[Tensor, Array]:
    """Return the tensor with one axis resized, and a mask of elements outside of the data."""
    mode = on.attribute("coordinate_transformation_mode", "half_pixel")
    positions = [line.position(i, mode) for i in range(line.new)]
    shape = [1] * len(x.shape)
    shape[axis] = line.new
    crop = mode == "tf_crop_and_resize"
    outside = np.array([crop and not 0 <= at <= line.old - 1 for at in positions]).reshape(shape)
    if on.attribute("mode", "nearest") == "nearest":
        rounding = ROUNDINGS[on.attribute("nearest_mode", "round_prefer_floor")]
        places = [min(max(rounding(at), 0), line.old - 1) for at in positions]
        return _picked(x, axis, places), outside
    if positions == list(range(line.old)):
        return x, outside
    tables = [_neighbours(on, at, line) for at in positions]
    taps = np.clip([places for places, _ in tables], 0, line.old - 1)
    return topi.resample(x, taps, np.array([weights for _, weights in tables]), axis), outside


def _picked(x: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """Return the elements at positions of an axis, by an affine index where there is one."""
    old, new = x.shape[axis], len(places)
    if list(places) == list(range(old)):
        return x
    if new % old == 0 and list(places) == [i // (new // old) for i in range(new)]:
        return topi.repeat(x, new // old, axis)
    step = places[1] - places[0] if new > 1 else 1
    if step > 0 and list(places) == [places[0] + step * i for i in range(new)]:
        begin, end, stride = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        begin[axis], end[axis], stride[axis] = places[0], places[-1] + 1, step
        return topi.strided_slice(x, begin, end, stride)
    return topi.take(x, te.constant(np.array(places)), axis)


def _neighbours(on: Operands, at: Fraction | float, line: ResizedAxis) -> tuple[Array, Array]:
    """Return source elements and their weights; a whole position counts to its left neighbour."""
    low = floor(at)
    ratio = float(at - low)
    if ratio == 0:
        low, ratio = low - 1, 1.0
    scale = min(float(line.scale), 1.0) if on.attribute("antialias", 0) else 1.0
    if on.attribute("mode") == "linear":
        reach = 1
        weights_of: Callable[[Array], Array] = _triangle
    else:
        reach, weights_of = 2, partial(_cubic, on.attribute("cubic_coeff_a", -0.75))
    first = floor(-reach / scale) + 1
    taps = np.arange(first, 2 - first)
    weights = weights_of(np.abs(taps - ratio) * scale)
    places = low + taps
    if on.attribute("exclude_outside", 0):
        weights = np.where((places >= 0) & (places < line.old), weights, 0)
    return places, weights / weights.sum()


def _triangle(x: Array) -> Array:
    return np.asarray(np.clip(1 - x, 0, 1))


def _cubic(a: float, x: Array) -> Array:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
