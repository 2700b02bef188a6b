"""Boxes of detectors: non-maximum suppression."""

from collections.abc import Sequence

import numpy as np

from ansorpy.graph.graph import Array, Dim
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
    found = []
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
            found += [[n, k, box] for box in kept]
    return (np.array(found, np.int64).reshape(-1, 3),)


@hosted("NonMaxSuppression", non_max_suppression, "center_point_box")
def _non_max_suppression(on: Operands) -> Sequence[Facts]:
    boxes, scores = on.shape(0), on.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or boxes[-1] != 4:
        on.refuse(f"boxes are {list(boxes)}, scores {list(scores)}", "[n, boxes, 4], [n, c, boxes]")
    return [((Dim("selected", 0, int(np.prod(scores))), 3), "int64")]
