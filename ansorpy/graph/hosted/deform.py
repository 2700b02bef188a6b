"""Deformable convolution: every weight reads the image at an offset of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ansorpy.graph.graph import Array
from ansorpy.graph.operator import Facts, Operands, hosted


def deform_conv(
    reads: Sequence[Array], dilations: Sequence[int] = (1, 1), group: int = 1,
    kernel_shape: Sequence[int] = (), offset_group: int = 1,
    pads: Sequence[int] = (0, 0, 0, 0), strides: Sequence[int] = (1, 1),
    absent: Sequence[int] = (),
) -> tuple[Array]:  # fmt: skip
    """Return the convolution of an image that is read between its elements, and is 0 outside."""
    given: list[Any] = list(reads)
    for position in absent:
        given.insert(position, None)
    x, w, offset, bias, mask = given + [None] * (5 - len(given))
    kind = x.dtype
    wide = np.float32 if kind == np.float16 else kind.type
    batch, _, height, width = x.shape
    rows, columns = w.shape[2:]
    high, long = offset.shape[2:]
    offset = offset.astype(wide).reshape(batch, offset_group, rows, columns, 2, high, long)
    factor = np.ones((), wide)
    if mask is not None:
        factor = mask.astype(wide).reshape(batch, offset_group, rows, columns, high, long)
    at = []
    for axis, (taps, extent) in enumerate(((rows, high), (columns, long))):
        tap = np.arange(taps, dtype=wide) * wide(dilations[axis]) - wide(pads[axis])
        begin = np.arange(extent, dtype=wide) * wide(strides[axis])
        tap = tap[:, None, None, None] if axis == 0 else tap[None, :, None, None]
        begin = begin[:, None] if axis == 0 else begin[None, :]
        at.append(tap + begin + offset[:, :, :, :, axis])
    low = [np.floor(one) for one in at]
    parts = x.astype(wide).reshape(batch, offset_group, -1, height, width)
    image, part = np.arange(batch)[:, None], np.arange(offset_group)[None, :]
    image, part = (one.reshape(*one.shape, 1, 1, 1, 1) for one in (image, part))
    taken: Any = 0
    for down in (0, 1):
        for right in (0, 1):
            y, z = low[0] + down, low[1] + right
            weight = (1 - np.abs(at[0] - y)) * (1 - np.abs(at[1] - z)) * factor
            inside = (y >= 0) & (y < height) & (z >= 0) & (z < width)
            weight = weight * inside
            y, z = (np.where(inside, one, 0).astype(np.int64) for one in (y, z))
            taken = taken + parts[image, part, :, y, z] * weight[..., None]
    # batch, part, row, column, y, x, channel -> batch, group, channel x row x column, y x x
    taken = taken.transpose(0, 1, 6, 2, 3, 4, 5).reshape(batch, group, -1, high * long)
    made = w.astype(wide).reshape(group, w.shape[0] // group, -1) @ taken
    made = made.reshape(batch, w.shape[0], high, long)
    if bias is not None:
        made = made + bias.astype(wide)[:, None, None]
    return (made.astype(kind),)


@hosted(
    "DeformConv", deform_conv, "dilations", "group", "kernel_shape", "offset_group", "pads",
    "strides",
)  # fmt: skip
def _deform_conv(on: Operands) -> Sequence[Facts]:
    x, w, offset = on.shape(0), on.shape(1), on.shape(2)
    if not len(x) == len(w) == len(offset) == 4:
        on.refuse(f"its image is {list(x)} and its weights {list(w)}", "two spatial axes")
    if on.dtype(0) not in ("float16", "float32", "float64"):
        on.refuse(f"its image is {on.dtype(0)}", "float16, float32 or float64")
    group, parts = on.attribute("group", 1), on.attribute("offset_group", 1)
    pads, strides = on.attribute("pads", (0, 0, 0, 0)), on.attribute("strides", (1, 1))
    dilations = on.attribute("dilations", (1, 1))
    if len(pads) != 4 or len(strides) != 2 or len(dilations) != 2 or min(group, parts) < 1:
        on.refuse(f"its pads are {pads} and its strides {strides}", "4 pads and 2 strides")
    if min(*strides, *dilations) < 1 or on.attribute("kernel_shape", w[2:]) != w[2:]:
        on.refuse(f"its strides are {strides} and its weights {list(w)}", "the kernel's shape")
    size = [
        (x[2 + n] + pads[n] + pads[2 + n] - dilations[n] * (w[2 + n] - 1) - 1) // strides[n] + 1
        for n in range(2)
    ]
    taps = parts * w[2] * w[3]
    mask = on.shape(4) if on.given(4) else (x[0], taps, *size)
    if offset != (x[0], 2 * taps, *size) or mask != (x[0], taps, *size) or min(size) < 1:
        on.refuse(
            f"its offsets are {list(offset)} and its mask {list(mask)}",
            f"{[x[0], 2 * taps, *size]} and {[x[0], taps, *size]}",
        )
    if x[1] % parts or w[0] % group or w[1] * group != x[1]:
        on.refuse(f"its weights are {list(w)}", f"{group} groups of {x[1]} channels")
    return [((x[0], w[0], *size), on.dtype(0))]
