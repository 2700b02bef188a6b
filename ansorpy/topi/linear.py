"""Matrix products and what is built around them."""

from math import sqrt

from ansorpy import te
from ansorpy.te.dag import Dag
from ansorpy.topi.common import multiplied
from ansorpy.topi.elementwise import relu_of
from ansorpy.topi.normal import softmax_of


def matmul(n: int, m: int, k: int, dtype: str = "float32", constant_weights: bool = False) -> Dag:
    """C[n, m] = A[n, k] * B[k, m]; int8 and uint8 accumulate in int32."""
    return te.dag(_matmul(n, m, k, dtype, constant_weights), "matmul")


def matmul_relu(
    n: int, m: int, k: int, dtype: str = "float32", constant_weights: bool = False
) -> Dag:
    """relu(A[n, k] * B[k, m])."""
    return te.dag(relu_of(_matmul(n, m, k, dtype, constant_weights)), "matmul_relu")


def matmul_bias_gelu(
    n: int, m: int, k: int, dtype: str = "float32", constant_weights: bool = False
) -> Dag:
    """gelu(A[n, k] * B[k, m] + bias[m]), the exact gelu with erf."""
    product = _matmul(n, m, k, dtype, constant_weights)
    bias = te.placeholder((m,), "bias", dtype, constant_weights)
    added = te.compute((n, m), lambda i, j: product[i, j] + bias[j], "biased")
    gelu = te.compute(
        (n, m),
        lambda i, j: added[i, j] * 0.5 * (te.erf(added[i, j] * sqrt(0.5)) + 1.0),
        "gelu",
    )
    return te.dag(gelu, "matmul_bias_gelu")


def dense(
    n: int, units: int, features: int, dtype: str = "float32", constant_weights: bool = False
) -> Dag:
    """out[n, units] = X[n, features] * W[units, features] transposed + bias[units]."""
    data = te.placeholder((n, features), "X", dtype)
    weights = te.placeholder((units, features), "W", dtype, constant_weights)
    bias = te.placeholder((units,), "bias", dtype, constant_weights)
    k = te.reduce_axis((0, features), "k")
    product = te.compute(
        (n, units), lambda i, j: te.sum(data[i, k] * weights[j, k], axis=k), "product"
    )
    out = te.compute((n, units), lambda i, j: product[i, j] + bias[j], "out")
    return te.dag(out, "dense")


def batch_matmul(
    batch: int, n: int, m: int, k: int, dtype: str = "float32", constant_weights: bool = False
) -> Dag:
    """C[batch, n, m] = A[batch, n, k] * B[batch, k, m]."""
    a = te.placeholder((batch, n, k), "A", dtype)
    b = te.placeholder((batch, k, m), "B", dtype, constant_weights)
    r = te.reduce_axis((0, k), "k")
    c = te.compute(
        (batch, n, m), lambda b_, i, j: te.sum(multiplied(a[b_, i, r], b[b_, r, j]), axis=r), "C"
    )
    return te.dag(c, "batch_matmul")


def transpose_batch_matmul(
    batch: int, length: int, heads: int, width: int, dtype: str = "float32"
) -> Dag:
    """Scores of multi-head attention from [batch, length, heads, width] inputs (Ansor's TBG)."""
    query = te.placeholder((batch, length, heads, width), "query", dtype)
    value = te.placeholder((batch, length, heads, width), "value", dtype)
    rows = te.compute(
        (batch, heads, length, width), lambda b, h, i, d: query[b, i, h, d], "query_T"
    )
    columns = te.compute(
        (batch, heads, width, length), lambda b, h, d, i: value[b, i, h, d], "value_T"
    )
    k = te.reduce_axis((0, width), "k")
    out = te.compute(
        (batch, heads, length, length),
        lambda b, h, i, j: te.sum(rows[b, h, i, k] * columns[b, h, k, j], axis=k),
        "out",
    )
    return te.dag(out, "transpose_batch_matmul")


def attention(queries: int, keys: int, width: int, dtype: str = "float32") -> Dag:
    """softmax(Q[queries, width] K[keys, width]^T / sqrt(width)) V[keys, width], one head."""
    q = te.placeholder((queries, width), "Q", dtype)
    k = te.placeholder((keys, width), "K", dtype)
    v = te.placeholder((keys, width), "V", dtype)
    d = te.reduce_axis((0, width), "d")
    scores = te.compute((queries, keys), lambda i, j: te.sum(q[i, d] * k[j, d], axis=d), "scores")
    scaled = te.compute((queries, keys), lambda i, j: scores[i, j] * (1 / sqrt(width)), "scaled")
    weights = softmax_of(scaled)
    r = te.reduce_axis((0, keys), "r")
    out = te.compute((queries, width), lambda i, j: te.sum(weights[i, r] * v[r, j], axis=r), "out")
    return te.dag(out, "attention")


def _matmul(n: int, m: int, k: int, dtype: str, constant_weights: bool) -> te.Tensor:
    a = te.placeholder((n, k), "A", dtype)
    b = te.placeholder((k, m), "B", dtype, constant_weights)
    r = te.reduce_axis((0, k), "k")
    return te.compute((n, m), lambda i, j: te.sum(multiplied(a[i, r], b[r, j]), axis=r), "C")
