"""Resampling along one axis by constant tables, as a resize of images or volumes needs."""

import numpy as np

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import axis_of, refuse, shown


def resample(
    data: Tensor, places: "np.typing.ArrayLike", weights: "np.typing.ArrayLike", axis: int,
    *, name: str = "resample",
) -> Tensor:  # fmt: skip
    """Return weighted sums of elements along an axis: of data[places[i, t]] * weights[i, t] over t.

    Args:
        places: constant indices [new extent, terms], from 0 on.
        weights: constant factors of the same shape.

    Raises:
        SpecError: the tables do not fit each other or the axis.
    """
    action = f"resample {shown(data)}"
    at = axis_of(axis, len(data.shape), action)
    rows, factors = np.asarray(places, np.int64), np.asarray(weights)
    if rows.ndim != 2 or factors.shape != rows.shape or not rows.size:
        because = f"its tables are {list(rows.shape)} and {list(factors.shape)}"
        refuse(action, because, "two matrices of one shape")
    if rows.min() < 0 or rows.max() >= data.shape[at]:
        refuse(action, f"places are {rows.min()} to {rows.max()}", f"0 to {data.shape[at] - 1}")
    index, last = te.constant(rows, "places"), data.shape[at] - 1
    storage = "float32" if data.dtype == "bfloat16" else data.dtype
    factor = te.constant(factors.astype(storage), "weights", data.dtype)
    t = te.reduce_axis((0, rows.shape[1]), "t")

    def body(*i: te.Scalar) -> te.Reduction:
        place = te.clamped(index[i[at], t], 0, last)
        return te.sum(data[(*i[:at], place, *i[at + 1 :])] * factor[i[at], t], axis=t)

    return te.compute((*data.shape[:at], rows.shape[0], *data.shape[at + 1 :]), body, name)
