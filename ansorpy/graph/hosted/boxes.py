"""Boxes of detectors: non-maximum suppression, and the features of regions."""

import math
from collections.abc import Sequence

import numpy as np

from ansorpy.graph.graph import Array, Symbol
from ansorpy.graph.operator import Facts, Operands, hosted


def non_max_suppression(
    reads: Sequence[Array], center_point_box: int = 0, absent: Sequence[int] = ()
) -> tuple[Array]:
    """Return [batch, class, box] of the boxes that no better box of their class overlaps."""
    given = list(reads)
    for position in absent:
        given.insert(position, np.array(0))
    given += [np.array(0)] * (5 - len(given))
    boxes, scores = given[0], given[1]
    most, overlap, least = (one.reshape(-1)[0] for one in given[2:5])
    if center_point_box:
        half = boxes[..., 2:] / 2
        ends = np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    else:
        low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(
            boxes[..., :2], boxes[..., 2:])  # fmt: skip
        ends = np.concatenate([low, high], -1)
    areas = np.prod(ends[..., 2:] - ends[..., :2], -1)
    selected = []
    for n in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            order = np.argsort(-scores[n, k], kind="stable")
            if len(given) > 4 and 4 not in absent and len(reads) > 4:
                order = order[scores[n, k][order] > least]
            kept: list[int] = []
            for box in order:
                if len(kept) >= most:
                    break
                better = ends[n, kept]
                sides = np.minimum(better[:, 2:], ends[n, box, 2:]) - np.maximum(
                    better[:, :2], ends[n, box, :2])  # fmt: skip
                common = np.prod(np.maximum(sides, 0), -1)
                union = areas[n, kept] + areas[n, box] - common
                if not np.any(common > overlap * union):
                    kept.append(int(box))
            selected += [[n, k, box] for box in kept]
    return (np.array(selected, np.int64).reshape(-1, 3),)


@hosted("NonMaxSuppression", non_max_suppression, "center_point_box")
def _non_max_suppression(on: Operands) -> Sequence[Facts]:
    boxes, scores = on.shape(0), on.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or boxes[-1] != 4:
        on.refuse(f"boxes are {list(boxes)}, scores {list(scores)}", "[n, boxes, 4], [n, c, boxes]")
    return [((Symbol("selected", 0, int(np.prod(scores))), 3), "int64")]


def roi_align(
    reads: Sequence[Array], mode: str = "avg", output_height: int = 1, output_width: int = 1,
    sampling_ratio: int = 0, spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "half_pixel", absent: Sequence[int] = (),
) -> tuple[Array]:  # fmt: skip
    """Return the mean or the maximum of bilinear samples in the cells of each region.

    A sample counts as 0 if it lies more than one element outside. The maximum is taken over the
    weighted neighbours of all samples, as in ONNX's reference and in ONNX Runtime.
    """
    x, rois, batches = reads
    kind = x.dtype
    wide = np.float32 if kind == np.float16 else kind.type
    half = coordinate_transformation_mode == "half_pixel"
    corners = rois.astype(wide) * wide(spatial_scale) - wide(0.5 if half else 0)
    pooled = np.zeros((len(rois), x.shape[1], output_height, output_width), wide)
    for n, (x0, y0, x1, y1) in enumerate(corners):
        tables = []
        for first, last, cells, extent in (
            (y0, y1, output_height, x.shape[2]), (x0, x1, output_width, x.shape[3]),
        ):  # fmt: skip
            length = last - first if half else max(last - first, wide(1))
            step = length / wide(cells)
            count = sampling_ratio if sampling_ratio > 0 else max(0, math.ceil(step))
            within = (np.arange(count, dtype=wide) + wide(0.5)) * step / wide(max(count, 1))
            at = first + np.arange(cells, dtype=wide)[:, None] * step + within
            inside = (at >= -1) & (at <= extent)
            at = np.clip(at, 0, extent - 1)
            low = at.astype(np.int64)
            high = np.minimum(low + 1, extent - 1)
            ratio = at - low
            tables.append(((low, (1 - ratio) * inside), (high, ratio * inside)))
        data = x[int(batches[n])].astype(wide)
        rows, columns = tables
        samples = rows[0][0].shape[1] * columns[0][0].shape[1]
        if mode == "avg":
            spread = []  # weights of the elements of an axis, summed over the samples of a cell
            for taps, extent in ((rows, x.shape[2]), (columns, x.shape[3])):
                weights = np.zeros((taps[0][0].shape[0], extent), wide)
                for places, parts in taps:
                    np.add.at(weights, (np.arange(len(weights))[:, None], places), parts)
                spread.append(weights)
            pooled[n] = spread[0] @ data @ spread[1].T / wide(max(samples, 1))
        elif samples:
            best = np.full((), -np.inf, wide)
            for row, row_part in rows:
                for column, column_part in columns:
                    taken = data[:, row[:, :, None, None], column]
                    best = np.maximum(best, taken * (row_part[:, :, None, None] * column_part))
            pooled[n] = best.max((2, 4))
    return (pooled.astype(kind),)


