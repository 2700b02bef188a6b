"""Gathers: operators that take elements at indices which are the elements of a tensor.

A negative index counts from the end. An index beyond either end is clamped to the nearest element:
no kernel reads outside of a tensor, for any indices.
"""

from ansorpy import te
from ansorpy.expr.dtypes import UNSIGNED
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import axis_of, refuse, require_integers, shown


def take(data: Tensor, indices: Tensor, axis: int = 0, *, name: str = "take") -> Tensor:
    """Return the parts of `data` along an axis that `indices` names; rows of a table for axis 0.

    The result has the shape of `data`, with the shape of `indices` for the axis (ONNX Gather).

    Raises:
        SpecError: there is no such axis, or the indices are no integers.
    """
    action = f"take from {shown(data)} at {shown(indices)}"
    require_integers(indices, action)
    at = axis_of(axis, len(data.shape), action)
    rank = len(indices.shape)

    def body(*i: te.Scalar) -> te.Scalar:
        place = index_of(indices[i[at : at + rank]], data.shape[at])
        return data[(*i[:at], place, *i[at + rank :])]

    return te.compute((*data.shape[:at], *indices.shape, *data.shape[at + 1 :]), body, name)


def gather_elements(
    data: Tensor, indices: Tensor, axis: int = 0, *, name: str = "gather_elements"
) -> Tensor:
    """Return for every element of `indices` the element of `data` there along an axis.

    out[i, j] = data[indices[i, j], j] for axis 0; the result is as large as `indices` (ONNX
    GatherElements).

    Raises:
        SpecError: there is no such axis, the indices are no integers, or their shape has another
            rank, or exceeds the shape of `data` along another axis.
    """
    action = f"gather from {shown(data)} at {shown(indices)}"
    require_integers(indices, action)
    at = axis_of(axis, len(data.shape), action)
    if len(indices.shape) != len(data.shape):
        refuse(action, "their ranks differ", f"indices of rank {len(data.shape)}")
    for d, (wanted, extent) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if d != at and wanted > extent:
            refuse(action, f"axis {d} has {wanted} indices", f"at most {extent}")

    def body(*i: te.Scalar) -> te.Scalar:
        place = index_of(indices[i], data.shape[at])
        return data[(*i[:at], place, *i[at + 1 :])]

    return te.compute(indices.shape, body, name)


def gather_nd(
    data: Tensor, indices: Tensor, batch_dims: int = 0, *, name: str = "gather_nd"
) -> Tensor:
    """Return the parts of `data` at the vectors along the last axis of `indices`.

    out[i, ...] = data[indices[i, 0], indices[i, 1], ...]; the first `batch_dims` axes of both are
    the same axes of the result (ONNX GatherND).

    Raises:
        SpecError: the indices are no integers, the batch axes differ, or a vector of indices is
            longer than the other axes of `data`.
    """
    action = f"gather from {shown(data)} at {shown(indices)}"
    require_integers(indices, action)
    if not 0 <= batch_dims < min(len(data.shape), len(indices.shape)):
        most = min(len(data.shape), len(indices.shape)) - 1
        refuse(action, f"batch_dims is {batch_dims}", f"0 to {most}")
    if indices.shape[:batch_dims] != data.shape[:batch_dims]:
        refuse(action, f"the first {batch_dims} axes differ", "equal extents there")
    *outer, length = indices.shape
    if length > len(data.shape) - batch_dims:
        most = len(data.shape) - batch_dims
        refuse(action, f"a vector has {length} indices", f"at most {most}")
    inner = data.shape[batch_dims + length :]

    def body(*i: te.Scalar) -> te.Scalar:
        at = i[: len(outer)]
        places = (index_of(indices[(*at, k)], data.shape[batch_dims + k]) for k in range(length))
        return data[(*at[:batch_dims], *places, *i[len(outer) :])]

    return te.compute((*outer, *inner), body, name)


def index_of(value: te.Scalar, extent: int) -> te.Scalar:
    """Return an element of a tensor as an index of an axis: from the end if negative, clamped."""
    return te.clamped(from_the_end(value, extent), 0, extent - 1)


def from_the_end(value: te.Scalar, extent: int) -> te.Scalar:
    """Return an element of a tensor as an int64 that counts from the end if it is negative."""
    place = te.cast(value, "int64")
    return place if value.dtype in UNSIGNED else te.select(place < 0, place + extent, place)
