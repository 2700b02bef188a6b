"""Convolutions, as networks use the word: cross-correlations. Padding is a node of its own.

`stride`, `padding` and `dilation` are one number, or one per spatial dimension; `padding` may
also be all numbers in front, then all behind. int8 and uint8 are added in int32.
"""

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import multiplied, refuse, require_rank, shown, zero
from ansorpy.topi.window import Extents, geometry


def conv1d(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    dilation: Extents = 1, groups: int = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Convolve data[n, c, w] with weights[f, c / groups, kw]; the result is [n, f, w'].

    Raises:
        SpecError: ranks, channels, groups or the window do not fit.
    """
    return _conv(1, data, weights, stride, padding, dilation, groups, name)


def conv2d(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    dilation: Extents = 1, groups: int = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Convolve data[n, c, h, w] with weights[f, c / groups, kh, kw]; the result is [n, f, h', w'].

    Raises:
        SpecError: ranks, channels, groups or the window do not fit.
    """
    return _conv(2, data, weights, stride, padding, dilation, groups, name)


def conv3d(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    dilation: Extents = 1, groups: int = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Convolve data[n, c, d, h, w] with weights[f, c / groups, kd, kh, kw].

    The result is [n, f, d', h', w'].

    Raises:
        SpecError: ranks, channels, groups or the window do not fit.
    """
    return _conv(3, data, weights, stride, padding, dilation, groups, name)


def depthwise_conv2d(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    dilation: Extents = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Convolve every channel of data[n, c, h, w] with its own weights[c, kh, kw].

    Raises:
        SpecError: ranks, channels or the window do not fit.
    """
    action = f"convolve {shown(data)} with {shown(weights)}"
    require_rank(data, 4, action, "[n, c, h, w]")
    require_rank(weights, 3, action, "[c, kh, kw]")
    channels = data.shape[1]
    if weights.shape[0] != channels:
        refuse(action, f"the data has {channels} channels", f"weights [{channels}, kh, kw]")
    window = geometry(weights.shape[1:], stride, padding, dilation, action)
    shape = (data.shape[0], channels, *window.outputs(data.shape[2:]))
    source = window.padded(data, 2, zero(data.dtype), "nchw")
    taps = window.taps(("ry", "rx"))

    def body(n: te.Scalar, c: te.Scalar, *at: te.Scalar) -> te.Reduction:
        element = source[(n, c, *window.at(at, taps))]
        return te.sum(multiplied(element, weights[(c, *taps)]), axis=taps)

    return te.compute(shape, body, name, axes="nchw")


def conv2d_nhwc(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    dilation: Extents = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Convolve data[n, h, w, c] with weights[kh, kw, c, f]; the result is [n, h', w', f].

    Raises:
        SpecError: ranks, channels or the window do not fit.
    """
    action = f"convolve {shown(data)} with {shown(weights)}"
    require_rank(data, 4, action, "[n, h, w, c]")
    require_rank(weights, 4, action, "[kh, kw, c, f]")
    batch, *extents, inputs = data.shape
    *kernel, depth, outputs = weights.shape
    if depth != inputs:
        refuse(action, f"the data has {inputs} channels", f"weights [kh, kw, {inputs}, f]")
    window = geometry(kernel, stride, padding, dilation, action)
    shape = (batch, *window.outputs(extents), outputs)
    source = window.padded(data, 1, zero(data.dtype), "nhwc")
    taps = window.taps(("ry", "rx"))
    rc = te.reduce_axis((0, inputs), "rc")

    def body(n: te.Scalar, h: te.Scalar, w: te.Scalar, f: te.Scalar) -> te.Reduction:
        element = source[(n, *window.at((h, w), taps), rc)]
        return te.sum(multiplied(element, weights[(*taps, rc, f)]), axis=(*taps, rc))

    return te.compute(shape, body, name)


def capsule_conv2d(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    dilation: Extents = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Convolve matrices: data[n, h, w, i, k, c] with weights[kh, kw, k, j, c, f].

    The result is [n, h', w', i, j, f]. Source: the capsule convolution of Ansor's benchmarks.

    Raises:
        SpecError: ranks, channels, matrices or the window do not fit.
    """
    action = f"convolve {shown(data)} with {shown(weights)}"
    require_rank(data, 6, action, "[n, h, w, i, k, c]")
    require_rank(weights, 6, action, "[kh, kw, k, j, c, f]")
    batch, height, width, rows, inner, inputs = data.shape
    *kernel, depth, columns, channels, outputs = weights.shape
    if (depth, channels) != (inner, inputs):
        refuse(
            action, "its matrices and channels differ", f"weights [kh, kw, {inner}, j, {inputs}, f]"
        )
    window = geometry(kernel, stride, padding, dilation, action)
    shape = (batch, *window.outputs((height, width)), rows, columns, outputs)
    source = window.padded(data, 1, zero(data.dtype), "nhwijc")
    taps = window.taps(("ry", "rx"))
    k, rc = te.reduce_axis((0, inner), "k"), te.reduce_axis((0, inputs), "rc")
    return te.compute(
        shape,
        lambda n, h, w, i, j, f: te.sum(
            multiplied(
                source[(n, *window.at((h, w), taps), i, k, rc)], weights[(*taps, k, j, rc, f)]
            ),
            axis=(*taps, k, rc),
        ),
        name,
    )


def _conv(
    rank: int, data: Tensor, weights: Tensor, stride: Extents, padding: Extents,
    dilation: Extents, groups: int, name: str,
) -> Tensor:  # fmt: skip
    """Return a convolution over `rank` spatial dimensions."""
    letters = "dhw"[3 - rank :]
    action = f"convolve {shown(data)} with {shown(weights)}"
    require_rank(data, rank + 2, action, f"[n, c, {', '.join(letters)}]")
    require_rank(
        weights, rank + 2, action, f"[f, c / groups, {', '.join('k' + s for s in letters)}]"
    )
    batch, inputs, *extents = data.shape
    outputs, depth, *kernel = weights.shape
    if groups < 1 or inputs % groups or outputs % groups:
        refuse(action, f"groups is {groups}", f"a divisor of {inputs} and {outputs} channels")
    if depth != inputs // groups:
        refuse(action, f"the weights take {depth} channels",
               f"{inputs // groups}: {inputs} channels in {groups} groups")  # fmt: skip
    window = geometry(kernel, stride, padding, dilation, action)
    shape = (batch, outputs, *window.outputs(extents))
    source = window.padded(data, 2, zero(data.dtype), f"nc{letters}")
    share = outputs // groups
    rc = te.reduce_axis((0, depth), "rc")
    taps = window.taps([f"r{letter}" for letter in letters])

    def body(n: te.Scalar, f: te.Scalar, *at: te.Scalar) -> te.Reduction:
        channel = rc if groups == 1 else f // share * depth + rc
        element = source[(n, channel, *window.at(at, taps))]
        return te.sum(multiplied(element, weights[(f, rc, *taps)]), axis=(rc, *taps))

    return te.compute(shape, body, name, axes=("n", "f", *letters))
