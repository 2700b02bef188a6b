"""Dags of the workloads whose measurements TVM's logs hold, node by node as in TVM's operators."""

from collections.abc import Callable

from ansorpy import te, topi
from ansorpy.ansor_log import LogLine, dag_of
from ansorpy.te.dag import Dag
from ansorpy.te.tensor import Tensor, elementwise

Extents = tuple[int, ...]


def convolution(x: Extents, w: Extents, stride: int, padding: int) -> tuple[Tensor, ...]:
    """Return data [n, h, w, c], weights [kh, kw, c, f] and their product.

    The padded data is a node of its own also if nothing is padded.
    """
    data, weights = te.placeholder(x, "data"), te.placeholder(w, "weights")
    batch, height, width, channels = x
    kernel, _, _, outputs = w
    if padding:
        padded = topi.pad(data, (0, padding, padding, 0), (0, padding, padding, 0))
    else:
        padded = te.compute(x, lambda n, h, w, c: data[n, h, w, c], "padded")
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    rc = te.reduce_axis((0, channels), "rc")
    size = [(extent + 2 * padding - kernel) // stride + 1 for extent in (height, width)]
    made = te.compute(
        (batch, *size, outputs),
        lambda n, h, w, f: te.sum(
            padded[n, h * stride + ry, w * stride + rx, rc] * weights[ry, rx, rc, f],
            axis=(ry, rx, rc),
        ),
        "conv",
    )
    return data, weights, made


def layer(key: Extents, *more: str, stride: int = 1, padding: int = 0, relu: bool = False) -> Dag:
    """Return a convolution and its consumers: one tensor per word, "add" or "mul"."""
    x, w, rest = key[:4], key[4:8], key[8:]
    *inputs, value = convolution(x, w, stride, padding)
    for number, word in enumerate(more):
        shape, rest = rest[:4], rest[4:]
        other = te.placeholder(shape, f"input{number}")
        inputs.append(other)
        value = elementwise(
            (lambda a, b: a * b) if word == "mul" else (lambda a, b: a + b),
            value, other, name=f"{word}{number}", axes="nhwf",
        )  # fmt: skip
    if relu:
        value = topi.relu(value)
    return te.dag(value, "layer", inputs=inputs)


def softmax(key: Extents) -> Dag:
    return te.dag(topi.softmax(te.placeholder(key[:2], "X")), "softmax")


def mean(key: Extents) -> Dag:
    """The mean over all positions: a sum, and a division."""
    x = te.placeholder(key[:4], "X")
    batch, height, width, channels = x.shape
    h, w = te.reduce_axis((0, height), "h"), te.reduce_axis((0, width), "w")
    total = te.compute(
        (batch, 1, 1, channels),
        lambda n, i, j, c: te.sum(x[n, i * height + h, j * width + w, c], axis=(h, w)),
        "total",
    )
    return te.dag(elementwise(lambda a: a / float(height * width), total, name="mean"), "mean")


def pooled(key: Extents) -> Dag:
    """The maximum of windows of 3 x 3 at every second position, then bias and relu."""
    x, bias = te.placeholder(key[:4], "X"), te.placeholder(key[4:8], "bias")
    batch, height, width, channels = x.shape
    padded = topi.pad(x, (0, 1, 1, 0), (0, 1, 1, 0), value=te.min_value(x.dtype))
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    made = te.compute(
        (batch, height // 2, width // 2, channels),
        lambda n, h, w, c: te.max(padded[n, h * 2 + ry, w * 2 + rx, c], axis=(ry, rx)),
        "pool",
    )
    out = topi.relu(elementwise(lambda a, b: a + b, made, bias, name="biased"))
    return te.dag(out, "pooled", inputs=(x, bias))


def sparse_dense() -> Dag:
    """relu(relu(X) * W + B) with W of 32 rows of blocks of 16 x 1, of which 9831 are stored.

    The number of blocks of a row is data; a sum of 512 terms, most of which are zero, bounds it.
    """
    x, b = te.placeholder((512, 512), "X"), te.placeholder((512, 512), "B")
    data = te.placeholder((9831, 16, 1), "W_data")
    indices = te.placeholder((9831,), "W_indices", "int32")
    begins = te.placeholder((33,), "W_indptr", "int32")
    positive = topi.relu(x, name="positive")
    e, c = te.reduce_axis((0, 512), "e"), te.reduce_axis((0, 1), "c")

    def term(i: te.Scalar, nb: te.Scalar, j: te.Scalar) -> te.Reduction:
        place = te.clamped(begins[nb] + te.cast(e, "int32"), 0, 9830)
        column = te.clamped(indices[place] + te.cast(c, "int32"), 0, 511)
        inside = te.cast(e, "int32") < begins[nb + 1] - begins[nb]
        return te.sum(
            te.select(inside, data[place, j, c] * positive[i, column], te.const(0.0, "float32")),
            axis=(e, c),
        )

    block = te.compute((512, 32, 16), term, "block")
    product = te.compute((512, 512), lambda m, n: block[m, n // 16, n % 16], "product")
    biased = te.compute((512, 512), lambda i, j: product[i, j] + b[i, j], "biased")
    out = topi.relu(biased, name="out")
    return te.dag(out, "sparse_dense", inputs=(x, data, indices, begins, b))


BY_DIGEST: dict[str, Callable[[Extents], Dag]] = {
    "d7b65649a4dd54becea0a52aabbc5af5": softmax,
    "69115f188984ae34ede37c3b8ca40b43": mean,
    "875556d12d0be2269206a7775d5296a6": lambda k: layer(k, "add", "mul", "add", relu=True),
    "de7d1695278cf52778b038e6573d7626": lambda k: layer(k, "add", stride=2, relu=True),
    "1b524af89dd867d26059e1f621cf987c": lambda k: layer(k, "add", "add", relu=True),
    "6b7583cf23c7c37d3212cad9d06e58c1": lambda k: layer(k, "add", relu=True),
    "a5612fdeb9db4d579a75ec225ea4c06a": pooled,
    "12b88bedece6984af589a28b43e0f3c4": lambda k: layer(k, "add", stride=2, padding=3, relu=True),
    "1cc666833c122282e3fcf3595901b12b": lambda k: layer(k, "add"),
    "2350d19dc42a0665244368384c66b3a5": lambda k: layer(k, "add", padding=1, relu=True),
    "f4380bb1dc62422a69ad4a1a9771f927": lambda k: layer(k, stride=2),
    "7006235cfc29b73be524cf390ed5a977": layer,
}


def dag_for(line: LogLine) -> Dag:
    """Return the Dag of a line of TVM's logs for CPUs."""
    if line.name in BY_DIGEST:
        extents = tuple(part for part in line.arguments if isinstance(part, int))
        return dag_of(line, BY_DIGEST[line.name](extents))
    return sparse_dense() if line.name == "sparse_dense" else dag_of(line)
