"""Workloads of tests and benchmarks: Dags of one or few operators, made from sizes.

Names of nodes and axes are part of recorded plans: they stay as they are.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt

from ansorpy import te
from ansorpy.te.dag import Dag
from ansorpy.te.tensor import Tensor, elementwise
from ansorpy.topi import activation, conv, conv_transpose, layout, normalization, pool, reduction
from ansorpy.topi.elementwise import bias_add
from ansorpy.topi.linear import dense as dense_layer
from ansorpy.topi.linear import matmul as product


@dataclass(frozen=True, slots=True)
class Window:
    """Stride, padding, dilation and groups of a convolution, equal in every dimension."""

    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1


PLAIN = Window()


def matmul(n: int, m: int, k: int, dtype: str = "float32", constant_weights: bool = False) -> Dag:
    """C[n, m] = A[n, k] * B[k, m]; int8 and uint8 accumulate in int32."""
    return te.dag(_matmul(n, m, k, dtype, constant_weights), "matmul")


def matmul_relu(
    n: int, m: int, k: int, dtype: str = "float32", constant_weights: bool = False
) -> Dag:
    """relu(A[n, k] * B[k, m])."""
    return te.dag(activation.relu(_matmul(n, m, k, dtype, constant_weights)), "matmul_relu")


def matmul_bias_gelu(
    n: int, m: int, k: int, dtype: str = "float32", constant_weights: bool = False
) -> Dag:
    """gelu(A[n, k] * B[k, m] + bias[m]), the exact gelu with erf."""
    c = _matmul(n, m, k, dtype, constant_weights)
    bias = te.placeholder((m,), "bias", dtype, constant_weights)
    biased = bias_add(c, bias, 1, name="biased", axes="ij")
    return te.dag(activation.gelu(biased, axes="ij"), "matmul_bias_gelu")


def dense(
    n: int, units: int, features: int, dtype: str = "float32", constant_weights: bool = False
) -> Dag:
    """out[n, units] = X[n, features] * W[units, features] transposed + bias[units]."""
    x = te.placeholder((n, features), "X", dtype)
    w = te.placeholder((units, features), "W", dtype, constant_weights)
    bias = te.placeholder((units,), "bias", dtype, constant_weights)
    return te.dag(
        bias_add(dense_layer(x, w, name="product"), bias, 1, name="out", axes="ij"), "dense"
    )


def batch_matmul(
    batch: int, n: int, m: int, k: int, dtype: str = "float32", constant_weights: bool = False
) -> Dag:
    """C[batch, n, m] = A[batch, n, k] * B[batch, k, m]."""
    a = te.placeholder((batch, n, k), "A", dtype)
    b = te.placeholder((batch, k, m), "B", dtype, constant_weights)
    return te.dag(product(a, b, name="C", axes=("b_", "i", "j", "k")), "batch_matmul")


def transpose_batch_matmul(
    batch: int, length: int, heads: int, width: int, dtype: str = "float32"
) -> Dag:
    """Scores of multi-head attention from [batch, length, heads, width] inputs (Ansor's TBG)."""
    query, value = (
        te.placeholder((batch, length, heads, width), name, dtype) for name in ("query", "value")
    )
    rows = layout.transpose(query, (0, 2, 1, 3), name="query_T", axes="bhid")
    columns = layout.transpose(value, (0, 2, 3, 1), name="value_T", axes="bhdi")
    return te.dag(product(rows, columns, name="out", axes="bhijk"), "transpose_batch_matmul")


def attention(queries: int, keys: int, width: int, dtype: str = "float32") -> Dag:
    """softmax(Q[queries, width] K[keys, width]^T / sqrt(width)) V[keys, width], one head."""
    q = te.placeholder((queries, width), "Q", dtype)
    k, v = (te.placeholder((keys, width), name, dtype) for name in "KV")
    scores = product(q, k, transpose_b=True, name="scores", axes="ijd")
    factor = 1 / sqrt(width)
    scaled = elementwise(lambda x: x * factor, scores, name="scaled", axes="ij")
    weights = normalization.softmax(scaled)
    return te.dag(product(weights, v, name="out", axes="ijr"), "attention")


def conv1d(
    batch: int, inputs: int, length: int, outputs: int, kernel: int, window: Window = PLAIN,
    dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, inputs, length] * W[outputs, inputs / groups, kernel]."""
    x, w = _operands(batch, inputs, (length,), outputs, kernel, window, dtype, constant_weights)
    return te.dag(_grouped(conv.conv1d, window)(x, w), "conv1d")


def conv2d(
    batch: int, inputs: int, height: int, width: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, inputs, height, width] * W[outputs, inputs / groups, kernel, kernel]."""
    spatial = (height, width)
    x, w = _operands(batch, inputs, spatial, outputs, kernel, window, dtype, constant_weights)
    return te.dag(_grouped(conv.conv2d, window)(x, w), "conv2d")


def conv3d(
    batch: int, inputs: int, depth: int, height: int, width: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, inputs, depth, height, width] * W[outputs, inputs / groups, kernel^3]."""
    spatial = (depth, height, width)
    x, w = _operands(batch, inputs, spatial, outputs, kernel, window, dtype, constant_weights)
    return te.dag(_grouped(conv.conv3d, window)(x, w), "conv3d")


def conv2d_bias_relu(
    batch: int, inputs: int, height: int, width: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """relu(conv2d + bias[outputs])."""
    spatial = (height, width)
    x, w = _operands(batch, inputs, spatial, outputs, kernel, window, dtype, constant_weights)
    bias = te.placeholder((outputs,), "bias", dtype, constant_weights)
    convolved = _grouped(conv.conv2d, window)(x, w)
    biased = bias_add(convolved, bias, 1, name="biased", axes="nfhw")
    return te.dag(activation.relu(biased), "conv2d_bias_relu")


def conv2d_bn_relu(
    batch: int, inputs: int, height: int, width: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """relu((conv2d + bias) * scale + shift): inference batch norm with folded statistics."""
    spatial = (height, width)
    x, w = _operands(batch, inputs, spatial, outputs, kernel, window, dtype, constant_weights)
    bias, scale, shift = (
        te.placeholder((outputs, 1, 1), name, dtype, constant_weights)
        for name in ("bias", "scale", "shift")
    )
    convolved = _grouped(conv.conv2d, window)(x, w)
    biased = elementwise(operator.add, convolved, bias, name="biased", axes="nfhw")
    scaled = elementwise(operator.mul, biased, scale, name="scaled", axes="nfhw")
    shifted = elementwise(operator.add, scaled, shift, name="shifted", axes="nfhw")
    return te.dag(activation.relu(shifted), "conv2d_bn_relu")


def depthwise_conv2d(
    batch: int, channels: int, height: int, width: int, kernel: int, window: Window = PLAIN,
    dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, channels, height, width], each channel with its own W[channels, kernel, kernel]."""
    x = te.placeholder((batch, channels, height, width), "X", dtype)
    w = te.placeholder((channels, kernel, kernel), "W", dtype, constant_weights)
    return te.dag(_windowed(conv.depthwise_conv2d, window)(x, w), "depthwise_conv2d")


def conv2d_nhwc(
    batch: int, height: int, width: int, inputs: int, outputs: int, kernel: int,
    window: Window = PLAIN, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """X[batch, height, width, inputs] * W[kernel, kernel, inputs, outputs]; no groups."""
    x = te.placeholder((batch, height, width, inputs), "X", dtype)
    w = te.placeholder((kernel, kernel, inputs, outputs), "W", dtype, constant_weights)
    return te.dag(_windowed(conv.conv2d_nhwc, window)(x, w), "conv2d_nhwc")


def capsule_conv2d(
    batch: int, height: int, width: int, inputs: int, outputs: int, kernel: int,
    capsule: int = 4, window: Window = PLAIN, dtype: str = "float32",
    constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """A convolution whose elements are capsule x capsule matrices (NHWijC, as in Ansor)."""
    x = te.placeholder((batch, height, width, capsule, capsule, inputs), "X", dtype)
    shape = (kernel, kernel, capsule, capsule, inputs, outputs)
    w = te.placeholder(shape, "W", dtype, constant_weights)
    return te.dag(_windowed(conv.capsule_conv2d, window)(x, w), "capsule_conv2d")


def transposed_conv2d(
    batch: int, inputs: int, height: int, width: int, outputs: int, kernel: int,
    stride: int = 2, padding: int = 0, dtype: str = "float32", constant_weights: bool = False,
) -> Dag:  # fmt: skip
    """The gradient of a conv2d: X[batch, inputs, h, w], W[inputs, outputs, kernel, kernel]."""
    x = te.placeholder((batch, inputs, height, width), "X", dtype)
    w = te.placeholder((inputs, outputs, kernel, kernel), "W", dtype, constant_weights)
    made = conv_transpose.conv2d_transpose(x, w, stride=stride, padding=padding)
    return te.dag(made, "transposed_conv2d")


def max_pool2d(
    batch: int, channels: int, height: int, width: int, kernel: int = 2, stride: int = 2,
    padding: int = 0, dtype: str = "float32",
) -> Dag:  # fmt: skip
    """The maximum of every window of an NCHW tensor."""
    x = te.placeholder((batch, channels, height, width), "X", dtype)
    return te.dag(pool.max_pool(x, kernel, stride, padding, name="pool"), "max_pool2d")


def avg_pool2d(
    batch: int, channels: int, height: int, width: int, kernel: int = 2, stride: int = 2,
    padding: int = 0, dtype: str = "float32",
) -> Dag:  # fmt: skip
    """The mean of every window of an NCHW tensor; padding counts as zeros."""
    x = te.placeholder((batch, channels, height, width), "X", dtype)
    return te.dag(pool.avg_pool(x, kernel, stride, padding, name="mean"), "avg_pool2d")


def softmax(rows: int, columns: int, dtype: str = "float32") -> Dag:
    """Softmax of every row."""
    return te.dag(normalization.softmax(_matrix(rows, columns, dtype)), "softmax")


def layer_norm(rows: int, columns: int, epsilon: float = 1e-5, dtype: str = "float32") -> Dag:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over every row."""
    x = _matrix(rows, columns, dtype)
    scale, shift = _vectors(columns, dtype)
    made = normalization.layer_norm(x, scale, shift, epsilon=epsilon)
    return te.dag(made, "layer_norm", inputs=(x, scale, shift))


def rms_norm(rows: int, columns: int, epsilon: float = 1e-5, dtype: str = "float32") -> Dag:
    """x / sqrt(mean of squares + epsilon) * scale over every row."""
    x = _matrix(rows, columns, dtype)
    scale = te.placeholder((columns,), "scale", dtype)
    made = normalization.rms_norm(x, scale, epsilon=epsilon)
    return te.dag(made, "rms_norm", inputs=(x, scale))


def batch_norm(
    batch: int, channels: int, height: int, width: int, epsilon: float = 1e-5,
    dtype: str = "float32",
) -> Dag:  # fmt: skip
    """Batch norm with the statistics of this batch, per channel, of an NCHW tensor."""
    x = te.placeholder((batch, channels, height, width), "X", dtype)
    scale, shift = _vectors(channels, dtype)
    made = normalization.batch_norm(x, scale, shift, epsilon=epsilon)
    return te.dag(made, "batch_norm", inputs=(x, scale, shift))


def norm(batch: int, rows: int, columns: int, dtype: str = "float32") -> Dag:
    """The Frobenius norm of every matrix of a batch."""
    x = te.placeholder((batch, rows, columns), "X", dtype)
    return te.dag(reduction.norm(x, (1, 2), axes="bij"), "norm")


def reduce_rows(rows: int, columns: int, combiner: str = "sum", dtype: str = "float32") -> Dag:
    """One value per row."""
    return _reduced("row", rows, columns, combiner, dtype, 1, "ik")


def reduce_columns(rows: int, columns: int, combiner: str = "sum", dtype: str = "float32") -> Dag:
    """One value per column."""
    return _reduced("column", rows, columns, combiner, dtype, 0, "kj")


def reduce_all(rows: int, columns: int, combiner: str = "sum", dtype: str = "float32") -> Dag:
    """One value of rank zero."""
    return _reduced("all", rows, columns, combiner, dtype, None, "ij")


def argmax(rows: int, columns: int, dtype: str = "float32") -> Dag:
    """The largest value of every row and its index."""
    return te.dag(reduction.argmax(_matrix(rows, columns, dtype), 1, name="out"), "argmax")


def elementwise_chain(rows: int, columns: int, dtype: str = "float32") -> Dag:
    """x + t * sigmoid(t) with t = tanh(x * scale[column] + shift[column]): four nodes."""
    x = _matrix(rows, columns, dtype)
    scale, shift = _vectors(columns, dtype)
    moved = elementwise(lambda a, b, c: a * b + c, x, scale, shift, name="moved", axes="ij")
    bent = elementwise(te.tanh, moved, name="bent", axes="ij")
    gated = elementwise(lambda a: a * te.sigmoid(a), bent, name="gated", axes="ij")
    out = elementwise(operator.add, x, gated, name="out", axes="ij")
    return te.dag(out, "elementwise_chain")


def _matrix(rows: int, columns: int, dtype: str) -> Tensor:
    return te.placeholder((rows, columns), "X", dtype)


def _vectors(length: int, dtype: str) -> tuple[Tensor, Tensor]:
    return te.placeholder((length,), "scale", dtype), te.placeholder((length,), "shift", dtype)


def _matmul(n: int, m: int, k: int, dtype: str, constant_weights: bool) -> Tensor:
    a = te.placeholder((n, k), "A", dtype)
    b = te.placeholder((k, m), "B", dtype, constant_weights)
    return product(a, b, name="C")


def _operands(
    batch: int, inputs: int, spatial: tuple[int, ...], outputs: int, kernel: int,
    window: Window, dtype: str, constant_weights: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    x = te.placeholder((batch, inputs, *spatial), "X", dtype)
    shape = (outputs, inputs // window.groups, *[kernel] * len(spatial))
    return x, te.placeholder(shape, "W", dtype, constant_weights)


def _windowed(operator: Callable[..., Tensor], window: Window) -> Callable[..., Tensor]:
    """Return a convolution without groups that walks as `window` says."""
    return partial(operator, stride=window.stride, padding=window.padding, dilation=window.dilation)


def _grouped(operator: Callable[..., Tensor], window: Window) -> Callable[..., Tensor]:
    return partial(_windowed(operator, window), groups=window.groups)


def _reduced(
    kind: str, rows: int, columns: int, combiner: str, dtype: str, axis: int | None, axes: str
) -> Dag:
    reduce = {"sum": reduction.sum, "prod": reduction.prod, "max": reduction.max,
              "min": reduction.min}[combiner]  # fmt: skip
    out = reduce(_matrix(rows, columns, dtype), axis, name="out", axes=axes)
    return te.dag(out, f"{kind}_{combiner}")
