"""Samples at positions that are data, and blocks put together."""

from functools import partial

from ansorpy import topi
from ansorpy.graph.operator import Operands, operator
from ansorpy.graph.ops.normal import widened
from ansorpy.te.tensor import Tensor


@operator("GridSample", "align_corners", "mode", "padding_mode")
def _grid_sample(on: Operands) -> Tensor:
    mode = on.attribute("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    sample = partial(
        topi.grid_sample, mode=mode, padding=on.attribute("padding_mode", "zeros"),
        align_corners=bool(on.attribute("align_corners", 0)),
    )  # fmt: skip
    return widened(on, sample, on.tensor(0), on.tensor(1))


@operator("ReverseSequence", "batch_axis", "time_axis")
def _reverse_sequence(on: Operands) -> Tensor:
    return topi.reverse_sequence(
        on.tensor(0), on.tensor(1), on.attribute("time_axis", 0), on.attribute("batch_axis", 1)
    )


@operator("Col2Im", "dilations", "pads", "strides")
def _col2im(on: Operands) -> Tensor:
    image, block = on.ints(1), on.ints(2)
    rank = len(image)
    if len(block) != rank:
        on.refuse(f"its block is {list(block)} for an image of {rank} axes", "equal ranks")
    return topi.col2im(
        on.tensor(0), image, block, stride=on.attribute("strides", (1,) * rank),
        padding=on.attribute("pads", (0,) * (2 * rank)),
        dilation=on.attribute("dilations", (1,) * rank),
    )  # fmt: skip


@operator("CumSum", "exclusive", "reverse")
def _cumsum(on: Operands) -> Tensor:
    return topi.cumsum(
        on.tensor(0), int(on.number(1)), exclusive=bool(on.attribute("exclusive", 0)),
        reverse=bool(on.attribute("reverse", 0)),
    )  # fmt: skip
