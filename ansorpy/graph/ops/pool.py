"""Pooling."""

from collections.abc import Sequence
from typing import TypedDict

from ansorpy import topi
from ansorpy.graph.operator import Operands, operator
from ansorpy.graph.ops.conv import WINDOW, numbers, pads_of
from ansorpy.te.tensor import Tensor


class PoolWindow(TypedDict):
    """The geometry of a window, as operators of topi take it."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def _window(on: Operands) -> PoolWindow:
    x, kernel = on.tensor(0), on.attribute("kernel_shape")
    rank = len(x.shape) - 2
    if kernel is None or len(kernel) != rank:
        on.refuse(f"kernel_shape is {kernel} for rank {rank + 2}", f"{rank} numbers")
    strides, dilations = numbers(on, "strides", rank), numbers(on, "dilations", rank)
    pads = pads_of(on, x.shape[2:], kernel, strides, dilations)
    return {"kernel": tuple(kernel), "stride": strides, "padding": pads, "dilation": dilations}


@operator("MaxPool", *WINDOW, "ceil_mode", "storage_order")
def _max_pool(on: Operands) -> Tensor | Sequence[Tensor]:
    window, ceil = _window(on), bool(on.attribute("ceil_mode", 0))
    if len(on.node.outputs) < 2:
        return topi.max_pool(on.tensor(0), **window, ceil_mode=ceil)
    return topi.max_pool_with_index(
        on.tensor(0), **window, ceil_mode=ceil, column_major=bool(on.attribute("storage_order", 0))
    )


@operator("AveragePool", *WINDOW, "ceil_mode", "count_include_pad")
def _average_pool(on: Operands) -> Tensor:
    return topi.avg_pool(
        on.tensor(0), **_window(on), ceil_mode=bool(on.attribute("ceil_mode", 0)),
        count_include_pad=bool(on.attribute("count_include_pad", 0)),
    )  # fmt: skip


@operator("LpPool", *WINDOW, "ceil_mode", "p")
def _lp_pool(on: Operands) -> Tensor:
    return topi.lp_pool(
        on.tensor(0), **_window(on), p=on.attribute("p", 2),
        ceil_mode=bool(on.attribute("ceil_mode", 0)),
    )  # fmt: skip


@operator("GlobalAveragePool")
def _global_average_pool(on: Operands) -> Tensor:
    return topi.global_avg_pool(on.tensor(0))


@operator("GlobalMaxPool")
def _global_max_pool(on: Operands) -> Tensor:
    return topi.global_max_pool(on.tensor(0))


@operator("GlobalLpPool", "p")
def _global_lp_pool(on: Operands) -> Tensor:
    x, p = on.tensor(0), on.attribute("p", 2)
    axes = tuple(range(2, len(x.shape)))
    total = topi.sum(topi.power(topi.abs(x), float(p)), axes, keepdims=True)
    return topi.power(total, 1 / p)
