"""Convolutions. NC... layout unless the name says otherwise; padding is a node of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from ansorpy import te
from ansorpy.te.dag import Dag
from ansorpy.topi.common import multiplied, padded
from ansorpy.topi.elementwise import relu_of


@dataclass(frozen=True, slots=True)
class Window:
    """How a convolution walks over its input, the same in every dimension."""

    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1

    def outputs(self, extent: int, kernel: int) -> int:
        """Return the output extent of a dimension."""
        return (extent + 2 * self.padding - self.dilation * (kernel - 1) - 1) // self.stride + 1


PLAIN = Window()


def conv1d(
    batch: int, inputs: int, length: int, outputs: int, kernel: int, window: Window = PLAIN,
    dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, inputs, length] * W[outputs, inputs / groups, kernel]."""
    sizes = _Sizes(batch, inputs, (length,), outputs, (kernel,))
    return te.dag(_conv(sizes, window, dtype, constant_weights), "conv1d")


def conv2d(
    batch: int, inputs: int, height: int, width: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, inputs, height, width] * W[outputs, inputs / groups, kernel, kernel]."""
    sizes = _Sizes(batch, inputs, (height, width), outputs, (kernel, kernel))
    return te.dag(_conv(sizes, window, dtype, constant_weights), "conv2d")


def conv3d(
    batch: int, inputs: int, depth: int, height: int, width: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, inputs, depth, height, width] * W[outputs, inputs / groups, kernel^3]."""
    sizes = _Sizes(batch, inputs, (depth, height, width), outputs, (kernel,) * 3)
    return te.dag(_conv(sizes, window, dtype, constant_weights), "conv3d")


