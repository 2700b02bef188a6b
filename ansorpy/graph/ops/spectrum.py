"""Fourier transforms, and the weights of mel bands."""

from math import log10
from typing import Final

import numpy as np

from ansorpy import topi
from ansorpy.graph.graph import Array
from ansorpy.graph.operator import Operands, operator, value_operator
from ansorpy.te.tensor import Tensor

MOST_ELEMENTS: Final = 1 << 24  # weights of mel bands


@operator("DFT", "axis", "inverse", "onesided")
def _dft(on: Operands) -> Tensor:
    """Transform along an axis; it is an input since opset 20, and counts with the last one."""
    x = on.tensor(0)
    axis = on.number(2) if on.given(2) else on.attribute("axis", -2 if len(on) != 1 else None)
    if axis is None:
        axis = -2
    inverse, onesided = bool(on.attribute("inverse", 0)), bool(on.attribute("onesided", 0))
    return topi.dft(x, axis, length=on.number(1), inverse=inverse, onesided=onesided)


@operator("STFT", "onesided")
def _stft(on: Operands) -> Tensor:
    x, step, window = on.tensor(0), on.number(1), on.optional(2)
    size = on.number(3, None if window is None else window.shape[0])
    if size is None:
        on.refuse("neither window nor frame_length is given", "one of them")
    cut = topi.frames(x, window, size, step)
    return topi.dft(cut, -2, onesided=bool(on.attribute("onesided", 1)))


@value_operator("MelWeightMatrix", "output_datatype")
def _mel_weight_matrix(on: Operands) -> Array:
    """Return a triangle over bins of a spectrum for each band, at equal distances in mel."""
    bands, length, rate = (int(on.number(n)) for n in range(3))
    dtype = on.attribute("output_datatype", "float32")
    if not 0 < bands * (length // 2 + 1) <= MOST_ELEMENTS or min(bands, length, rate) < 1:
        on.refuse(f"it has {bands} bands and a length of {length}", f"1 to {MOST_ELEMENTS} weights")
    if dtype == "bfloat16":
        on.refuse("its weights are bfloat16", "another dtype, and a Cast")
    low, high = (2595 * log10(1 + float(on.number(n)) / 700) for n in (3, 4))
    mels = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
    edges = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(np.int64)
    if edges.min() < 0 or edges.max() > length // 2:
        on.refuse(f"its bands end at bin {edges.max()}", f"bins from 0 to {length // 2}")
    weights = np.zeros((length // 2 + 1, bands))
    for n, (first, middle, last) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        weights[first : middle + 1, n] = np.arange(middle + 1 - first) / max(1, middle - first)
        if first == middle:
            weights[middle, n] = 1
        if last > middle:
            weights[middle:last, n] = np.arange(last - middle, 0, -1) / (last - middle)
    return weights.astype(dtype)
