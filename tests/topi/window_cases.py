"""Cases of convolutions, pooling and normalisation; see `cases.py`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ansorpy import te, topi
from tests.topi.cases import FLOATS, Array, Case, Draw, along, shape, tensor


def windows(x: Array, reach: list[int], stride: list[int], dilation: list[int]) -> Array:
    """Return the windows of x[n, c, ...]: spatial axes, then those inside of a window."""
    rank = len(reach)
    spatial = tuple(range(2, 2 + rank))
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=spatial)
    steps = tuple(slice(None, None, s) for s in stride)
    inside = tuple(slice(None, None, d) for d in dilation)
    return view[(slice(None), slice(None), *steps, *inside)]


def geometry(rng: Draw, rank: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Draw kernel, stride, dilation and 2 * rank numbers of padding."""
    kernel, stride = (list(map(int, rng.integers(1, 4, rank))) for _ in range(2))
    dilation, padding = list(map(int, rng.integers(1, 3, rank))), rng.integers(0, 3, 2 * rank)
    return kernel, stride, dilation, list(map(int, padding))


def around(x: Array, padding: list[int], value: Any = 0) -> Array:
    """Return x[n, c, ...] with padding: all numbers in front, then all behind."""
    rank = len(padding) // 2
    pairs = [(0, 0), (0, 0), *zip(padding[:rank], padding[rank:], strict=True)]
    return np.pad(x, pairs, constant_values=value)


def wide(x: Array) -> Array:
    return x.astype("i4") if x.dtype in ("i1", "u1") else x


def conv(operator: Callable[..., te.Tensor], rank: int) -> Callable[[Draw], Case]:
    """Return the case of a convolution over `rank` dimensions."""

    def case(rng: Draw) -> Case:
        kernel, stride, dilation, padding = geometry(rng, rank)
        groups, depth, share = (int(n) for n in rng.integers(1, 4, 3))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        extents = [r + int(rng.integers(0, 4)) for r in reach]
        x = tensor(rng, (int(rng.integers(1, 3)), groups * depth, *extents), (*FLOATS, "int8"))
        w = te.placeholder((groups * share, depth, *kernel), "W", x.dtype)
        made = operator(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)

        def want(x: Array, w: Array) -> Array:
            view = windows(around(wide(x), padding), reach, stride, dilation)
            view = view.reshape(view.shape[0], groups, depth, *view.shape[2:])
            w = wide(w).reshape(groups, share, depth, *kernel)
            out, inner = "yzt"[:rank], "abc"[:rank]
            product = np.einsum(f"ngd{out}{inner},gfd{inner}->ngf{out}", view, w)
            shape = (product.shape[0], groups * share, *product.shape[3:])
            return np.asarray(product).reshape(shape)

        return made, (x, w), want

    return case