def conv2d_bias_relu(
    batch: int, inputs: int, height: int, width: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """relu(conv2d + bias[outputs])."""
    sizes = _Sizes(batch, inputs, (height, width), outputs, (kernel, kernel))
    conv = _conv(sizes, window, dtype, constant_weights)
    bias = te.placeholder((outputs,), "bias", dtype, constant_weights)
    added = te.compute(conv.shape, lambda n, f, h, w: conv[n, f, h, w] + bias[f], "biased")
    return te.dag(relu_of(added), "conv2d_bias_relu")


def conv2d_bn_relu(
    batch: int, inputs: int, height: int, width: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """relu((conv2d + bias) * scale + shift): inference batch norm with folded statistics."""
    sizes = _Sizes(batch, inputs, (height, width), outputs, (kernel, kernel))
    conv = _conv(sizes, window, dtype, constant_weights)
    bias, scale, shift = (
        te.placeholder((outputs, 1, 1), name, dtype, constant_weights)
        for name in ("bias", "scale", "shift")
    )
    shape = conv.shape
    added = te.compute(shape, lambda n, f, h, w: conv[n, f, h, w] + bias[f, 0, 0], "biased")
    scaled = te.compute(shape, lambda n, f, h, w: added[n, f, h, w] * scale[f, 0, 0], "scaled")
    moved = te.compute(shape, lambda n, f, h, w: scaled[n, f, h, w] + shift[f, 0, 0], "shifted")
    return te.dag(relu_of(moved), "conv2d_bn_relu")


def depthwise_conv2d(
    batch: int, channels: int, height: int, width: int, kernel: int, window: Window = PLAIN,
    dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, channels, height, width], each channel with its own W[channels, kernel, kernel]."""
    x = te.placeholder((batch, channels, height, width), "X", dtype)
    weights = te.placeholder((channels, kernel, kernel), "W", dtype, constant_weights)
    source = _pad(x, window, "nchw", (2, 3))
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    s, d = window.stride, window.dilation
    conv = te.compute(
        (batch, channels, window.outputs(height, kernel), window.outputs(width, kernel)),
        lambda n, c, h, w: te.sum(
            multiplied(source[n, c, h * s + ry * d, w * s + rx * d], weights[c, ry, rx]),
            axis=(ry, rx),
        ),
        "conv",
    )
    return te.dag(conv, "depthwise_conv2d")


def transposed_conv2d(
    batch: int, inputs: int, height: int, width: int, outputs: int, kernel: int,
    stride: int = 2, padding: int = 0, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """The gradient of a conv2d: X[batch, inputs, h, w], W[inputs, outputs, kernel, kernel].

    As in Ansor: the input is spread out with stride - 1 zeros between elements and padded, then
    convolved with the turned weights. Output extent: (h - 1) * stride + kernel - 2 * padding.
    """
    x = te.placeholder((batch, inputs, height, width), "X", dtype)
    weights = te.placeholder((inputs, outputs, kernel, kernel), "W", dtype, constant_weights)
    border = kernel - 1 - padding

    def spread(n: te.Scalar, c: te.Scalar, h: te.Scalar, w: te.Scalar) -> te.Scalar:
        conditions = [
            condition
            for at, extent in ((h, height), (w, width))
            for condition in (
                at >= border,
                at < border + (extent - 1) * stride + 1,
                (at - border) % stride == 0,
            )
        ]
        element = x[n, c, (h - border) // stride, (w - border) // stride]
        return te.select(te.all(*conditions), element, 0.0)

    shape = [(extent - 1) * stride + 1 + 2 * border for extent in (height, width)]
    wide = te.compute((batch, inputs, *shape), spread, "spread")
    rc = te.reduce_axis((0, inputs), "rc")
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    conv = te.compute(
        (batch, outputs, *(extent - kernel + 1 for extent in shape)),
        lambda n, f, h, w: te.sum(
            wide[n, rc, h + ry, w + rx] * weights[rc, f, kernel - 1 - ry, kernel - 1 - rx],
            axis=(rc, ry, rx),
        ),
        "conv",
    )
    return te.dag(conv, "transposed_conv2d")


def conv2d_nhwc(
    batch: int, height: int, width: int, inputs: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, height, width, inputs] * W[kernel, kernel, inputs, outputs]; no groups."""
    x = te.placeholder((batch, height, width, inputs), "X", dtype)
    weights = te.placeholder((kernel, kernel, inputs, outputs), "W", dtype, constant_weights)
    source = _pad(x, window, "nhwc", (1, 2))
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    rc = te.reduce_axis((0, inputs), "rc")
    s, d = window.stride, window.dilation
    conv = te.compute(
        (batch, window.outputs(height, kernel), window.outputs(width, kernel), outputs),
        lambda n, h, w, f: te.sum(
            multiplied(source[n, h * s + ry * d, w * s + rx * d, rc], weights[ry, rx, rc, f]),
            axis=(ry, rx, rc),
        ),
        "conv",
    )
    return te.dag(conv, "conv2d_nhwc")


def capsule_conv2d(
    batch: int, height: int, width: int, inputs: int, outputs: int, kernel: int,
    capsule: int = 4, window: Window = PLAIN, dtype: str = "float32",
    constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """A convolution whose elements are capsule x capsule matrices (NHWijC, as in Ansor)."""
    x = te.placeholder((batch, height, width, capsule, capsule, inputs), "X", dtype)
    weights = te.placeholder(
        (kernel, kernel, capsule, capsule, inputs, outputs), "W", dtype, constant_weights
    )
    source = _pad(x, window, "nhwijc", (1, 2))
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    k, rc = te.reduce_axis((0, capsule), "k"), te.reduce_axis((0, inputs), "rc")
    s, d = window.stride, window.dilation
    tall, wide = window.outputs(height, kernel), window.outputs(width, kernel)
    conv = te.compute(
        (batch, tall, wide, capsule, capsule, outputs),
        lambda n, h, w, i, j, f: te.sum(
            source[n, h * s + ry * d, w * s + rx * d, i, k, rc] * weights[ry, rx, k, j, rc, f],
            axis=(ry, rx, k, rc),
        ),
        "conv",
    )
    return te.dag(conv, "capsule_conv2d")


@dataclass(frozen=True, slots=True)
class _Sizes:
    batch: int
    inputs: int
    spatial: tuple[int, ...]
    outputs: int
    kernel: tuple[int, ...]


def _pad(x: te.Tensor, window: Window, axes: str, spatial: Sequence[int]) -> te.Tensor:
    around = [window.padding if dim in spatial else 0 for dim in range(len(x.shape))]
    return padded(x, around, around, te.const(0, x.dtype), axes)


def _conv(sizes: _Sizes, window: Window, dtype: str, constant_weights: bool) -> te.Tensor:
    """Return a convolution in any number of dimensions."""
    letters = "dhw"[3 - len(sizes.spatial) :]
    depth, share = sizes.inputs // window.groups, sizes.outputs // window.groups
    x = te.placeholder((sizes.batch, sizes.inputs, *sizes.spatial), "X", dtype)
    weights = te.placeholder((sizes.outputs, depth, *sizes.kernel), "W", dtype, constant_weights)
    source = _pad(x, window, f"nc{letters}", range(2, 2 + len(letters)))
    rc = te.reduce_axis((0, depth), "rc")
    walk = tuple(
        te.reduce_axis((0, extent), f"r{letter}")
        for extent, letter in zip(sizes.kernel, letters, strict=True)
    )
    s, d = window.stride, window.dilation

    def body(n: te.Scalar, f: te.Scalar, *at: te.Scalar) -> te.Reduction:
        channel = rc if window.groups == 1 else f // share * depth + rc
        places = (i * s + r * d for i, r in zip(at, walk, strict=True))
        return te.sum(
            multiplied(source[(n, channel, *places)], weights[(f, rc, *walk)]), axis=(rc, *walk)
        )

    extents = map(window.outputs, sizes.spatial, sizes.kernel)
    shape = (sizes.batch, sizes.outputs, *extents)
    return te.compute(shape, body, "conv", axes=("n", "f", *letters))
