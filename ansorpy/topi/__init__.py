"""Builders of common subgraphs, one file per family, and two suites of them.

LIBRARY has every builder at a middling size (naive single-core loops take below about 50 ms);
SUITE_SMALL has the same names at tiny, odd sizes, for tests.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from ansorpy.te.dag import Dag
from ansorpy.topi.conv import (
    Window,
    capsule_conv2d,
    conv1d,
    conv2d,
    conv2d_bias_relu,
    conv2d_bn_relu,
    conv2d_nhwc,
    conv3d,
    depthwise_conv2d,
    transposed_conv2d,
)
from ansorpy.topi.elementwise import elementwise_chain
from ansorpy.topi.linear import (
    attention,
    batch_matmul,
    dense,
    matmul,
    matmul_bias_gelu,
    matmul_relu,
    transpose_batch_matmul,
)
from ansorpy.topi.normal import batch_norm, layer_norm, norm, rms_norm, softmax
from ansorpy.topi.reductions import (
    argmax,
    avg_pool2d,
    max_pool2d,
    reduce_all,
    reduce_columns,
    reduce_rows,
)

__all__ = [
    "LIBRARY",
    "SUITE_SMALL",
    "Window",
    "argmax",
    "attention",
    "avg_pool2d",
    "batch_matmul",
    "batch_norm",
    "capsule_conv2d",
    "conv1d",
    "conv2d",
    "conv2d_bias_relu",
    "conv2d_bn_relu",
    "conv2d_nhwc",
    "conv3d",
    "dense",
    "depthwise_conv2d",
    "elementwise_chain",
    "layer_norm",
    "matmul",
    "matmul_bias_gelu",
    "matmul_relu",
    "max_pool2d",
    "norm",
    "reduce_all",
    "reduce_columns",
    "reduce_rows",
    "rms_norm",
    "softmax",
    "transpose_batch_matmul",
    "transposed_conv2d",
]

_SAME: Final = Window(padding=1)

LIBRARY: Final[Mapping[str, Callable[[], Dag]]] = MappingProxyType(
    {
        "matmul": partial(matmul, 192, 192, 192),
        "matmul_f64": partial(matmul, 128, 128, 128, dtype="float64"),
        "matmul_int8": partial(matmul, 128, 128, 128, dtype="int8"),
        "matmul_relu": partial(matmul_relu, 192, 192, 192),
        "matmul_bias_gelu": partial(matmul_bias_gelu, 128, 256, 128),
        "dense": partial(dense, 64, 256, 256, constant_weights=True),
        "batch_matmul": partial(batch_matmul, 8, 96, 96, 64),
        "transpose_batch_matmul": partial(transpose_batch_matmul, 1, 128, 4, 32),
        "attention": partial(attention, 128, 128, 64),
        "conv1d": partial(conv1d, 1, 32, 256, 64, 3, Window(stride=2, padding=1)),
        "conv2d": partial(conv2d, 1, 32, 28, 28, 32, 3, _SAME),
        "conv2d_strided": partial(conv2d, 1, 16, 56, 56, 32, 3, Window(stride=2, padding=1)),
        "conv2d_1x1": partial(conv2d, 1, 64, 28, 28, 128, 1),
        "conv2d_dilated": partial(conv2d, 1, 16, 28, 28, 32, 3, Window(padding=2, dilation=2)),
        "conv2d_grouped": partial(conv2d, 1, 64, 28, 28, 64, 3, Window(padding=1, groups=4)),
        "conv2d_nhwc": partial(conv2d_nhwc, 1, 28, 28, 32, 32, 3, _SAME),
        "conv2d_bias_relu": partial(conv2d_bias_relu, 1, 32, 28, 28, 32, 3, _SAME),
        "conv2d_bn_relu": partial(conv2d_bn_relu, 1, 32, 28, 28, 32, 3, _SAME),
        "conv3d": partial(conv3d, 1, 8, 8, 14, 14, 16, 3, _SAME),
        "depthwise_conv2d": partial(depthwise_conv2d, 1, 64, 56, 56, 3, _SAME),
        "transposed_conv2d": partial(transposed_conv2d, 1, 32, 8, 8, 32, 4, padding=1),
        "capsule_conv2d": partial(capsule_conv2d, 1, 8, 8, 8, 8, 3, window=_SAME),
        "max_pool2d": partial(max_pool2d, 1, 64, 56, 56, 3, 2, 1),
        "avg_pool2d": partial(avg_pool2d, 1, 64, 56, 56, 2, 2),
        "softmax": partial(softmax, 256, 512),
        "layer_norm": partial(layer_norm, 256, 512),
        "rms_norm": partial(rms_norm, 256, 512),
        "batch_norm": partial(batch_norm, 2, 32, 28, 28),
        "norm": partial(norm, 4, 256, 256),
        "row_sum": partial(reduce_rows, 512, 512),
        "column_sum": partial(reduce_columns, 512, 512),
        "all_sum": partial(reduce_all, 512, 512),
        "row_max": partial(reduce_rows, 512, 512, "max"),
        "column_min": partial(reduce_columns, 512, 512, "min"),
        "row_prod": partial(reduce_rows, 512, 64, "prod"),
        "argmax": partial(argmax, 256, 512),
        "elementwise_chain": partial(elementwise_chain, 256, 512),
    }
)

SUITE_SMALL: Final[Mapping[str, Callable[[], Dag]]] = MappingProxyType(
    {
        "matmul": partial(matmul, 7, 17, 13),
        "matmul_f64": partial(matmul, 5, 1, 17, dtype="float64"),
        "matmul_int8": partial(matmul, 3, 7, 11, dtype="int8"),
        "matmul_relu": partial(matmul_relu, 17, 7, 1),
        "matmul_bias_gelu": partial(matmul_bias_gelu, 5, 17, 7),
        "dense": partial(dense, 1, 17, 7, constant_weights=True),
        "batch_matmul": partial(batch_matmul, 3, 7, 5, 1),
        "transpose_batch_matmul": partial(transpose_batch_matmul, 1, 7, 3, 5),
        "attention": partial(attention, 7, 11, 5),
        "conv1d": partial(conv1d, 1, 3, 17, 7, 3, Window(stride=2, padding=1)),
        "conv2d": partial(conv2d, 1, 3, 7, 7, 5, 3, _SAME),
        "conv2d_strided": partial(conv2d, 2, 3, 7, 11, 5, 3, Window(stride=2, padding=1)),
        "conv2d_1x1": partial(conv2d, 1, 7, 5, 3, 17, 1),
        "conv2d_dilated": partial(conv2d, 1, 3, 7, 7, 5, 3, Window(padding=2, dilation=2)),
        "conv2d_grouped": partial(conv2d, 1, 6, 5, 7, 9, 3, Window(padding=1, groups=3)),
        "conv2d_nhwc": partial(conv2d_nhwc, 1, 7, 5, 3, 17, 3, _SAME),
        "conv2d_bias_relu": partial(conv2d_bias_relu, 1, 3, 7, 7, 5, 3, _SAME),
        "conv2d_bn_relu": partial(conv2d_bn_relu, 1, 1, 7, 5, 7, 3, _SAME),
        "conv3d": partial(conv3d, 1, 2, 3, 5, 7, 3, 3, _SAME),
        "depthwise_conv2d": partial(depthwise_conv2d, 1, 7, 7, 5, 3, _SAME),
        "transposed_conv2d": partial(transposed_conv2d, 1, 3, 3, 5, 5, 4, padding=1),
        "capsule_conv2d": partial(capsule_conv2d, 1, 5, 3, 3, 2, 3, 2, _SAME),
        "max_pool2d": partial(max_pool2d, 1, 3, 7, 7, 3, 2, 1),
        "avg_pool2d": partial(avg_pool2d, 1, 3, 7, 5, 2, 1),
        "softmax": partial(softmax, 7, 17),
        "layer_norm": partial(layer_norm, 7, 17),
        "rms_norm": partial(rms_norm, 1, 17),
        "batch_norm": partial(batch_norm, 2, 3, 5, 7),
        "norm": partial(norm, 3, 7, 17),
        "row_sum": partial(reduce_rows, 7, 17),
        "column_sum": partial(reduce_columns, 17, 7),
        "all_sum": partial(reduce_all, 7, 17),
        "row_max": partial(reduce_rows, 17, 7, "max"),
        "column_min": partial(reduce_columns, 7, 1, "min"),
        "row_prod": partial(reduce_rows, 7, 5, "prod"),
        "argmax": partial(argmax, 7, 17),
        "elementwise_chain": partial(elementwise_chain, 7, 17),
    }
)