def depthwise(rng: Draw) -> Case:
    kernel, stride, dilation, padding = geometry(rng, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    x = tensor(rng, (2, 3, *(r + int(rng.integers(0, 4)) for r in reach)))
    w = te.placeholder((3, *kernel), "W", x.dtype)
    made = topi.depthwise_conv2d(x, w, stride=stride, padding=padding, dilation=dilation)

    def want(x: Array, w: Array) -> Any:
        return np.einsum(
            "ncyzab,cab->ncyz", windows(around(x, padding), reach, stride, dilation), w
        )

    return made, (x, w), want


def conv_nhwc(rng: Draw) -> Case:
    kernel, stride, dilation, padding = geometry(rng, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    x = tensor(rng, (2, *(r + int(rng.integers(0, 4)) for r in reach), 3))
    w = te.placeholder((*kernel, 3, 5), "W", x.dtype)
    made = topi.conv2d_nhwc(x, w, stride=stride, padding=padding, dilation=dilation)

    def want(x: Array, w: Array) -> Any:
        view = windows(around(x.transpose(0, 3, 1, 2), padding), reach, stride, dilation)
        return np.einsum("ncyzab,abcf->nyzf", view, w)

    return made, (x, w), want


def capsule(rng: Draw) -> Case:
    stride = int(rng.integers(1, 3))
    x = tensor(rng, (1, 5, 4, 2, 3, 2))
    w = te.placeholder((3, 2, 3, 4, 2, 5), "W", x.dtype)

    def want(x: Array, w: Array) -> Any:
        view = np.lib.stride_tricks.sliding_window_view(x, (3, 2), axis=(1, 2))
        return np.einsum("nyzikcab,abkjcf->nyzijf", view[:, ::stride, ::stride], w)

    return topi.capsule_conv2d(x, w, stride=stride), (x, w), want


def conv_transpose(operator: Callable[..., te.Tensor], rank: int) -> Callable[[Draw], Case]:
    """Return the case of a transposed convolution over `rank` dimensions."""

    def case(rng: Draw) -> Case:
        kernel, stride, dilation, _ = geometry(rng, rank)
        groups, depth, share = (int(n) for n in rng.integers(1, 3, 3))
        extents = tuple(map(int, rng.integers(2, 5, rank)))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        padding = [int(rng.integers(0, 2)) if r > 1 else 0 for r in (*reach, *reach)]
        extra = [int(rng.integers(0, s)) for s in stride]
        x = tensor(rng, (2, groups * depth, *extents))
        w = te.placeholder((groups * depth, share, *kernel), "W", x.dtype)
        made = operator(
            x, w, stride=stride, padding=padding, output_padding=extra, dilation=dilation,
            groups=groups,
        )  # fmt: skip

        def want(x: Array, w: Array) -> Array:
            """Add a weighted window to the output for every element."""
            full = [(n - 1) * s + r for n, s, r in zip(extents, stride, reach, strict=True)]
            out = np.zeros((2, groups * share, *(f + e for f, e in zip(full, extra, strict=True))))
            for at in np.ndindex(*extents):
                for g in range(groups):
                    part = x[(slice(None), slice(g * depth, (g + 1) * depth), *at)]
                    window = np.tensordot(part, w[g * depth : (g + 1) * depth], axes=(1, 0))
                    cut = tuple(
                        slice(i * s, i * s + r, d)
                        for i, s, r, d in zip(at, stride, reach, dilation, strict=True)
                    )
                    out[(slice(None), slice(g * share, (g + 1) * share), *cut)] += window
            ends = [n - padding[rank + i] for i, n in enumerate(out.shape[2:])]
            keep = tuple(slice(padding[i], ends[i]) for i in range(rank))
            return np.asarray(out[(slice(None), slice(None), *keep)])

        return made, (x, w), want

    return case


def max_pool(rng: Draw) -> Case:
    rank = int(rng.integers(1, 4))
    kernel, stride, dilation, padding = geometry(rng, rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = [min(p, r - 1) for p, r in zip(padding, (*reach, *reach), strict=True)]
    x = tensor(rng, (2, 3, *(r + int(rng.integers(0, 4)) for r in reach)), (*FLOATS, "int8"))
    low: Any = -np.inf if x.dtype in FLOATS else -128
    ceil = bool(rng.integers(2))
    last = reaching(x, reach, stride, padding) if ceil else padding

    def want(x: Array) -> Array:
        view = windows(around(x, last, low), reach, stride, dilation)
        found = np.asarray(view.max(tuple(range(2 + rank, 2 + 2 * rank))))
        return np.where(found == -np.inf, np.finfo(x_dtype).min, found) if low != -128 else found

    x_dtype = x.dtype if x.dtype in FLOATS else "float32"
    made = topi.max_pool(x, kernel, stride, padding, dilation=dilation, ceil_mode=ceil)
    return made, (x,), want


def max_pool_with_index(rng: Draw) -> Case:
    """Indices of drawn floats, which differ; a window holds at least one element of the data."""
    kernel, stride = [2, 3], list(map(int, rng.integers(1, 3, 2)))
    x = tensor(rng, (2, 3, *(k + int(rng.integers(1, 4)) for k in kernel)))
    padding = [int(n) for n in rng.integers(0, 2, 4)]
    flip = bool(rng.integers(2))

    def want(x: Array) -> Any:
        places = np.arange(x[0, 0].size).reshape(x.shape[2:])
        if flip:
            places = np.arange(x[0, 0].size).reshape(x.shape[:1:-1]).T
        flat = np.arange(6).reshape(2, 3, 1, 1) * x[0, 0].size + places
        index = np.array(flat, np.int64)
        values = windows(around(x, padding, -np.inf), kernel, stride, [1, 1])
        rows = windows(around(index, padding, -1), kernel, stride, [1, 1])
        best = values.reshape(*values.shape[:4], -1).argmax(-1)[..., None]
        return [
            np.take_along_axis(part.reshape(*part.shape[:4], -1), best, -1)[..., 0]
            for part in (values, rows)
        ]

    made = topi.max_pool_with_index(x, kernel, stride, padding, column_major=flip)
    return made, (x,), want


def reaching(x: te.Tensor, reach: list[int], stride: list[int], padding: list[int]) -> list[int]:
    """Return the padding with which a last window that begins inside of it is whole."""
    rank, found = len(reach), list(padding)
    for n, extent in enumerate(x.shape[2:]):
        begin = range(0, extent + padding[n], stride[n])
        ends = [b + reach[n] for b in begin]
        wide = extent + padding[n] + padding[rank + n]
        beyond = [end for end in ends if end >= wide]
        found[rank + n] += beyond[0] - wide if beyond else 0
    return found


def lp_pool(rng: Draw) -> Case:
    kernel, stride, dilation, padding = geometry(rng, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    x, p = tensor(rng, (2, 3, *(r + int(rng.integers(0, 4)) for r in reach))), 3

    def want(x: Array) -> Any:
        view = windows(around(np.abs(x) ** p, padding), reach, stride, dilation)
        return view.sum((4, 5)) ** (1 / p)

    return topi.lp_pool(x, kernel, stride, padding, p=p, dilation=dilation), (x,), want


def avg_pool(rng: Draw) -> Case:
    rank = int(rng.integers(1, 4))
    kernel, stride, dilation, padding = geometry(rng, rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = [min(p, r - 1, d) for p, r, d in zip(padding, reach * 2, dilation * 2, strict=True)]
    x = tensor(rng, (2, 3, *(r + int(rng.integers(0, 4)) for r in reach)))
    count, ceil = bool(rng.integers(2)), bool(rng.integers(2))
    last = reaching(x, reach, stride, padding) if ceil else padding
    beyond = [0] * rank + [a - b for a, b in zip(last[rank:], padding[rank:], strict=True)]

    def want(x: Array) -> Array:
        inner = tuple(range(2 + rank, 2 + 2 * rank))
        total = windows(around(x, last), reach, stride, dilation).sum(inner)
        ones = around(around(np.ones_like(x), padding, int(count)), beyond)
        counted = windows(ones, reach, stride, dilation)
        return np.asarray(total / np.maximum(counted.sum(inner), 1))

    made = topi.avg_pool(
        x, kernel, stride, padding, dilation=dilation, count_include_pad=count, ceil_mode=ceil
    )
    return made, (x,), want


def over_all(
    operator: Callable[..., te.Tensor], want: Callable[..., Any]
) -> Callable[[Draw], Case]:
    """Return the case of a pooling over all positions."""

    def case(rng: Draw) -> Case:
        x = tensor(rng, shape(rng, 3, 5))
        return operator(x), (x,), lambda x: want(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return case


def softmax(operator: Callable[..., te.Tensor], want: Callable[..., Any]) -> Callable[[Draw], Case]:
    """Return the case of a function of exponents along an axis."""

    def case(rng: Draw) -> Case:
        x = tensor(rng, shape(rng, 1, 4))
        axis = int(rng.integers(-len(x.shape), len(x.shape)))
        return operator(x, axis), (x,), lambda x: want(x, axis)

    return case


def standard(x: Array, axis: tuple[int, ...]) -> Array:
    """Return x without its mean and with variance 1."""
    centred = x - x.mean(axis, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis, keepdims=True) + 1e-5))


def layer_norm(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 4))
    first = int(rng.integers(len(x.shape)))
    axis = tuple(range(first, len(x.shape)))
    if rng.integers(3) == 0:
        return topi.layer_norm(x, axis=first), (x,), lambda x: standard(x, axis)
    scale, shift = (te.placeholder(x.shape[first:], name, x.dtype) for name in ("scale", "shift"))
    made = topi.layer_norm(x, scale, shift, axis=first)
    return made, (x, scale, shift), lambda x, a, b: standard(x, axis) * a + b


def rms_norm(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 4))
    scale = te.placeholder(x.shape[-1:], "scale", x.dtype)

    def want(x: Array, scale: Array) -> Array:
        return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale)

    return topi.rms_norm(x, scale), (x, scale), want


def channels(x: te.Tensor, *names: str) -> list[te.Tensor]:
    """Return vectors with one element per channel."""
    return [te.placeholder((x.shape[1],), name, x.dtype) for name in names]


def batch_norm(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 2, 5))
    axis = (0, *range(2, len(x.shape)))
    if rng.integers(2):
        scale, shift = channels(x, "scale", "shift")

        def trained(x: Array, a: Array, b: Array) -> Array:
            return standard(x, axis) * along(a, 1, x.ndim) + along(b, 1, x.ndim)

        return topi.batch_norm(x, scale, shift), (x, scale, shift), trained
    scale, shift, mean, spread = channels(x, "scale", "shift", "mean", "spread")
    variance = topi.square(spread, name="variance")

    def want(x: Array, *vectors: Array) -> Array:
        a, b, mean, spread = (along(v, 1, x.ndim) for v in vectors)
        return np.asarray((x - mean) / np.sqrt(spread * spread + 1e-5) * a + b)

    made = topi.batch_norm(x, scale, shift, mean, variance)
    return made, (x, scale, shift, mean, spread), want


def group_norm(rng: Draw) -> Case:
    groups, size = (int(n) for n in rng.integers(1, 4, 2))
    x = tensor(rng, (2, groups * size, *shape(rng, 0, 3)))
    scale, shift = channels(x, "scale", "shift")

    def want(x: Array, a: Array, b: Array) -> Array:
        split = x.reshape(2, groups, -1)
        return standard(split, (2,)).reshape(x.shape) * along(a, 1, x.ndim) + along(b, 1, x.ndim)

    return topi.group_norm(x, scale, shift, groups), (x, scale, shift), want


def instance_norm(rng: Draw) -> Case:
    x = tensor(rng, (2, 3, *shape(rng, 1, 2)))
    scale, shift = channels(x, "scale", "shift")
    axis = tuple(range(2, len(x.shape)))

    def want(x: Array, a: Array, b: Array) -> Array:
        return standard(x, axis) * along(a, 1, x.ndim) + along(b, 1, x.ndim)

    return topi.instance_norm(x, scale, shift), (x, scale, shift), want
