"""Convolutions and transposed convolutions over one to three spatial dimensions."""

from collections.abc import Sequence

from ansorpy import topi
from ansorpy.graph.operator import Operands, operator
from ansorpy.te.tensor import Tensor

WINDOW = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


def pads_of(
    on: Operands, extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[int, ...]:  # fmt: skip
    """Return the padding in front of all spatial dimensions, then behind, as `auto_pad` says."""
    mode = on.attribute("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return tuple(on.attribute("pads", (0,) * (2 * len(kernel))))
    if mode == "VALID":
        return (0,) * (2 * len(kernel))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        on.refuse(f"auto_pad is {mode[:40]!r}", "NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    totals = [
        max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        for n, k, s, d in zip(extents, kernel, strides, dilations, strict=True)
    ]
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return (*less, *more) if mode == "SAME_UPPER" else (*more, *less)


def numbers(on: Operands, name: str, rank: int) -> tuple[int, ...]:
    """Return an attribute with one number per spatial dimension, 1 by default."""
    found = tuple(on.attribute(name, (1,) * rank))
    if len(found) != rank or min(found) < 1:
        on.refuse(f"attribute {name!r} is {list(found)}", f"{rank} positive numbers")
    return found


def convolved(on: Operands, x: Tensor, w: Tensor) -> Tensor:
    """Return the convolution of tensors by the attributes of a node."""
    rank = len(x.shape) - 2
    if not 1 <= rank <= 3 or len(w.shape) != rank + 2:
        on.refuse(f"its operands have ranks {len(x.shape)} and {len(w.shape)}", "equal: 3 to 5")
    strides, dilations = numbers(on, "strides", rank), numbers(on, "dilations", rank)
    conv = (topi.conv1d, topi.conv2d, topi.conv3d)[rank - 1]
    return conv(
        x, w, stride=strides, dilation=dilations, groups=on.attribute("group", 1),
        padding=pads_of(on, x.shape[2:], w.shape[2:], strides, dilations),
    )  # fmt: skip


@operator("Conv", *WINDOW, "group")
def _conv(on: Operands) -> Tensor:
    made = convolved(on, on.tensor(0), on.tensor(1))
    return topi.bias_add(made, on.tensor(2)) if on.given(2) else made


@operator("ConvTranspose", *WINDOW, "group", "output_padding", "output_shape")
def _conv_transpose(on: Operands) -> Tensor:
    x, w = on.tensor(0), on.tensor(1)
    rank = len(x.shape) - 2
    if not 1 <= rank <= 3 or len(w.shape) != rank + 2:
        on.refuse(f"its operands have ranks {len(x.shape)} and {len(w.shape)}", "equal: 3 to 5")
    strides, dilations = numbers(on, "strides", rank), numbers(on, "dilations", rank)
    extra = tuple(on.attribute("output_padding", (0,) * rank))
    mode, wanted = on.attribute("auto_pad", "NOTSET"), on.attribute("output_shape")
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is None:
        pads = (
            tuple(on.attribute("pads", (0,) * (2 * rank))) if mode != "VALID" else (0,) * 2 * rank
        )
    else:
        wanted = wanted[-rank:]
        totals = [
            (n - 1) * s + e + r - o
            for n, s, e, r, o in zip(x.shape[2:], strides, extra, reach, wanted, strict=True)
        ]
        extra = tuple(e + max(-t, 0) for e, t in zip(extra, totals, strict=True))
        totals = [max(t, 0) for t in totals]
        less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
        pads = (*less, *more) if mode == "SAME_UPPER" else (*more, *less)
    conv = (topi.conv1d_transpose, topi.conv2d_transpose, topi.conv3d_transpose)[rank - 1]
    made = conv(
        x, w, stride=strides, dilation=dilations, groups=on.attribute("group", 1), padding=pads,
        output_padding=extra,
    )  # fmt: skip
    return topi.bias_add(made, on.tensor(2)) if on.given(2) else made
