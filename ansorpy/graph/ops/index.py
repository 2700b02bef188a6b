"""Operators of indices and shapes, and tensors that follow from shapes alone."""

from typing import Final

import numpy as np

from ansorpy import topi
from ansorpy.graph.graph import Array
from ansorpy.graph.operator import Operands, operator, value_operator
from ansorpy.te.tensor import Tensor

MOST_ELEMENTS: Final = 1 << 28  # elements of a constant made from a shape: 1 GiB of float32


@value_operator("Shape", "start", "end")
def _shape(on: Operands) -> Array:
    shape = on.tensor(0).shape
    return np.array(shape[on.attribute("start", 0) : on.attribute("end")], np.int64)


@value_operator("Size")
def _size(on: Operands) -> Array:
    return np.array(np.prod(on.tensor(0).shape, dtype=np.int64))


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
    dtype = on.attribute("dtype", x.dtype)
    return np.eye(*x.shape, k=on.attribute("k", 0)).astype(dtype)


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
