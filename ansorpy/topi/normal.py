"""Normalisation: reductions whose results are used on every element."""

from ansorpy import te
from ansorpy.te.dag import Dag


def softmax(rows: int, columns: int, dtype: str = "float32") -> Dag:
    """Softmax of every row."""
    return te.dag(softmax_of(te.placeholder((rows, columns), "X", dtype)), "softmax")


def softmax_of(data: te.Tensor) -> te.Tensor:
    """Return the softmax of every row, in four nodes: maximum, exponent, total, softmax."""
    rows, columns = data.shape
    k, r = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "k")
    largest = te.compute((rows,), lambda i: te.max(data[i, k], axis=k), "maximum")
    powers = te.compute((rows, columns), lambda i, j: te.exp(data[i, j] - largest[i]), "exponent")
    total = te.compute((rows,), lambda i: te.sum(powers[i, r], axis=r), "total")
    return te.compute((rows, columns), lambda i, j: powers[i, j] / total[i], "softmax")


def norm(batch: int, rows: int, columns: int, dtype: str = "float32") -> Dag:
    """The Frobenius norm of every matrix of a batch."""
    x = te.placeholder((batch, rows, columns), "X", dtype)
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")
    squares = te.compute(
        (batch,), lambda b: te.sum(x[b, i, j] * x[b, i, j], axis=(i, j)), "squares"
    )
    return te.dag(te.compute((batch,), lambda b: te.sqrt(squares[b]), "norm"), "norm")


def layer_norm(rows: int, columns: int, epsilon: float = 1e-5, dtype: str = "float32") -> Dag:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over every row."""
    x = te.placeholder((rows, columns), "X", dtype)
    scale = te.placeholder((columns,), "scale", dtype)
    shift = te.placeholder((columns,), "shift", dtype)
    k, r = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), "total")
    centred = te.compute(
        (rows, columns), lambda i, j: x[i, j] - total[i] * (1 / columns), "centred"
    )
    squares = te.compute(
        (rows,), lambda i: te.sum(centred[i, r] * centred[i, r], axis=r), "squares"
    )
    out = te.compute(
        (rows, columns),
        lambda i, j: (
            centred[i, j] * te.rsqrt(squares[i] * (1 / columns) + epsilon) * scale[j] + shift[j]
        ),
        "layer_norm",
    )
    return te.dag(out, "layer_norm", inputs=(x, scale, shift))


def rms_norm(rows: int, columns: int, epsilon: float = 1e-5, dtype: str = "float32") -> Dag:
    """x / sqrt(mean of squares + epsilon) * scale over every row."""
    x = te.placeholder((rows, columns), "X", dtype)
    scale = te.placeholder((columns,), "scale", dtype)
    k = te.reduce_axis((0, columns), "k")
    squares = te.compute((rows,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), "squares")
    out = te.compute(
        (rows, columns),
        lambda i, j: x[i, j] * te.rsqrt(squares[i] * (1 / columns) + epsilon) * scale[j],
        "rms_norm",
    )
    return te.dag(out, "rms_norm", inputs=(x, scale))


def batch_norm(
    batch: int, channels: int, height: int, width: int, epsilon: float = 1e-5,
    dtype: str = "float32",
) -> Dag:  # fmt: skip
    """Batch norm with the statistics of this batch, per channel, of an NCHW tensor."""
    shape = (batch, channels, height, width)
    x = te.placeholder(shape, "X", dtype)
    scale = te.placeholder((channels,), "scale", dtype)
    shift = te.placeholder((channels,), "shift", dtype)
    share = 1 / (batch * height * width)

    def over() -> tuple[te.ReduceAxis, te.ReduceAxis, te.ReduceAxis]:
        return (
            te.reduce_axis((0, batch), "rn"),
            te.reduce_axis((0, height), "ry"),
            te.reduce_axis((0, width), "rx"),
        )

    a, b = over(), over()
    total = te.compute((channels,), lambda c: te.sum(x[a[0], c, a[1], a[2]], axis=a), "total")
    mean = te.compute((channels,), lambda c: total[c] * share, "mean")

    def square(c: te.Scalar) -> te.Scalar:
        apart = x[b[0], c, b[1], b[2]] - mean[c]
        return apart * apart

    squares = te.compute((channels,), lambda c: te.sum(square(c), axis=b), "squares")
    factor = te.compute(
        (channels,), lambda c: te.rsqrt(squares[c] * share + epsilon) * scale[c], "factor"
    )
    out = te.compute(
        shape, lambda n, c, h, w: (x[n, c, h, w] - mean[c]) * factor[c] + shift[c], "batch_norm"
    )
    return te.dag(out, "batch_norm", inputs=(x, scale, shift))
