"""Reference results of the formulas in float64, by NumPy only."""

from collections.abc import Mapping
from math import erf, sqrt
from typing import Any, Final, assert_never

import numpy as np

from benchmarks.suite import forms

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

_ERF: Final = np.vectorize(erf, otypes=[np.float64])


def random_inputs(form: forms.Form, seed: int) -> dict[str, Array]:
    """Return float32 inputs by name, normally distributed; a seed determines them."""
    rng = np.random.default_rng(seed)
    return {i.name: rng.standard_normal(i.shape, dtype="float32") for i in form.inputs}


def reference(form: forms.Form, given: Arrays) -> Array:
    """Return the output, float64, in the shape of the form."""
    return np.asarray(_reference(form, given), np.float64)


def _reference(form: forms.Form, given: Arrays) -> Any:  # noqa: C901 -- one case per form
    data = {name: array.astype(np.float64) for name, array in given.items()}
    match form:
        case forms.Matmul() | forms.BatchMatmul():
            return np.matmul(data["A"], data["B"])
        case forms.Conv():
            return convolution(form, data)
        case forms.TransposedConv():
            return transposed(form, data)
        case forms.Capsule():
            return capsules(form, data)
        case forms.Norm():
            return np.sqrt((data["X"] ** 2).sum((1, 2)))
        case forms.TransposedBatchMatmul():
            return np.einsum("bihd,bjhd->bhij", data["query"], data["value"], optimize=True)
        case forms.Softmax():
            return softmax(data["X"])
        case forms.LayerNorm():
            centred = data["X"] - data["X"].mean(1, keepdims=True)
            deviation = np.sqrt((centred**2).mean(1, keepdims=True) + forms.EPSILON)
            return centred / deviation * data["scale"] + data["shift"]
        case forms.MatmulGelu():
            x = data["A"] @ data["B"] + data["bias"]
            return x * 0.5 * (1 + _ERF(x * sqrt(0.5)))
        case forms.Attention():
            scores = data["Q"] @ data["K"].T / sqrt(form.width)
            return softmax(scores) @ data["V"]
        case forms.Elementwise():
            return np.maximum(data["A"] + data["B"], 0) * data["C"]
        case forms.SumOf():
            return data["X"].sum(form.axis)
        case forms.MaxPool():
            half = form.size // 2
            windows = data["X"][:, :, : 2 * half, : 2 * half]
            return windows.reshape(form.batch, form.channels, half, 2, half, 2).max((3, 5))
    assert_never(form)


def away(result: Array, wanted: Array) -> float:
    """Return the largest difference, relative to the largest expected value.

    Raises:
        ValueError: the shapes differ.
    """
    if result.shape != wanted.shape:
        raise ValueError(f"result has shape {result.shape}, not {wanted.shape}")
    difference = np.abs(result.astype(np.float64) - wanted)
    return float(difference.max() / np.abs(wanted).max())


def softmax(x: Array) -> Array:
    """Return the softmax of every row."""
    powers = np.exp(x - x.max(1, keepdims=True))
    out: Array = powers / powers.sum(1, keepdims=True)
    return out


def windows(x: Array, rank: int, kernel: int, stride: int, dilation: int) -> Array:
    """Return the windows over the last `rank` axes of x, as `rank` further axes (a view)."""
    axes = tuple(range(x.ndim - rank, x.ndim))
    reach = dilation * (kernel - 1) + 1
    every = np.lib.stride_tricks.sliding_window_view(x, (reach,) * rank, axes)
    steps: list[Any] = [slice(None, None, stride)] * rank + [slice(None, None, dilation)] * rank
    out: Array = every[(..., *steps)]
    return out


def convolution(form: forms.Conv, data: Arrays) -> Array:
    """Return a convolution, computed per input: windows of a whole batch need gigabytes."""
    x, w = data["X"], data["W"]
    if form.nhwc:
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, (-1, -2), (0, 1))
    out = np.concatenate([_grouped(form, x[at : at + 1], w) for at in range(form.batch)])
    if form.layer:
        rank = form.rank
        out = np.maximum(out * _along(data["scale"], rank) + _along(data["shift"], rank), 0)
    return np.moveaxis(out, 1, -1) if form.nhwc else out


def _grouped(form: forms.Conv, x: Array, w: Array) -> Array:
    """Return an NCHW convolution, group by group as one product."""
    rank, groups = form.rank, form.groups
    around = [(0, 0), (0, 0), *[(form.padding,) * 2] * rank]
    seen = windows(np.pad(x, around), rank, form.kernel, form.stride, form.dilation)
    depth, share = form.channels // groups, form.outputs // groups
    parts = []
    for g in range(groups):
        part = seen[:, g * depth : (g + 1) * depth]
        weights = w[g * share : (g + 1) * share]
        over = [1, *range(2 + rank, 2 + 2 * rank)]
        parts.append(np.moveaxis(np.tensordot(part, weights, (over, range(1, 2 + rank))), -1, 1))
    return np.concatenate(parts, 1)


def transposed(form: forms.TransposedConv, data: Arrays) -> Array:
    """Return the transposed convolution: every input adds a window of the output."""
    full = (form.size - 1) * form.stride + form.kernel
    out = np.zeros((form.batch, form.outputs, full, full))
    added = np.tensordot(data["X"], data["W"], (1, 0))  # n, h, w, f, y, x
    for h in range(form.size):
        for w in range(form.size):
            y, x = h * form.stride, w * form.stride
            out[:, :, y : y + form.kernel, x : x + form.kernel] += added[:, h, w]
    inner = slice(form.padding, full - form.padding)
    return out[:, :, inner, inner]


def capsules(form: forms.Capsule, data: Arrays) -> Array:
    """Return the capsule convolution, element [n, h, w, i, j, f]."""
    around = [(0, 0), (form.padding,) * 2, (form.padding,) * 2, (0, 0), (0, 0), (0, 0)]
    x = np.moveaxis(np.pad(data["X"], around), (1, 2), (4, 5))  # n, i, k, c, h, w
    seen = windows(x, 2, form.kernel, form.stride, 1)  # n, i, k, c, h, w, y, x
    out = np.tensordot(seen, data["W"], ((2, 3, 6, 7), (2, 4, 0, 1)))  # n, i, h, w, j, f
    return np.moveaxis(out, 1, 3)


def _along(vector: Array, rank: int) -> Array:
    return vector.reshape(-1, *[1] * rank)
