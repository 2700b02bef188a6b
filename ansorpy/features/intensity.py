"""Feature group 3: arithmetic intensity of the loop nest, from the innermost loop outward."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.compute import flops, operations
from ansorpy.features.region import Footprint
from ansorpy.features.walk import StoreStatement

SAMPLES: Final = 10
NAMES: Final = tuple(f"arith_intensity_{i + 1}0pct" for i in range(SAMPLES))

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Curve:
    """Points of the curve, one per loop, innermost first.

    `work` is log2 of the operations of the loops so far, `intensity` is operations per touched
    byte.
    """

    work: tuple[ColumnValue, ...]
    intensity: tuple[ColumnValue, ...]


def curve(
    builder: ColumnBuilder, statement: StoreStatement, footprints: tuple[Footprint, ...]
) -> Curve | None:
    """Return the curve of a statement, or None if it has no operation or no loop."""
    per_iteration = flops(operations(statement.store))
    if per_iteration == 0 or not statement.loops:
        return None
    done = builder.const(per_iteration)
    work, intensity = [], []
    for depth in range(len(statement.loops) - 1, -1, -1):
        extent = statement.loops[depth].extent
        if extent.equals(1):
            continue
        done = done * extent
        size = builder.const(0)
        for footprint in footprints:
            size = size + footprint.elements[depth] * footprint.access.element_bytes
        work.append(done.unary("log2"))
        intensity.append(done / size)
    return Curve(tuple(work), tuple(intensity)) if work else None


def samples(work: FloatArray, intensity: FloatArray) -> FloatArray:
    """Return the intensity at 10 %, 20 % ... 100 % of the work, shape (10, n).

    Args:
        work: log2 operations, shape (points, n), not falling along the points.
        intensity: operations per byte, shape (points, n).

    Linear between points; constant below the first point.
    """
    share = np.arange(1, SAMPLES + 1, dtype=np.float32) / np.float32(SAMPLES)
    target = share[:, None] * work[-1]
    value = np.repeat(intensity[:1], SAMPLES, axis=0)
    # Every segment adds its whole rise, a part of it, or nothing. A loop that runs once is a
    # segment of zero width and zero rise.
    width = np.maximum(np.diff(work, axis=0), np.float32(1e-6))
    slope = np.diff(intensity, axis=0) / width
    for segment in range(len(slope)):
        inside = target - work[segment]
        np.minimum(np.maximum(inside, 0, out=inside), width[segment], out=inside)
        inside *= slope[segment]
        value += inside
    return value
