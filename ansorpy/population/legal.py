"""Legality of rows: ranges, multiples, listed values, and the conditions of the plan."""

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.expr.evaluate import evaluate
from ansorpy.plan.plan import Plan
from ansorpy.population.groups import Group, groups, value_columns

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

ATTEMPTS: Final = 64  # factors that are moved out of a tile; a length has at most 31 of them


def legal(plan: Plan, rows: IntArray) -> BoolArray:
    """Return one boolean per row of shape (n, sizes): true if the row can be lowered.

    The tile sizes of an axis are at least 1, and their product is at most the extent rounded up
    to whole innermost tiles; the innermost size of a lane axis is a multiple of its lanes; an
    unroll or vector value is one of those listed; and every condition of the plan holds.
    """
    columns = np.ascontiguousarray(rows.T)
    good = np.ones(len(rows), np.bool_)
    for group in groups(plan):
        good &= _fits(group, columns)
    for i in value_columns(plan):
        listed = np.array(plan.sizes[i].values, np.int64)
        good &= (columns[i][:, None] == listed).any(axis=1)
    if not plan.conditions:
        return good
    # Conditions may divide by a size, so that they are evaluated for rows within range only.
    where = np.flatnonzero(good)
    values = {size.name: columns[i, where] for i, size in enumerate(plan.sizes)}
    held = np.ones(len(where), np.bool_)
    for condition in plan.conditions:
        held &= evaluate(condition, values)
    good[where] = held
    return good


def fit(plan: Plan, rows: IntArray) -> IntArray:
    """Return the rows moved into range: multiples rounded down, tile sizes cut to their axis.

    Takes any integers. The rows returned satisfy `legal`, except for the conditions of the plan.
    """
    columns = np.ascontiguousarray(rows.T)
    for group in groups(plan):
        _cut(group, columns)
    for i in value_columns(plan):
        columns[i] = _nearest(np.array(plan.sizes[i].values, np.int64), columns[i])
    return np.ascontiguousarray(columns.T)


def nearest_legal(plan: Plan, row: Sequence[int]) -> tuple[int, ...]:
    """Return a row moved into range, and further while it violates a condition of the plan.

    While it does, as if its tile takes too many registers, a factor of the longest innermost
    length moves to the part outside of it, and then of the lengths in between. A row without a
    legal neighbour of this kind is returned although it is not legal.

    Args:
        row: one integer per size, shape (sizes,).
    """
    fitted = fit(plan, np.array(row, np.int64).reshape(1, len(plan.sizes)))
    next_groups = [*(size.group for size in plan.sizes[1:]), ""]
    for _ in range(ATTEMPTS):
        if legal(plan, fitted).all():
            break
        inner = [
            (size.group != next_group, int(fitted[0, i]), i)
            for i, (size, next_group) in enumerate(zip(plan.sizes, next_groups, strict=True))
            if size.role == "tile" and size.part > 1 and fitted[0, i] > size.multiple_of == 1
        ]
        if not inner:
            break
        _, length, last = max(inner)
        factor = next(n for n in range(2, length + 1) if length % n == 0)
        fitted[0, last] //= factor
        fitted[0, last - 1] *= factor
        fitted = fit(plan, fitted)
    return tuple(map(int, fitted[0]))


def enumerate_all(plan: Plan, limit: int = 65536) -> IntArray | None:
    """Return every legal row, or None if the ranges hold more than `limit` rows."""
    choices = [_range(plan, i) for i in range(len(plan.sizes))]
    if prod(map(len, choices)) > limit:
        return None
    if not choices:
        return np.zeros((1, 0), np.int64)
    mesh = np.meshgrid(*choices, indexing="ij")
    rows = np.stack([axis.ravel() for axis in mesh], axis=1)
    good: IntArray = rows[legal(plan, rows)]
    return good


def _fits(group: Group, columns: IntArray) -> BoolArray:
    inner = columns[group.columns[-1]]
    good: BoolArray = (inner >= 1) & (inner <= group.units * group.multiple_of)
    if group.multiple_of > 1:
        good &= inner % group.multiple_of == 0
    blocks = np.ones_like(inner)
    for i in group.columns[:-1]:
        good &= (columns[i] >= 1) & (columns[i] <= group.extent)
        blocks = blocks * columns[i]
    # blocks <= ceil(extent / inner), without the slow division of int64 columns
    good &= (blocks - 1) * inner < group.extent
    return good


def _cut(group: Group, columns: IntArray) -> None:
    step = group.multiple_of
    inner = columns[group.columns[-1]]
    if step > 1:
        inner = inner // step * step
    inner = np.minimum(np.maximum(inner, step), group.units * step)
    columns[group.columns[-1]] = inner
    room = -(-group.extent // inner)
    for i in reversed(group.columns[:-1]):
        columns[i] = np.minimum(np.maximum(columns[i], 1), room)
        room = room // columns[i]


def _nearest(values: IntArray, column: IntArray) -> IntArray:
    distance = np.abs(column[:, None] - values[None, :])
    nearest: IntArray = values[np.argmin(distance, axis=1)]
    return nearest


def _range(plan: Plan, column: int) -> IntArray:
    size = plan.sizes[column]
    if size.role != "tile":
        return np.array(size.values, np.int64)
    step = size.multiple_of
    return np.arange(step, -(-size.extent // step) * step + 1, step, dtype=np.int64)
