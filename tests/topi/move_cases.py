"""Cases of operators that move elements; see `cases.py`."""

from typing import Any

import numpy as np

from ansorpy import te, topi
from tests.topi.cases import (
    ANY,
    FLOATS,
    SIGNED,
    Array,
    Case,
    Draw,
    narrowed,
    shape,
    some_axes,
    tensor,
)


def reshape(rng: Draw) -> Case:
    parts = [int(n) for n in rng.choice((1, 2, 3, 4, 6), 4)]
    x = tensor(rng, parts, ANY)
    new = [int(n) for n in rng.permutation([parts[0] * parts[1], parts[2], parts[3], 1])]
    if rng.integers(2):
        new[int(rng.integers(4))] = -1
    return topi.reshape(x, new), (x,), lambda x: x.reshape(new)


def flatten(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 4), ANY)
    axis = int(rng.integers(0, len(x.shape) + 1))
    rows = int(np.prod(x.shape[:axis]))
    return topi.flatten(x, axis), (x,), lambda x: x.reshape(rows, -1)


def squeeze(rng: Draw) -> Case:
    x = tensor(rng, (*shape(rng, 0, 2), 1, *shape(rng, 0, 2), 1), ANY)
    axis = -1 if rng.integers(2) else None
    return topi.squeeze(x, axis), (x,), lambda x: np.squeeze(x, axis)


def expand_dims(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 0, 3), ANY)
    axis = (0, -1) if rng.integers(2) else int(rng.integers(-len(x.shape) - 1, len(x.shape) + 1))
    return topi.expand_dims(x, axis), (x,), lambda x: np.expand_dims(x, axis)


def transpose(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 0, 4), ANY)
    order = None if rng.integers(3) == 0 else [int(n) for n in rng.permutation(len(x.shape))]
    return topi.transpose(x, order), (x,), lambda x: np.transpose(x, order)


def broadcast_to(rng: Draw) -> Case:
    extents = shape(rng, 1, 4)
    x = tensor(rng, narrowed(rng, extents), ANY)
    return topi.broadcast_to(x, extents), (x,), lambda x: np.broadcast_to(x, extents)


def cumsum(rng: Draw) -> Case:
    x = tensor(rng, (*shape(rng, 0, 2), int(rng.integers(1, 100)), *shape(rng, 0, 1)), SIGNED)
    axis = int(rng.integers(-len(x.shape), len(x.shape)))
    exclusive, reverse = bool(rng.integers(2)), bool(rng.integers(2))

    def want(x: Array) -> Any:
        ordered = np.flip(x, axis) if reverse else x
        sums = np.cumsum(ordered, axis, x.dtype) - (ordered if exclusive else 0)
        return np.flip(sums, axis) if reverse else sums

    return topi.cumsum(x, axis, exclusive=exclusive, reverse=reverse), (x,), want


