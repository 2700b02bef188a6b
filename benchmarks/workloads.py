"""The subgraphs of the benchmarks of search and speed."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu, depthwise_conv2d, matmul, norm, softmax

_SAME: Final = Window(padding=1)

FIVE: Final[Mapping[str, Callable[[], Dag]]] = {
    "matmul": partial(matmul, 512, 512, 512),
    "conv2d": partial(conv2d_bias_relu, 1, 64, 56, 56, 64, 3, _SAME),
    "softmax": partial(softmax, 2048, 512),
    "depthwise": partial(depthwise_conv2d, 1, 32, 112, 112, 3, _SAME),
    # Sixteen matrices: a single matrix takes two microseconds, mostly the call itself.
    "norm": partial(norm, 16, 256, 256),
}

# Constant weights may be packed once.
PACKED: Final[Mapping[str, Callable[[], Dag]]] = {
    "matmul_packed": partial(matmul, 512, 512, 512, constant_weights=True),
    "conv2d_packed": partial(conv2d_bias_relu, 1, 64, 56, 56, 64, 3, _SAME, constant_weights=True),
}

TITLES: Final[Mapping[str, str]] = {
    "matmul": "matmul 512",
    "matmul_packed": "matmul 512, weights packed ahead",
    "conv2d": "conv2d 1x64x56x56, 64 3x3, + bias + relu",
    "conv2d_packed": "the same conv2d, weights packed ahead",
    "softmax": "softmax 2048x512",
    "depthwise": "depthwise 1x32x112x112, 3x3",
    "norm": "norm 16x256x256",
}
