"""Caches of keys and values: copies with some rows replaced, at a place per element of a batch."""

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import axis_of, refuse, require_integers, shown


def tensor_scatter(
    data: Tensor,
    updates: Tensor,
    starts: Tensor,
    axis: int = -2,
    *,
    circular: bool = False,
    name: str = "tensor_scatter",
) -> Tensor:
    """Return `data` with `updates` along an axis, from starts[n] on for element n of the batch.

    out[n, ..., starts[n] + k, ...] = updates[n, ..., k, ...] (ONNX TensorScatter). Updates beyond
    either end of the axis have no effect.

    Args:
        starts: shape (batch,), integers.
        circular: updates beyond the end go on at the beginning.

    Raises:
        SpecError: there is no such axis behind the batch, or shapes or dtypes do not fit.
    """
    action = f"update {shown(data)} by {shown(updates)} from {shown(starts)} on"
    require_integers(starts, action)
    at = axis_of(axis, len(data.shape), action)
    wanted = (*data.shape[:at], *updates.shape[at : at + 1], *data.shape[at + 1 :])
    if updates.dtype != data.dtype:
        refuse(action, f"the updates are {updates.dtype}", f"{data.dtype}, as the data")
    if at == 0 or updates.shape != wanted:
        because = f"axis {at} is that of the batch" if at == 0 else "their shapes differ"
        refuse(action, because, "one axis behind the batch with fewer rows")
    if starts.shape != data.shape[:1] or updates.shape[at] > data.shape[at]:
        because = f"{updates.shape[at]} rows begin at {shown(starts)}"
        refuse(action, because, f"at most {data.shape[at]} rows, and a start per element")
    size, count = data.shape[at], updates.shape[at]

    def body(*i: te.Scalar) -> te.Scalar:
        row = i[at] - te.cast(starts[i[0]], "int64")
        row = row % size if circular else row
        update = updates[(*i[:at], te.clamped(row, 0, count - 1), *i[at + 1 :])]
        return te.select(te.all(row >= 0, row < count), update, data[i])

    return te.compute(data.shape, body, name)
