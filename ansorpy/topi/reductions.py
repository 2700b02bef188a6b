"""Reductions of a matrix, and pooling."""

from collections.abc import Callable, Mapping
from typing import Final

from ansorpy import te
from ansorpy.te.dag import Dag
from ansorpy.topi.common import padded

_COMBINERS: Final[Mapping[str, Callable[[te.Scalar, te.Axes], te.Reduction]]] = {
    "sum": te.sum, "max": te.max, "min": te.min, "prod": te.prod,
}  # fmt: skip


def reduce_rows(rows: int, columns: int, combiner: str = "sum", dtype: str = "float32") -> Dag:
    """One value per row."""
    x = te.placeholder((rows, columns), "X", dtype)
    k = te.reduce_axis((0, columns), "k")
    out = te.compute((rows,), lambda i: _COMBINERS[combiner](x[i, k], k), "out")
    return te.dag(out, f"row_{combiner}")


def reduce_columns(rows: int, columns: int, combiner: str = "sum", dtype: str = "float32") -> Dag:
    """One value per column."""
    x = te.placeholder((rows, columns), "X", dtype)
    k = te.reduce_axis((0, rows), "k")
    out = te.compute((columns,), lambda j: _COMBINERS[combiner](x[k, j], k), "out")
    return te.dag(out, f"column_{combiner}")


def reduce_all(rows: int, columns: int, combiner: str = "sum", dtype: str = "float32") -> Dag:
    """One value of rank zero."""
    x = te.placeholder((rows, columns), "X", dtype)
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")
    out = te.compute((), lambda: _COMBINERS[combiner](x[i, j], (i, j)), "out")
    return te.dag(out, f"all_{combiner}")


def argmax(rows: int, columns: int, dtype: str = "float32") -> Dag:
    """The largest value of every row and its index."""
    x = te.placeholder((rows, columns), "X", dtype)
    k = te.reduce_axis((0, columns), "k")
    value, _ = te.compute((rows,), lambda i: te.argmax(x[i, k], axis=k), "out")
    return te.dag(value, "argmax")


def max_pool2d(
    batch: int, channels: int, height: int, width: int, kernel: int = 2, stride: int = 2,
    padding: int = 0, dtype: str = "float32",
) -> Dag:  # fmt: skip
    """The maximum of every window of an NCHW tensor."""
    x = te.placeholder((batch, channels, height, width), "X", dtype)
    return te.dag(_pool(x, kernel, stride, padding, "max"), "max_pool2d")


def avg_pool2d(
    batch: int, channels: int, height: int, width: int, kernel: int = 2, stride: int = 2,
    padding: int = 0, dtype: str = "float32",
) -> Dag:  # fmt: skip
    """The mean of every window of an NCHW tensor; padding counts as zeros."""
    x = te.placeholder((batch, channels, height, width), "X", dtype)
    total = _pool(x, kernel, stride, padding, "sum")
    share = 1 / (kernel * kernel)
    out = te.compute(total.shape, lambda n, c, h, w: total[n, c, h, w] * share, "mean")
    return te.dag(out, "avg_pool2d")


def _pool(x: te.Tensor, kernel: int, stride: int, padding: int, combiner: str) -> te.Tensor:
    fill = te.min_value(x.dtype) if combiner == "max" else te.const(0, x.dtype)
    around = (0, 0, padding, padding)
    source = padded(x, around, around, fill, "nchw")
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    shape = (*x.shape[:2], *((extent - kernel) // stride + 1 for extent in source.shape[2:]))
    return te.compute(
        shape,
        lambda n, c, h, w: _COMBINERS[combiner](
            source[n, c, h * stride + ry, w * stride + rx], (ry, rx)
        ),
        "pool",
    )
