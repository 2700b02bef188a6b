"""Element-wise nodes."""

from ansorpy import te
from ansorpy.te.dag import Dag


def relu_of(data: te.Tensor) -> te.Tensor:
    """Return max(data, 0)."""
    return te.compute(data.shape, lambda *i: te.maximum(data[i], 0.0), "relu")


def elementwise_chain(rows: int, columns: int, dtype: str = "float32") -> Dag:
    """x + t * sigmoid(t) with t = tanh(x * scale[column] + shift[column]): four nodes."""
    shape = (rows, columns)
    x = te.placeholder(shape, "X", dtype)
    scale = te.placeholder((columns,), "scale", dtype)
    shift = te.placeholder((columns,), "shift", dtype)
    moved = te.compute(shape, lambda i, j: x[i, j] * scale[j] + shift[j], "moved")
    bent = te.compute(shape, lambda i, j: te.tanh(moved[i, j]), "bent")
    gated = te.compute(shape, lambda i, j: bent[i, j] * te.sigmoid(bent[i, j]), "gated")
    out = te.compute(shape, lambda i, j: x[i, j] + gated[i, j], "out")
    return te.dag(out, "elementwise_chain")
