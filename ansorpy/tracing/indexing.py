"""Rules of indices: numbers, slices, np.newaxis, `...`, and one array of integers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ansorpy.tracing.places import Unsupported
from ansorpy.tracing.recorder import Operand, TraceRecorder
from ansorpy.tracing.tracer import Tracer, rule_of
from ansorpy.tracing.ufuncs import apply

EXPECTED = "numbers, slices, np.newaxis, `...` and at most one array of integers"


@rule_of(Tracer.__getitem__)
def _index(rec: TraceRecorder, x: Tracer, key: Any) -> Tracer:
    given = _full(x, key if isinstance(key, tuple) else (key,))
    arrays = [n for n, one in enumerate(given) if isinstance(one, np.ndarray | list | Tracer)]
    if not arrays:
        return part(rec, x, given)
    if len(arrays) > 1 or any(isinstance(one, int | np.integer) for one in given):
        raise Unsupported("an array of integers stands beside another index", EXPECTED)
    (at,) = arrays
    found = part(rec, x, (*given[:at], slice(None), *given[at + 1 :]))
    axis = at
    return _take(rec, found, given[at], axis)


def part(rec: TraceRecorder, x: Tracer, key: Sequence[Any]) -> Tracer:
    """Return a part by numbers, slices and np.newaxis."""
    begins, ends, steps, shape, axis = [], [], [], [], 0
    full = _full(x, tuple(key))
    for one in full:
        if one is None:
            shape.append(1)
            continue
        extent = x.shape[axis]
        if isinstance(one, slice):
            begin, end, step = one.indices(extent)
            count = len(range(begin, end, step))
            if not count:
                raise Unsupported(f"the part along axis {axis} has no elements", "some elements")
            shape.append(count)
        else:
            if not -extent <= one < extent:
                raise Unsupported(
                    f"index {one} is beyond axis {axis} of {extent}", f"{-extent} to {extent - 1}"
                )
            begin, step = int(one) % extent, 1
            end = begin + 1
        begins.append(begin)
        ends.append(-extent - 1 if end < 0 else end)  # -1 would be the last element
        steps.append(step)
        axis += 1
    whole = [0] * x.ndim, list(x.shape), [1] * x.ndim
    found = x
    if (begins, ends, steps) != whole:
        facts = (begins, ends, list(range(x.ndim)), steps)
        found = rec.emit("Slice", x, constants=[np.array(one, np.int64) for one in facts])
    if tuple(shape) == found.shape:
        return found
    return rec.emit("Reshape", found, constants=[np.array(shape, np.int64)])


def _full(x: Tracer, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an index with an entry for each axis, and without `...`.

    Raises:
        Unsupported: an entry is of another kind, or there are too many.
    """
    for one in key:
        kind = one.dtype.kind if isinstance(one, np.ndarray | Tracer) else ""
        if isinstance(one, bool | np.bool_) or kind == "b":
            raise Unsupported("the shape of the result depends on data", "np.where")
        whole = isinstance(one, int | np.integer | slice | np.ndarray | list | Tracer)
        if kind not in ("", "i", "u") or not (whole or one is None or one is Ellipsis):
            raise Unsupported(f"an index is a {type(one).__name__}", EXPECTED)
    used = sum(one is not None and one is not Ellipsis for one in key)
    if used > x.ndim:
        raise Unsupported(f"there are {used} indices of rank {x.ndim}", f"at most {x.ndim}")
    rest = (slice(None),) * (x.ndim - used)
    at = next((n for n, one in enumerate(key) if one is Ellipsis), len(key))
    return (*key[:at], *rest, *key[at + 1 :])


@rule_of(np.take, method="take")
def _take(rec: TraceRecorder, x: Operand, indices: Operand, axis: int | None = None) -> Tracer:
    tensor, places = rec.operand(x), rec.operand(indices)
    if places.dtype.kind not in "iu":
        raise Unsupported(f"indices are {places.dtype.name}", "integers")
    if axis is None:
        tensor, axis = rec.emit("Reshape", tensor, constants=[np.array([tensor.size])]), 0
    axis = np.lib.array_utils.normalize_axis_index(axis, tensor.ndim)
    return rec.emit("Gather", tensor, _from_begin(rec, places, tensor.shape[axis]), axis=axis)


@rule_of(np.take_along_axis)
def _take_along_axis(rec: TraceRecorder, x: Operand, indices: Operand, axis: int = -1) -> Tracer:
    tensor, places = rec.operand(x), rec.operand(indices)
    axis = np.lib.array_utils.normalize_axis_index(axis, tensor.ndim)
    wide = [e if n != axis else 1 for n, e in enumerate(tensor.shape)]
    narrow = [e if n != axis else 1 for n, e in enumerate(places.shape)]
    if wide != narrow:
        raise Unsupported("the operands are broadcast", "equal shapes but for the axis")
    counted = _from_begin(rec, places, tensor.shape[axis])
    return rec.emit("GatherElements", tensor, counted, axis=axis)


def _from_begin(rec: TraceRecorder, places: Tracer, extent: int) -> Tracer:
    """Return indices of which none is negative, and known ones are checked."""
    known = rec.known(places)
    if known is not None:
        if known.size and not -extent <= known.min() <= known.max() < extent:
            raise Unsupported(f"an index is beyond {extent} elements", f"{-extent} to {extent - 1}")
        return rec.constant(np.where(known < 0, known + extent, known).astype(np.int64))
    whole = rec.cast(places, np.dtype(np.int64))
    if places.dtype.kind == "u":
        return whole
    negative = apply(rec, "less", whole, 0)
    return rec.emit("Where", negative, apply(rec, "add", whole, extent), whole)
