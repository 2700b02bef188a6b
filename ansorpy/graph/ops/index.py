"""Operators of indices and shapes, and tensors that follow from shapes alone."""

from typing import Final

import numpy as np

from ansorpy import te, topi
from ansorpy.graph.graph import Array
from ansorpy.graph.operator import EmptyResult, Operands, operator, value_operator
from ansorpy.te.dims import least
from ansorpy.te.tensor import Tensor

MOST_ELEMENTS: Final = 1 << 28  # elements of a constant made from a shape: 1 GiB of float32


@value_operator("Shape", "start", "end")
def _shape(on: Operands) -> Array:
    shape = on.shape(0)
    return np.array(shape[on.attribute("start", 0) : on.attribute("end")], np.int64)


@value_operator("Size")
def _size(on: Operands) -> Array:
    return np.array(np.prod(on.shape(0), dtype=np.int64))


@value_operator("ConstantOfShape", "value", "value_dtype")
def _constant_of_shape(on: Operands) -> Array:
    shape = on.ints(0)
    dtype = on.attribute("value_dtype", "float32")
    if min(shape, default=0) < 0 or float(np.prod(shape, dtype=float)) > MOST_ELEMENTS:
        on.refuse(f"its shape is {list(shape)}", f"at most {MOST_ELEMENTS} elements")
    if dtype == "bfloat16":
        on.refuse("its value is bfloat16", "another dtype, and a Cast")
    return np.full(shape, on.attribute("value", 0.0), dtype)


@value_operator("Range", "stash_type")
def _range(on: Operands) -> Array:
    if on.dtype(0) == "bfloat16":
        on.refuse("its values are bfloat16", "another dtype, and a Cast")
    first, last, step = (on.number(n) for n in range(3))
    if not step or abs((last - first) / step) > MOST_ELEMENTS:
        on.refuse(f"it counts from {first} to {last} by {step}", f"at most {MOST_ELEMENTS} steps")
    kind = on.array(0).dtype
    count = max(int(np.ceil((last - first) / step)), 0)
    return np.asarray(np.arange(count) * step + first, kind)


@value_operator("EyeLike", "dtype", "k")
def _eye_like(on: Operands) -> Array:
    x = on.tensor(0)
    if len(x.shape) != 2:
        on.refuse(f"its input has rank {len(x.shape)}", "rank 2")
    if x.shape[0] * x.shape[1] > MOST_ELEMENTS:
        on.refuse(f"its shape is {list(x.shape)}", f"at most {MOST_ELEMENTS} elements")
    dtype = on.attribute("dtype", x.dtype)
    return np.eye(*x.shape, k=on.attribute("k", 0)).astype(dtype)


@operator("Gather", "axis")
def _gather(on: Operands) -> Tensor:
    """Take parts along an axis; known indices at equal distances are a slice."""
    x, axis = on.tensor(0), on.attribute("axis", 0)
    if not on.known(1) or not -len(x.shape) <= axis < len(x.shape):
        return topi.take(x, on.tensor(1), axis)
    extent, at = x.shape[axis], axis % len(x.shape)
    if on.empty(1):
        raise EmptyResult((*x.shape[:at], *on.array(1).shape, *x.shape[at + 1 :]), x.dtype)
    places = [place + extent if place < 0 else place for place in on.ints(1)]
    if not 0 <= min(places) <= max(places) < least(extent):
        on.refuse(f"an index is beyond axis {axis} of {extent}", f"{-extent} to {extent - 1}")
    step = places[1] - places[0] if len(places) > 1 else 1
    if step == 0 or places != [places[0] + step * n for n in range(len(places))]:
        return topi.take(x, on.tensor(1), axis)
    begin, end, stride = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    last = places[-1] + (1 if step > 0 else -1)
    begin[at], end[at], stride[at] = places[0], last if last >= 0 else -extent - 1, step
    part = topi.strided_slice(x, begin, end, stride)
    return topi.reshape(part, (*x.shape[:at], *on.array(1).shape, *x.shape[at + 1 :]))


@operator("GatherElements", "axis")
def _gather_elements(on: Operands) -> Tensor:
    return topi.gather_elements(on.tensor(0), on.tensor(1), on.attribute("axis", 0))


@operator("GatherND", "batch_dims")
def _gather_nd(on: Operands) -> Tensor:
    return topi.gather_nd(on.tensor(0), on.tensor(1), on.attribute("batch_dims", 0))


@operator("ScatterElements", "axis", "reduction")
def _scatter_elements(on: Operands) -> Tensor:
    reduction = on.attribute("reduction", "none")
    x, indices, updates = (on.tensor(n) for n in range(3))
    return topi.scatter_elements(x, indices, updates, on.attribute("axis", 0), reduction=reduction)


@operator("ScatterND", "reduction")
def _scatter_nd(on: Operands) -> Tensor:
    x, indices, updates = (on.tensor(n) for n in range(3))
    return topi.scatter_nd(x, indices, updates, reduction=on.attribute("reduction", "none"))


@operator("TensorScatter", "axis", "mode")
def _tensor_scatter(on: Operands) -> Tensor:
    x, updates, axis = on.tensor(0), on.tensor(1), on.attribute("axis", -2)
    first = np.zeros(x.shape[:1], np.int64)
    starts = on.tensor(2) if on.given(2) else te.constant(first)
    circular = on.attribute("mode", "linear") == "circular"
    return topi.tensor_scatter(x, updates, starts, axis, circular=circular)


@operator("Trilu", "upper")
def _trilu(on: Operands) -> Tensor:
    x, k = on.tensor(0), on.number(1, 0)
    return topi.triu(x, k) if on.attribute("upper", 1) else topi.tril(x, k)


@operator("OneHot", "axis")
def _one_hot(on: Operands) -> Tensor:
    """Return off and on values; a negative index counts from the depth."""
    depth, axis = int(on.number(1)), on.attribute("axis", -1)
    indices, values = on.tensor(0), on.tensor(2)
    whole = topi.cast(indices, "int64")
    whole = topi.where(topi.less(whole, 0), topi.add(whole, depth), whole)
    hot = topi.one_hot(whole, depth, "bool")
    rank = len(hot.shape)
    if axis % rank != rank - 1:
        order = list(range(rank - 1))
        order.insert(axis % rank, rank - 1)
        hot = topi.transpose(hot, order)
    off, one = (topi.reshape(part, (1,) * rank) for part in topi.split(values, 2))
    return topi.where(hot, one, off)
