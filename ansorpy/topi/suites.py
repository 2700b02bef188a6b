"""Two suites of workloads: LIBRARY at middling sizes, SUITE_SMALL at tiny, odd ones for tests.

A naive single-core loop nest of an entry of LIBRARY takes below about 50 ms.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.topi.workloads import Window

_SAME: Final = Window(padding=1)
_HALF: Final = Window(stride=2, padding=1)
_DILATED: Final = Window(padding=2, dilation=2)

Maker = Callable[[], Dag]


def _entry(
    name: str,
    build: Callable[..., Dag],
    middling: tuple[Any, ...],
    small: tuple[Any, ...],
    **options: Any,
) -> tuple[str, Maker, Maker]:
    return name, partial(build, *middling, **options), partial(build, *small, **options)


_ENTRIES: Final = (
    _entry("matmul", workloads.matmul, (192, 192, 192), (7, 17, 13)),
    _entry("matmul_f64", workloads.matmul, (128, 128, 128), (5, 1, 17), dtype="float64"),
    _entry("matmul_int8", workloads.matmul, (128, 128, 128), (3, 7, 11), dtype="int8"),
    _entry("matmul_relu", workloads.matmul_relu, (192, 192, 192), (17, 7, 1)),
    _entry("matmul_bias_gelu", workloads.matmul_bias_gelu, (128, 256, 128), (5, 17, 7)),
    _entry("dense", workloads.dense, (64, 256, 256), (1, 17, 7), constant_weights=True),
    _entry("batch_matmul", workloads.batch_matmul, (8, 96, 96, 64), (3, 7, 5, 1)),
    _entry(
        "transpose_batch_matmul", workloads.transpose_batch_matmul, (1, 128, 4, 32), (1, 7, 3, 5)
    ),
    _entry("attention", workloads.attention, (128, 128, 64), (7, 11, 5)),
    _entry("conv1d", workloads.conv1d, (1, 32, 256, 64, 3, _HALF), (1, 3, 17, 7, 3, _HALF)),
    _entry("conv2d", workloads.conv2d, (1, 32, 28, 28, 32, 3, _SAME), (1, 3, 7, 7, 5, 3, _SAME)),
    _entry(
        "conv2d_strided",
        workloads.conv2d,
        (1, 16, 56, 56, 32, 3, _HALF),
        (2, 3, 7, 11, 5, 3, _HALF),
    ),
    _entry("conv2d_1x1", workloads.conv2d, (1, 64, 28, 28, 128, 1), (1, 7, 5, 3, 17, 1)),
    _entry(
        "conv2d_dilated",
        workloads.conv2d,
        (1, 16, 28, 28, 32, 3, _DILATED),
        (1, 3, 7, 7, 5, 3, _DILATED),
    ),
    _entry(
        "conv2d_grouped",
        workloads.conv2d,
        (1, 64, 28, 28, 64, 3, Window(padding=1, groups=4)),
        (1, 6, 5, 7, 9, 3, Window(padding=1, groups=3)),
    ),
    _entry(
        "conv2d_nhwc",
        workloads.conv2d_nhwc,
        (1, 28, 28, 32, 32, 3, _SAME),
        (1, 7, 5, 3, 17, 3, _SAME),
    ),
    _entry(
        "conv2d_bias_relu",
        workloads.conv2d_bias_relu,
        (1, 32, 28, 28, 32, 3, _SAME),
        (1, 3, 7, 7, 5, 3, _SAME),
    ),
    _entry(
        "conv2d_bn_relu",
        workloads.conv2d_bn_relu,
        (1, 32, 28, 28, 32, 3, _SAME),
        (1, 1, 7, 5, 7, 3, _SAME),
    ),
    _entry(
        "conv3d", workloads.conv3d, (1, 8, 8, 14, 14, 16, 3, _SAME), (1, 2, 3, 5, 7, 3, 3, _SAME)
    ),
    _entry(
        "depthwise_conv2d",
        workloads.depthwise_conv2d,
        (1, 64, 56, 56, 3, _SAME),
        (1, 7, 7, 5, 3, _SAME),
    ),
    _entry(
        "transposed_conv2d",
        workloads.transposed_conv2d,
        (1, 32, 8, 8, 32, 4),
        (1, 3, 3, 5, 5, 4),
        padding=1,
    ),
    _entry(
        "capsule_conv2d",
        workloads.capsule_conv2d,
        (1, 8, 8, 8, 8, 3, 4, _SAME),
        (1, 5, 3, 3, 2, 3, 2, _SAME),
    ),
    _entry("max_pool2d", workloads.max_pool2d, (1, 64, 56, 56, 3, 2, 1), (1, 3, 7, 7, 3, 2, 1)),
    _entry("avg_pool2d", workloads.avg_pool2d, (1, 64, 56, 56, 2, 2), (1, 3, 7, 5, 2, 1)),
    _entry("softmax", workloads.softmax, (256, 512), (7, 17)),
    _entry("layer_norm", workloads.layer_norm, (256, 512), (7, 17)),
    _entry("rms_norm", workloads.rms_norm, (256, 512), (1, 17)),
    _entry("batch_norm", workloads.batch_norm, (2, 32, 28, 28), (2, 3, 5, 7)),
    _entry("norm", workloads.norm, (4, 256, 256), (3, 7, 17)),
    _entry("row_sum", workloads.reduce_rows, (512, 512), (7, 17)),
    _entry("column_sum", workloads.reduce_columns, (512, 512), (17, 7)),
    _entry("all_sum", workloads.reduce_all, (512, 512), (7, 17)),
    _entry("row_max", workloads.reduce_rows, (512, 512, "max"), (17, 7, "max")),
    _entry("column_min", workloads.reduce_columns, (512, 512, "min"), (7, 1, "min")),
    _entry("row_prod", workloads.reduce_rows, (512, 64, "prod"), (7, 5, "prod")),
    _entry("argmax", workloads.argmax, (256, 512), (7, 17)),
    _entry("elementwise_chain", workloads.elementwise_chain, (256, 512), (7, 17)),
)

LIBRARY: Final[Mapping[str, Maker]] = MappingProxyType({name: make for name, make, _ in _ENTRIES})
SUITE_SMALL: Final[Mapping[str, Maker]] = MappingProxyType(
    {name: make for name, _, make in _ENTRIES}
)
