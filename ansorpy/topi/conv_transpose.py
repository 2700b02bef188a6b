"""Transposed convolutions: the gradients of convolutions by their data."""

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import multiplied, per_dimension, refuse, require_rank, shown, zero
from ansorpy.topi.window import Extents, geometry


def conv1d_transpose(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    output_padding: Extents = 0, dilation: Extents = 1, groups: int = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Return the transposed convolution of data[n, c, w] with weights[c, f / groups, kw].

    The rest is as in `conv2d_transpose`.

    Raises:
        SpecError: ranks, channels, groups or the window do not fit.
    """
    return _conv_transpose(
        1, data, weights, stride, padding, output_padding, dilation, groups, name
    )


def conv2d_transpose(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    output_padding: Extents = 0, dilation: Extents = 1, groups: int = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Return the transposed convolution of data[n, c, h, w] with weights[c, f / groups, kh, kw].

    An output extent is (extent - 1) * stride + dilation * (kernel - 1) + 1 - padding in front
    and behind + output_padding. Source: Ansor's benchmarks: the node `spread` puts stride - 1
    zeros between the elements and pads; a convolution with the reversed weights follows.

    Raises:
        SpecError: ranks, channels, groups or the window do not fit.
    """
    return _conv_transpose(
        2, data, weights, stride, padding, output_padding, dilation, groups, name
    )


def conv3d_transpose(
    data: Tensor, weights: Tensor, *, stride: Extents = 1, padding: Extents = 0,
    output_padding: Extents = 0, dilation: Extents = 1, groups: int = 1, name: str = "conv",
) -> Tensor:  # fmt: skip
    """Return the transposed convolution of data[n, c, d, h, w], as `conv2d_transpose` does.

    The weights are [c, f / groups, kd, kh, kw].

    Raises:
        SpecError: ranks, channels, groups or the window do not fit.
    """
    return _conv_transpose(
        3, data, weights, stride, padding, output_padding, dilation, groups, name
    )


def _conv_transpose(
    rank: int, data: Tensor, weights: Tensor, stride: Extents, padding: Extents,
    output_padding: Extents, dilation: Extents, groups: int, name: str,
) -> Tensor:  # fmt: skip
    letters = "dhw"[3 - rank :]
    action = f"convolve {shown(data)} with transposed {shown(weights)}"
    require_rank(data, rank + 2, action, f"[n, c, {', '.join(letters)}]")
    require_rank(
        weights, rank + 2, action, f"[c, f / groups, {', '.join('k' + s for s in letters)}]"
    )
    batch, inputs, *extents = data.shape
    channels, share, *kernel = weights.shape
    if channels != inputs:
        refuse(action, f"the data has {inputs} channels", f"weights [{inputs}, f / groups, ...]")
    if groups < 1 or inputs % groups:
        refuse(action, f"groups is {groups}", f"a divisor of {inputs} channels")
    window = geometry(kernel, stride, padding, dilation, action)
    extra = per_dimension(output_padding, rank, "output_padding", action)
    reach = [d * (k - 1) for d, k in zip(window.dilation, kernel, strict=True)]
    border = [r - b for r, b in zip(reach, window.before, strict=True)]
    wide = [
        (extent - 1) * s + 1 + first + r - a + e
        for extent, s, first, r, a, e in zip(
            extents, window.stride, border, reach, window.after, extra, strict=True
        )
    ]
    shape = [w - r for w, r in zip(wide, reach, strict=True)]
    if min(shape) < 1 or min(extra) < 0:
        refuse(action, f"the output would be {shape}", "less padding, output_padding from 0 on")

    def spread(n: te.Scalar, c: te.Scalar, *at: te.Scalar) -> te.Scalar:
        conditions = []
        source = []
        for i, extent, first, s in zip(at, extents, border, window.stride, strict=True):
            conditions += [i >= first, i < first + (extent - 1) * s + 1, (i - first) % s == 0]
            source.append((i - first) // s)
        return te.select(te.all(*conditions), data[(n, c, *source)], zero(data.dtype))

    zeros_between = te.compute((batch, inputs, *wide), spread, "spread", axes=("n", "c", *letters))
    depth = inputs // groups
    rc = te.reduce_axis((0, depth), "rc")
    taps = window.taps(("rz", "ry", "rx")[3 - rank :])
    turned = [k - 1 - r for k, r in zip(kernel, taps, strict=True)]

    def body(n: te.Scalar, f: te.Scalar, *at: te.Scalar) -> te.Reduction:
        channel = rc if groups == 1 else f // share * depth + rc
        places = [
            i + (r if d == 1 else r * d) for i, r, d in zip(at, taps, window.dilation, strict=True)
        ]
        weight = weights[(channel, f if groups == 1 else f % share, *turned)]
        return te.sum(multiplied(zeros_between[(n, channel, *places)], weight), axis=(rc, *taps))

    return te.compute((batch, share * groups, *shape), body, name, axes=("n", "f", *letters))
