"""The operators of the harness, by section: full sizes, and small ones for the emulated driver."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.topi.workloads import Window

MATRICES: Final = (512, 1024, 2048, 4096, 8192, 1000, 4097)  # sizes of the matmul, f32
ROWS: Final = (16384, 1024)  # 64 MB of float32
LONG_ROWS: Final = (262144, 1024)  # 1 GB
_SAME: Final = Window(padding=1)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator by its name: `full` for a device, `small` for the emulated driver.

    Args:
        candidates: own kernels on a device.
    """

    name: str
    full: Callable[[], Dag]
    small: Callable[[], Dag]
    candidates: int

    def dag(self, emulated: bool) -> Dag:
        """Return the Dag for a device, or for the emulated driver."""
        return self.small() if emulated else self.full()


def _rows(name: str, make: Callable[[int, int], Dag]) -> tuple[Operator, ...]:
    small = partial(make, 3, 64)
    return (
        Operator(f"{name} 64 MB", partial(make, *ROWS), small, 16),
        Operator(f"{name} 1 GB", partial(make, *LONG_ROWS), small, 8),
    )


def _convolution(name: str, full: Callable[[], Dag], small: Callable[[], Dag]) -> Operator:
    return Operator(name, full, small, 16)


def _conv2d(channels: int, size: int, groups: int = 1) -> Callable[[], Dag]:
    window = Window(padding=1, groups=groups)
    return partial(workloads.conv2d, 16, channels, size, size, channels, 3, window)


_SMALL_CONV: Final = partial(workloads.conv2d, 1, 3, 5, 5, 4, 3, _SAME)
OPERATORS: Final[Mapping[str, tuple[Operator, ...]]] = {
    "matmul": tuple(
        Operator(
            f"matmul {n}",
            partial(workloads.matmul, n, n, n),
            partial(workloads.matmul, 17, 33, 9),
            40,
        )
        for n in MATRICES
    ),
    "rows": (
        *_rows("softmax", workloads.softmax),
        *_rows("layer norm", workloads.layer_norm),
        *_rows("rms norm", workloads.rms_norm),
        *_rows("row sum", workloads.reduce_rows),
        *_rows("column sum", workloads.reduce_columns),
        *_rows("chain", workloads.elementwise_chain),
        Operator(
            "max pool",
            partial(workloads.max_pool2d, 16, 64, 128, 128, 3, 2, 1),
            partial(workloads.max_pool2d, 1, 2, 7, 7, 3, 2, 1),
            16,
        ),
    ),
    "convolutions": (
        *(
            _convolution(f"conv2d {size}", _conv2d(channels, size), _SMALL_CONV)
            for channels, size in ((64, 56), (128, 28), (256, 14), (512, 7))
        ),
        _convolution(
            "conv2d grouped",
            _conv2d(128, 28, 32),
            partial(workloads.conv2d, 1, 4, 5, 5, 4, 3, Window(padding=1, groups=2)),
        ),
        _convolution(
            "depthwise",
            partial(workloads.depthwise_conv2d, 16, 256, 28, 28, 3, _SAME),
            partial(workloads.depthwise_conv2d, 1, 3, 5, 5, 3, _SAME),
        ),
        _convolution(
            "conv2d nhwc",
            partial(workloads.conv2d_nhwc, 16, 28, 28, 128, 128, 3, _SAME),
            partial(workloads.conv2d_nhwc, 1, 5, 5, 3, 4, 3, _SAME),
        ),
        _convolution(
            "conv2d bias relu",
            partial(workloads.conv2d_bias_relu, 16, 128, 28, 28, 128, 3, _SAME),
            partial(workloads.conv2d_bias_relu, 1, 3, 5, 5, 4, 3, _SAME),
        ),
    ),
}
MINUTES: Final[Mapping[str, float]] = {"matmul": 8.0, "rows": 6.0, "convolutions": 6.0}
SMALL_COUNTS: Final[Mapping[str, int]] = {
    "matmul": 1,  # all have one small size
    "rows": 3,
    "convolutions": 2,
}  # emulated rows
SMALL_CANDIDATES: Final = 3


def operators_of(section: str, emulated: bool) -> tuple[Operator, ...]:
    """Return the operators of a section: all, or some under the emulated driver."""
    every = OPERATORS[section]
    if not emulated:
        return every
    step = -(-len(every) // SMALL_COUNTS[section])
    return every[::step]