@hosted(
    "RoiAlign", roi_align, "mode", "output_height", "output_width", "sampling_ratio",
    "spatial_scale", "coordinate_transformation_mode",
)  # fmt: skip
def _roi_align(on: Operands) -> Sequence[Facts]:
    x, rois, mode = on.shape(0), on.shape(1), on.attribute("mode", "avg")
    height, width = on.attribute("output_height", 1), on.attribute("output_width", 1)
    if len(x) != 4 or len(rois) != 2 or rois[1] != 4 or on.shape(2) != rois[:1]:
        on.refuse(f"its inputs are {list(x)} and {list(rois)}", "[n, c, h, w], [r, 4] and [r]")
    if on.dtype(0) not in ("float16", "float32", "float64") or mode not in ("avg", "max"):
        on.refuse(f"it has {on.dtype(0)} and mode {mode!r}", "float16 to float64, and avg or max")
    if min(height, width) < 1:
        on.refuse(f"its output is {height} x {width}", "1 x 1 or more")
    return [((rois[0], x[1], height, width), on.dtype(0))]


def max_roi_pool(
    reads: Sequence[Array], pooled_shape: Sequence[int] = (1, 1), spatial_scale: float = 1.0,
    absent: Sequence[int] = (),
) -> tuple[Array]:  # fmt: skip
    """Return the largest element of each cell of each region, 0 for a cell without elements."""
    x, rois = reads
    pooled = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
    for n, roi in enumerate(rois):
        scaled = roi[1:].astype(np.float32) * np.float32(spatial_scale)
        x0, y0, x1, y1 = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(int)
        spans = []
        for first, last, cells, extent in (
            (y0, y1, pooled_shape[0], x.shape[2]), (x0, x1, pooled_shape[1], x.shape[3]),
        ):  # fmt: skip
            step = np.float32(max(last - first + 1, 1)) / np.float32(cells)
            cell = np.arange(cells, dtype=np.float32)
            begin = np.floor(cell * step).astype(int) + first
            end = np.ceil((cell + 1) * step).astype(int) + first
            spans.append((np.clip(begin, 0, extent), np.clip(end, 0, extent)))
        for i, (top, bottom) in enumerate(zip(*spans[0], strict=True)):
            for j, (left, right) in enumerate(zip(*spans[1], strict=True)):
                cell = x[int(roi[0]), :, top:bottom, left:right]
                if cell.size:
                    pooled[n, :, i, j] = cell.max((1, 2))
    return (pooled,)


@hosted("MaxRoiPool", max_roi_pool, "pooled_shape", "spatial_scale")
def _max_roi_pool(on: Operands) -> Sequence[Facts]:
    x, rois, size = on.shape(0), on.shape(1), on.attribute("pooled_shape", ())
    if len(x) != 4 or len(rois) != 2 or rois[1] != 5 or len(size) != 2 or min(size) < 1:
        on.refuse(
            f"its inputs are {list(x)} and {list(rois)}, its cells {list(size)}",
            "[n, c, h, w], [r, 5] and two extents",
        )
    if on.dtype(0) not in ("float16", "float32", "float64"):
        on.refuse(f"its image is {on.dtype(0)}", "float16, float32 or float64")
    return [((rois[0], x[1], *size), on.dtype(0))]
