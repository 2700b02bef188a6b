"""Accept intervals: a fast check before the exact comparison, element by element.

The exact comparison of `ansorpy.measure.verify.check` takes several passes in float64. Nearly every
element of nearly every kernel is right, so an interval from `low` to `high` in the dtype of the
output is computed once per task. An element inside it passes the exact comparison as well; an
output with an element outside is compared exactly.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ansorpy.expr.dtypes import FLOATS, LARGEST
from ansorpy.measure.verify.inputs import Array

Bools = NDArray[np.bool_]
AcceptInterval = tuple[Array, Array]

BLOCK: Final = 1 << 15  # elements per pass, so that temporaries stay in the caches
_SEEN_AS: Final = {"float16": "float32", "bfloat16": "float32"}  # compared in this dtype


def is_right(got: Array, value: Array, bound: Array, dtype: str, nans: bool = False) -> Bools:
    """Return which elements are within `bound` of `value`; shapes as `value`, float64.

    If the reference is NaN, every value is right, or with `nans` only NaN is. If the bound is
    infinite, every value is right. If the exact value may exceed the largest number of the dtype,
    infinity of the same sign is right as well.
    """
    number = value.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        right = np.abs(got.astype(np.float64) - number) <= bound
        unclaimed = np.isnan(number) | ~np.isfinite(bound)
        if nans and dtype in FLOATS:
            unclaimed &= ~np.isnan(number) | np.isnan(got)
        right |= (got == number) | unclaimed
        if dtype in FLOATS:
            beyond = np.abs(number) + bound >= LARGEST[dtype]
            right |= beyond & np.isinf(got) & (np.sign(got) == np.sign(number))
    return np.asarray(right)


def accept_interval(
    value: Array, bound: Array | None, dtype: str, nans: bool = False
) -> AcceptInterval | None:
    """Return (low, high) in the dtype of `seen`; None if outputs must be equal to the value.

    Both ends pass `is_right`, and so does every number between two that pass. An element without
    such ends gets an empty interval.
    """
    if bound is None or dtype not in FLOATS:
        return None
    kind = np.dtype(_SEEN_AS.get(dtype, dtype))
    low, high = np.empty(value.shape, kind), np.empty(value.shape, kind)
    flat = [np.ravel(value), np.ravel(bound), low.reshape(-1), high.reshape(-1)]
    for begin in range(0, value.size, BLOCK):
        numbers, bounds, *ends = (array[begin : begin + BLOCK] for array in flat)
        ends[0][:], ends[1][:] = _ends(numbers, bounds, kind, dtype, nans)
    return low, high


def _ends(
    value: Array, bound: Array, kind: np.dtype[Any], dtype: str, nans: bool
) -> AcceptInterval:
    number = value.astype(np.float64)
    free = ~np.isfinite(bound) & ~np.isnan(number)
    with np.errstate(invalid="ignore", over="ignore"):
        low = np.where(free, -np.inf, number - bound).astype(kind)
        high = np.where(free, np.inf, number + bound).astype(kind)
        fair, nearest = ~np.isnan(number), number.astype(kind)
        for end in (low, high):
            # One step inward: rounding has moved half of the ends outside.
            np.nextafter(end, nearest, out=end, where=~free)
            right = is_right(end, number, bound, dtype, nans)
            if not right.all():
                np.nextafter(end, nearest, out=end, where=~right)
                right = is_right(end, number, bound, dtype, nans)
            fair &= right
    return np.where(fair, low, kind.type(np.inf)), np.where(fair, high, kind.type(-np.inf))


def inside(stored: Array, dtype: str, interval: AcceptInterval) -> bool:
    """Return whether all elements of an output lie in the interval; NaN lies in none."""
    got = seen(stored, dtype)
    return bool((got >= interval[0]).all()) and bool((got <= interval[1]).all())


def seen(stored: Array, dtype: str) -> Array:
    """Return the numbers of an output in the dtype of accept intervals."""
    if dtype == "bfloat16":
        wide = stored.astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    return stored.astype(_SEEN_AS[dtype]) if dtype in _SEEN_AS else stored
