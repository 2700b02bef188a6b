"""Reductions over a box of points: partial results that merge, and products as matrix products.

A partial result is a tuple of arrays that one ufunc merges component by component:
    sum   value, sum of magnitudes, sum of errors, number of zeros (or 0, where not counted)
    prod  value, product of sizes, product of magnitudes
    max   value, the highest and the lowest that a kernel may see (min the same)
Without error tracking there is only the value.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from ansorpy.expr.dtypes import FLOATS, LARGEST, UNDERFLOW
from ansorpy.oracle.error_bounds import Bounded, gamma, sizes
from ansorpy.te.tensor_data import Array, FloatArray

Partial = tuple[Array, ...]

UFUNC: Final[Mapping[str, np.ufunc]] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def components(combiner: str, terms: Bounded) -> Partial:
    """Return the tracked components of each term."""
    value, error = terms.value, np.broadcast_to(terms.error, terms.value.shape)
    if combiner == "sum":
        return (value, terms.magnitude, error, _zeros(terms.magnitude))
    if combiner == "prod":
        return (value, sizes(value), terms.magnitude)
    return (value, value + error, value - error)


def reduced(combiner: str, parts: Partial, axes: Sequence[int], extents: Sequence[int]) -> Partial:
    """Return components reduced over array dimensions `axes`, which have these extents."""

    def one(part: Array) -> Array:
        if part.ndim == 0:
            return part  # one value for all points
        shape = list(part.shape)
        for axis, extent in zip(axes, extents, strict=True):
            shape[axis] = extent  # a term that does not depend on the axis counts for each point
        full = np.broadcast_to(part, shape)
        out: Array = UFUNC[combiner].reduce(full, axis=tuple(axes), dtype=part.dtype)
        return out

    return tuple(map(one, parts))


def merged(combiner: str, a: Partial, b: Partial) -> Partial:
    """Return the partial result of both sets of points."""
    return tuple(UFUNC[combiner](x, y) for x, y in zip(a, b, strict=True))


def finished(combiner: str, parts: Partial, roundings: int, dtype: str) -> Bounded:
    """Return the result; each term took part in at most `roundings` roundings.

    To add an exact zero is no rounding: sums of sparse terms have narrow bounds.
    """
    value = parts[0]
    if len(parts) == 1:
        return Bounded(value)
    if combiner == "sum":
        size, error, zeros = parts[1:]
        # Products may underflow, each by itself.
        tiny = roundings * UNDERFLOW[dtype] * (size > 0) if dtype in FLOATS else 0.0
        error = error + gamma(roundings - zeros, dtype) * size + tiny
        if dtype in FLOATS:  # in another order, the terms of one sign may come first
            error = np.where(size + error > LARGEST[dtype], np.inf, error)
        return Bounded(value, error)
    if combiner == "prod":
        exact, size = parts[1:]
        tiny = roundings * UNDERFLOW[dtype] * (size > 0) if dtype in FLOATS else 0.0
        here = roundings * np.finfo(np.float64).eps * size * (size != exact)
        return Bounded(value, (size - exact) + here + gamma(roundings, dtype) * size + tiny)
    high, low = parts[1:]
    error = np.maximum(high - value, value - low)
    # inf - inf: all candidates are the same infinity. Any other NaN is no bound at all.
    unknown = np.where(np.isinf(value), 0.0, np.inf)
    return Bounded(value, np.where(np.isnan(error), unknown, error))


def contracted(
    factors: Sequence[Bounded], axes: Sequence[int], extents: Sequence[int], tracked: bool
) -> Partial:
    """Return the partial sum over `axes` of the product of two factors."""
    a, b = factors

    def dot(x: Array, y: Array) -> Array:
        return _dot(x, y, axes, extents)

    value = dot(a.value, b.value)
    if not tracked:
        return (value,)
    size = dot(a.magnitude, b.magnitude)
    error: FloatArray = np.zeros(())
    if not b.exact:
        error = dot(sizes(a.value), np.broadcast_to(b.error, b.value.shape))
    if not a.exact:
        error = error + dot(np.broadcast_to(a.error, a.value.shape), b.magnitude)
    zeros: FloatArray = np.zeros(())
    marks = [_zeros(one.magnitude) for one in factors]
    if any(mark.ndim for mark in marks):
        nonzero = [(one.magnitude != 0).astype(np.float64) for one in factors]
        zeros = prod(extents) - dot(*nonzero)
    return (value, size, np.asarray(error), zeros)


def _zeros(magnitude: Array) -> FloatArray:
    """Return 1 for every exact zero; a single 0 where they are the minority: not worth counting."""
    if 2 * np.count_nonzero(magnitude) >= magnitude.size:
        return np.zeros(())
    zeros: FloatArray = (magnitude == 0).astype(np.float64)
    return zeros


def _dot(a: Array, b: Array, axes: Sequence[int], extents: Sequence[int]) -> Array:
    """Return the sum over dimensions `axes` of a * b, which broadcast, as a matrix product."""
    counts = dict(zip(axes, extents, strict=True))
    twice = [d for d, extent in counts.items() if a.shape[d] == 1 == b.shape[d] and extent > 1]
    a, b = _alone(a, b, counts), _alone(b, a, counts)
    kept = [d for d in range(a.ndim) if d not in counts]
    both = [d for d in kept if a.shape[d] > 1 and b.shape[d] > 1]
    left = [d for d in kept if a.shape[d] > 1 and d not in both]
    right = [d for d in kept if d not in both and d not in left]
    inner = [d for d in counts if a.shape[d] > 1]
    batch = prod(a.shape[d] for d in both)
    depth = prod(a.shape[d] for d in inner)

    def matrix(x: Array, order: list[int], shape: tuple[int, int, int]) -> Array:
        rest = [d for d in range(x.ndim) if d not in order]
        return x.transpose(order + rest).reshape(shape)

    rows, columns = prod(a.shape[d] for d in left), prod(b.shape[d] for d in right)
    out: Array = np.matmul(
        matrix(a, both + left + inner, (batch, rows, depth)),
        matrix(b, both + inner + right, (batch, depth, columns)),
    )
    order = both + left + right
    out = out.reshape([max(a.shape[d], b.shape[d]) for d in order])
    out = out.transpose([order.index(d) for d in kept])
    repeats = prod(counts[d] for d in twice)
    return out if repeats == 1 else np.multiply(out, out.dtype.type(repeats))


def _alone(a: Array, b: Array, counts: Mapping[int, int]) -> Array:
    """Sum `a` over the reduced dimensions that it does not share with `b`."""
    own = tuple(d for d in counts if a.shape[d] > 1 and b.shape[d] == 1)
    return np.add.reduce(a, axis=own, dtype=a.dtype, keepdims=True) if own else a


def first_extreme(
    combiner: str, value: Bounded, index: Bounded, tracked: bool
) -> tuple[Bounded, Bounded]:
    """Return argmax or argmin over the last dimension: the value, and the index of the first.

    The error of the index is its largest distance to an index that a kernel may answer, because
    the value there is within reach of the best.
    """
    high = value.value if combiner == "argmax" else _flipped(value.value)
    at = np.expand_dims(np.argmax(high, axis=-1), -1)

    def take(array: Array) -> Array:
        return np.take_along_axis(array, at, axis=-1)[..., 0]

    best, where = take(value.value), take(index.value)
    if not tracked:
        return Bounded(best), Bounded(where)
    error = np.broadcast_to(value.error, high.shape)
    sign = 1.0 if combiner == "argmax" else -1.0
    level = sign * value.value.astype(np.float64)
    top, sure = sign * best.astype(np.float64), np.max(level - error, axis=-1)
    most, sure_one = level + error, np.expand_dims(sure, -1)
    # At a tie the earlier one wins: one before the best need only come up to it.
    reach = (most > sure_one) | ((most == sure_one) & (np.arange(level.shape[-1]) < at))
    apart = np.where(reach, np.abs(index.value - np.expand_dims(where, -1)), 0).max(axis=-1)
    spread = np.maximum(np.max(level + error, axis=-1) - top, top - sure)
    spread = np.where(np.isnan(spread), 0.0, spread)
    return Bounded(best, spread), Bounded(where, apart.astype(np.float64))


def _flipped(value: Array) -> Array:
    """Return values in opposite order: negated, but for integers so that none wraps."""
    return ~value if value.dtype.kind in "iu" else -value
