"""The operators of the benchmark suite at odd sizes: primes, 1, a lane less, a lane more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.topi.workloads import Window

SIZES: Final = (1, 2, 3, 5, 7, 11, 13, 15, 17, 19, 23, 29, 31, 33)  # 16 lanes of float32
SHORT: Final = (1, 2, 3, 5, 7)
DTYPES: Final = ("float32", "float64")


@dataclass(frozen=True)
class Drawing:
    """Draws the sizes of one Dag."""

    rng: np.random.Generator
    dtype: str

    def size(self) -> int:
        """Return a size: 7, 8 and 9 stand beside the lanes of float64."""
        odd = (*SIZES, 9) if self.dtype == "float64" else SIZES
        return int(self.rng.choice(odd))

    def short(self) -> int:
        """Return a size of which several may multiply."""
        return int(self.rng.choice(SHORT))

    def flag(self) -> bool:
        """Return whether weights are known ahead."""
        return bool(self.rng.integers(2))

    def at_least(self, least: int) -> int:
        """Return a short size from `least` on: a window must fit."""
        return max(least, self.short()) + int(self.rng.integers(3))


def _conv(d: Drawing, build: Callable[..., Dag], groups: int = 1) -> Dag:
    kernel, dilation = int(d.rng.choice((1, 2, 3, 5))), int(d.rng.integers(1, 3))
    window = Window(int(d.rng.integers(1, 3)), int(d.rng.integers(0, 3)), dilation, groups)
    reach = dilation * (kernel - 1) + 1
    height, width = d.at_least(reach), d.at_least(reach)
    return build(kernel, window, height, width)


def _plain_conv2d(d: Drawing) -> Dag:
    groups = int(d.rng.choice((1, 1, 2, 3)))
    inputs, outputs = groups * d.short(), groups * d.size()
    return _conv(
        d,
        lambda k, w, y, x: workloads.conv2d(
            d.short(), inputs, y, x, outputs, k, w, d.dtype, d.flag()
        ),
        groups,
    )


def _winograd_like(d: Drawing) -> Dag:
    """Draw a 3x3 convolution of stride 1, followed by a bias or a batch normalisation."""
    build = workloads.conv2d_bn_relu if d.flag() else workloads.conv2d_bias_relu
    sizes = (d.short(), d.size(), 2 + d.size() % 14, 2 + d.size() % 14, d.size(), 3)
    return build(*sizes, Window(padding=1), d.dtype, d.flag())


FAMILIES: Final[dict[str, Callable[[Drawing], Dag]]] = {
    "matmul": lambda d: workloads.matmul(d.size(), d.size(), d.size(), d.dtype, d.flag()),
    "matmul_relu": lambda d: workloads.matmul_relu(d.size(), d.size(), d.size(), d.dtype, d.flag()),
    "matmul_bias_gelu": lambda d: workloads.matmul_bias_gelu(
        d.size(), d.size(), d.size(), d.dtype, d.flag()
    ),
    "dense": lambda d: workloads.dense(d.size(), d.size(), d.size(), d.dtype, d.flag()),
    "batch_matmul": lambda d: workloads.batch_matmul(
        d.short(), d.size(), d.size(), d.size(), d.dtype
    ),
    "transpose_batch_matmul": lambda d: workloads.transpose_batch_matmul(
        d.short(), d.size(), d.short(), d.size(), d.dtype
    ),
    "attention": lambda d: workloads.attention(d.size(), d.size(), d.size(), d.dtype),
    "conv1d": lambda d: _conv(
        d,
        lambda k, w, y, x: workloads.conv1d(
            d.short(), d.short(), x, d.size(), k, w, d.dtype, d.flag()
        ),
    ),
    "conv2d": _plain_conv2d,
    "conv2d_3x3": _winograd_like,
    "conv2d_nhwc": lambda d: _conv(
        d,
        lambda k, w, y, x: workloads.conv2d_nhwc(
            d.short(), y, x, d.short(), d.size(), k, w, d.dtype, d.flag()
        ),
    ),
    "conv3d": lambda d: _conv(
        d,
        lambda k, w, y, x: workloads.conv3d(
            1, d.short(), y, y, x, d.short(), k, w, d.dtype, d.flag()
        ),
    ),
    "depthwise": lambda d: _conv(
        d,
        lambda k, w, y, x: workloads.depthwise_conv2d(
            d.short(), d.size(), y, x, k, w, d.dtype, d.flag()
        ),
    ),
    "transposed": lambda d: workloads.transposed_conv2d(
        d.short(), d.short(), d.short(), d.short(), d.size(), int(d.rng.integers(3, 6)),
        int(d.rng.integers(1, 4)), int(d.rng.integers(0, 2)), d.dtype, d.flag(),
    ),
    "capsule": lambda d: _conv(
        d,
        lambda k, w, y, x: workloads.capsule_conv2d(
            1, y, x, d.short(), d.size(), k, int(d.rng.integers(2, 5)), w, d.dtype, d.flag()
        ),
    ),
    "norm": lambda d: workloads.norm(d.short(), d.size(), d.size(), d.dtype),
    "softmax": lambda d: workloads.softmax(d.size(), d.size(), d.dtype),
    "layer_norm": lambda d: workloads.layer_norm(d.size(), d.size(), dtype=d.dtype),
    "row_sums": lambda d: workloads.reduce_rows(d.size(), d.size(), dtype=d.dtype),
    "column_sums": lambda d: workloads.reduce_columns(d.size(), d.size(), dtype=d.dtype),
    "max_pool": lambda d: workloads.max_pool2d(
        d.short(), d.size(), d.at_least(3), d.at_least(3), 2, 2, dtype=d.dtype
    ),
    "elementwise": lambda d: workloads.elementwise_chain(d.size(), d.size(), dtype=d.dtype),
}  # fmt: skip


def suite_dag(number: int, rng: np.random.Generator) -> Dag:
    """Return a Dag of the suite; `number` goes round the operators and both dtypes."""
    names = tuple(FAMILIES)
    drawing = Drawing(rng, DTYPES[number // len(names) % len(DTYPES)])
    return FAMILIES[names[number % len(names)]](drawing)