def depth_to_space(rng: Draw) -> Case:
    n, c, h, w, b = (int(e) for e in rng.integers(1, 4, 5))
    x = tensor(rng, (n, c * b * b, h, w), ANY)

    mode = ("DCR", "CRD")[int(rng.integers(2))]

    def want(x: Array) -> Array:
        if mode == "DCR":
            parts = x.reshape(n, b, b, c, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            parts = x.reshape(n, c, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return parts.reshape(n, c, h * b, w * b)

    return topi.depth_to_space(x, b, mode=mode), (x,), want


def space_to_depth(rng: Draw) -> Case:
    n, c, h, w, b = (int(e) for e in rng.integers(1, 4, 5))
    x = tensor(rng, (n, c, h * b, w * b), ANY)

    def want(x: Array) -> Array:
        parts = x.reshape(n, c, h, b, w, b).transpose(0, 3, 5, 1, 2, 4)
        return parts.reshape(n, c * b * b, h, w)

    return topi.space_to_depth(x, b), (x,), want


def dft(rng: Draw) -> Case:
    n, m, parts, length = (int(e) for e in rng.integers((1, 1, 1, 1), (7, 4, 3, 8)))
    x, (inverse, onesided) = tensor(rng, (n, m, parts)), rng.integers(2, size=2).astype(bool)
    made = topi.dft(x, 0, length=length, inverse=bool(inverse), onesided=bool(onesided))

    def want(x: Array) -> Any:
        complex_ = x[..., 0] + 1j * (x[..., 1] if parts == 2 else 0)
        if inverse and onesided:
            return np.fft.irfft(complex_, length, axis=0)[..., None]
        found = (np.fft.ifft if inverse else np.fft.fft)(complex_, length, axis=0)
        found = found[: length // 2 + 1] if onesided else found
        return np.stack([found.real, found.imag], -1)

    return made, (x,), want


def frames(rng: Draw) -> Case:
    size, step = (int(e) for e in rng.integers(1, 5, 2))
    x = tensor(rng, (2, size + int(rng.integers(0, 6)), int(rng.integers(1, 3))))
    window = te.placeholder((size,), "window", x.dtype)

    def want(x: Array, window: Array) -> Any:
        view = np.lib.stride_tricks.sliding_window_view(x, size, axis=1)[:, ::step]
        return view.swapaxes(2, 3) * window[:, None]

    return topi.frames(x, window, size, step), (x, window), want


def resample(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 4))
    axis, x_dtype = int(rng.integers(len(x.shape))), x.dtype
    size = tuple(int(n) for n in rng.integers(1, 5, 2))
    places, weights = rng.integers(0, x.shape[axis], size), rng.standard_normal(size)

    def want(x: Array) -> Any:
        parts = np.take(np.moveaxis(x, axis, -1), places, -1) * weights.astype(x_dtype)
        return np.moveaxis(parts.sum(-1), -1, axis)

    return topi.resample(x, places, weights, axis), (x,), want


def concat(rng: Draw) -> Case:
    extents, dtype = list(shape(rng, 1, 4)), (str(rng.choice(ANY)),)
    axis = int(rng.integers(-len(extents), len(extents)))
    tensors = []
    for n in range(int(rng.choice((1, 2, 3, 4, 14, 90)))):
        extents[axis] = int(rng.integers(1, 5))
        tensors.append(tensor(rng, extents, dtype, f"X{n}"))
    return topi.concat(tensors, axis), tensors, lambda *x: np.concatenate(x, axis)


def stack(rng: Draw) -> Case:
    extents, dtype = shape(rng, 0, 3), (str(rng.choice(ANY)),)
    axis = int(rng.integers(-len(extents) - 1, len(extents) + 1))
    tensors = [tensor(rng, extents, dtype, f"X{n}") for n in range(int(rng.integers(1, 4)))]
    return topi.stack(tensors, axis), tensors, lambda *x: np.stack(x, axis)


def strided_slice(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 4), ANY)
    spans = []
    for extent in x.shape:
        first, last = sorted(int(n) for n in rng.integers(0, extent, 2))
        step = int(rng.integers(1, 3))
        turned = (last, first - 1 if first else -extent - 1, -step)
        spans.append(turned if rng.integers(2) else (first - extent, last + 1, step))
    cut = tuple(slice(*span) for span in spans)
    begin, end, stride = zip(*spans, strict=True)
    return topi.strided_slice(x, begin, end, stride), (x,), lambda x: x[cut]


def split(rng: Draw) -> Case:
    extents = list(shape(rng, 1, 4))
    axis = int(rng.integers(len(extents)))
    sizes = [int(n) for n in rng.integers(1, 4, int(rng.integers(1, 4)))]
    even = bool(rng.integers(2))
    extents[axis] = 2 * extents[axis] if even else sum(sizes)
    x = tensor(rng, extents, ANY)
    ends: Any = 2 if even else np.cumsum(sizes)[:-1]
    return topi.split(x, 2 if even else sizes, axis), (x,), lambda x: np.split(x, ends, axis)


def pad(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 4), FLOATS)
    before, after = ([int(n) for n in rng.integers(0, 3, len(x.shape))] for _ in range(2))
    before[0] += 1
    pairs = list(zip(before, after, strict=True))
    if rng.integers(3):
        mode: Any = ("edge", "reflect", "wrap")[int(rng.integers(3))]
        return topi.pad(x, before, after, mode=mode), (x,), lambda x: np.pad(x, pairs, mode)
    made = topi.pad(x, before, after, value=2.5)
    return made, (x,), lambda x: np.pad(x, pairs, constant_values=2.5)


def tile(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 3), ANY)
    repeats = [int(n) for n in rng.integers(1, 4, len(x.shape))]
    return topi.tile(x, repeats), (x,), lambda x: np.tile(x, repeats)


def repeat(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 3), ANY)
    count, axis = int(rng.integers(1, 4)), int(rng.integers(len(x.shape)))
    return topi.repeat(x, count, axis), (x,), lambda x: np.repeat(x, count, axis)


def flip(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 4), ANY)
    axis = some_axes(rng, len(x.shape))
    return topi.flip(x, axis), (x,), lambda x: np.flip(x, axis)


def triu(rng: Draw) -> Case:
    x, k = tensor(rng, shape(rng, 2, 4), ANY), int(rng.integers(-2, 3))
    return topi.triu(x, k), (x,), lambda x: np.triu(x, k)


def tril(rng: Draw) -> Case:
    x, k = tensor(rng, shape(rng, 2, 4), ANY), int(rng.integers(-2, 3))
    return topi.tril(x, k), (x,), lambda x: np.tril(x, k)


def one_hot(rng: Draw) -> Case:
    x, depth = tensor(rng, shape(rng, 0, 3), ("int8", "int32", "int64")), int(rng.integers(1, 7))
    made = topi.one_hot(topi.mod(x, 5), depth)
    return made, (x,), lambda x: (x[..., None] % 5 == np.arange(depth)).astype(float)
