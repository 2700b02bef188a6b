"""Reductions over axes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ansorpy import topi
from ansorpy.expr.dtypes import FLOATS
from ansorpy.graph.operator import Operands, operator
from ansorpy.te.tensor import Tensor

Reducer = Callable[..., Tensor]


def _reduction(name: str, fn: Reducer, before: Callable[[Tensor], Tensor] | None = None) -> None:
    """Enter the operator that applies `before` to the data and reduces the result by `fn`."""

    def build(on: Operands) -> Tensor:
        x = on.tensor(0)
        axes = on.axes(1)
        source = before(x) if before else x
        if not axes and axes is not None and not on.attribute("noop_with_empty_axes", 0):
            axes = None
        if axes is None and on.attribute("noop_with_empty_axes", 0):
            axes = ()
        return fn(source, axes, keepdims=bool(on.attribute("keepdims", 1)))

    operator(name, "axes", "keepdims", "noop_with_empty_axes")(build)


def _of_bool(fn: Reducer) -> Reducer:
    """Return a reduction that takes bool tensors as 0 and 1."""

    def apply(x: Tensor, axes: Any, *, keepdims: bool) -> Tensor:
        if x.dtype != "bool":
            return fn(x, axes, keepdims=keepdims)
        return topi.not_equal(fn(topi.cast(x, "uint8"), axes, keepdims=keepdims), 0)

    return apply


def _mean(x: Tensor, axes: Any, *, keepdims: bool) -> Tensor:
    if x.dtype in FLOATS:
        return topi.mean(x, axes, keepdims=keepdims)
    total = topi.mean(topi.cast(x, "float64"), axes, keepdims=keepdims)
    return topi.cast(total, x.dtype)


def _norm(x: Tensor, axes: Any, *, keepdims: bool) -> Tensor:
    if x.dtype in FLOATS:
        return topi.norm(x, axes, keepdims=keepdims)
    return topi.cast(topi.norm(topi.cast(x, "float64"), axes, keepdims=keepdims), x.dtype)


def _log_sum(x: Tensor, axes: Any, *, keepdims: bool) -> Tensor:
    if x.dtype in FLOATS:
        return topi.log(topi.sum(x, axes, keepdims=keepdims))
    total = topi.sum(topi.cast(x, "float64"), axes, keepdims=keepdims)
    some = topi.greater(total, 0.0)
    found = topi.cast(topi.log(topi.where(some, total, 1.0)), x.dtype)
    return topi.where(some, found, np.iinfo(x.dtype).min)  # no integer is minus infinity


def _log_sum_exp(x: Tensor, axes: Any, *, keepdims: bool) -> Tensor:
    if x.dtype in FLOATS:
        return topi.logsumexp(x, axes, keepdims=keepdims)
    return topi.cast(topi.logsumexp(topi.cast(x, "float64"), axes, keepdims=keepdims), x.dtype)


_reduction("ReduceSum", topi.sum)
_reduction("ReduceProd", topi.prod)
_reduction("ReduceMax", _of_bool(topi.max))
_reduction("ReduceMin", _of_bool(topi.min))
_reduction("ReduceMean", _mean)
_reduction("ReduceL1", topi.sum, topi.abs)
_reduction("ReduceL2", _norm)
_reduction("ReduceSumSquare", topi.sum, topi.square)
_reduction("ReduceLogSum", _log_sum)
_reduction("ReduceLogSumExp", _log_sum_exp)


def _index(name: str, fn: Reducer) -> None:
    def build(on: Operands) -> Tensor:
        x, axis = on.tensor(0), on.attribute("axis", 0)
        keepdims, last = bool(on.attribute("keepdims", 1)), bool(on.attribute("select_last_index"))
        return fn(x, axis, keepdims=keepdims, select_last_index=last)

    operator(name, "axis", "keepdims", "select_last_index")(build)


_index("ArgMax", topi.argmax)
_index("ArgMin", topi.argmin)


@operator("CumSum", "exclusive", "reverse")
def _cumsum(on: Operands) -> Tensor:
    exclusive, reverse = (bool(on.attribute(name, 0)) for name in ("exclusive", "reverse"))
    return topi.cumsum(on.tensor(0), int(on.number(1)), exclusive=exclusive, reverse=reverse)


@operator("Hardmax", "axis")
def _hardmax(on: Operands) -> Tensor:
    """Return 1 at the first largest element along an axis, else 0."""
    x, axis = on.tensor(0), on.attribute("axis", -1)
    rank = len(x.shape)
    encoded = topi.one_hot(topi.argmax(x, axis), x.shape[axis], x.dtype)
    order = list(range(rank - 1))
    order.insert(axis % rank, rank - 1)
    return encoded if axis % rank == rank - 1 else topi.transpose(encoded, order)
