"""Triangles of matrices and one-hot encodings."""

from ansorpy import te
from ansorpy.expr.dtypes import INTS
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import refuse, shown, zero


def triu(data: Tensor, k: int = 0, *, name: str = "triu") -> Tensor:
    """Return the elements of matrices with column - row >= k, and 0 for the rest.

    Raises:
        SpecError: the rank is below 2.
    """
    _require_matrix(data, name)
    return te.compute(
        data.shape,
        lambda *i: te.select(i[-1] - i[-2] >= k, data[i], zero(data.dtype)),
        name,
    )


def tril(data: Tensor, k: int = 0, *, name: str = "tril") -> Tensor:
    """Return the elements of matrices with column - row <= k, and 0 for the rest.

    Raises:
        SpecError: the rank is below 2.
    """
    _require_matrix(data, name)
    return te.compute(
        data.shape,
        lambda *i: te.select(i[-1] - i[-2] <= k, data[i], zero(data.dtype)),
        name,
    )


def one_hot(
    indices: Tensor, depth: int, dtype: str = "float32", *, name: str = "one_hot"
) -> Tensor:
    """Return a tensor with a last axis of `depth`: 1 at the position `indices` says, else 0.

    An index outside of 0 to depth - 1 gives zeros only. `matmul(one_hot(i, n), table)` reads rows
    of a table, at the cost of n products each: indices that are data cannot address a tensor.

    Raises:
        SpecError: the indices are not integers, or `depth` is below 1.
    """
    if indices.dtype not in INTS:
        refuse(f"encode {shown(indices)}", f"its dtype is {indices.dtype}", "an integer dtype")
    one = te.const(True if dtype == "bool" else 1, dtype)
    return te.compute(
        (*indices.shape, depth),
        lambda *i: te.select(te.cast(indices[i[:-1]], "int64") == i[-1], one, zero(dtype)),
        name,
    )


def _require_matrix(data: Tensor, name: str) -> None:
    if len(data.shape) < 2:
        refuse(f"compute {name} of {shown(data)}", "its rank is below 2", "[..., rows, columns]")
