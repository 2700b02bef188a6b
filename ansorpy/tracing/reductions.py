"""Rules of reductions: accumulators have the dtypes that NumPy chooses."""

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from ansorpy.tracing.places import Unsupported
from ansorpy.tracing.recorder import TraceRecorder
from ansorpy.tracing.tracer import Tracer, rule_of
from ansorpy.tracing.ufuncs import apply, scaled

Axis = int | tuple[int, ...] | None
FLOAT32: Final = np.dtype(np.float32)


def axes_of(axis: Axis, rank: int) -> tuple[int, ...]:
    """Return the axes of a reduction, in order; every axis for None."""
    if axis is None:
        return tuple(range(rank))
    given = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    normal = [np.lib.array_utils.normalize_axis_index(one, rank) for one in given]
    if len(set(normal)) < len(normal):
        raise Unsupported(f"axes {given} are not different", "different axes")
    return tuple(sorted(normal))


def reduced(rec: TraceRecorder, op: str, x: Tracer, axis: Axis, keepdims: bool) -> Tracer:
    """Return a reduction in the dtype of its operand."""
    axes = axes_of(axis, x.ndim)
    return rec.emit(op, x, axes=axes, keepdims=int(keepdims)) if axes else x


def _accumulator(x: Tracer, dtype: Any) -> np.dtype[Any]:
    """Return the dtype of a sum: small integers are added as int64 or uint64."""
    wide = {"b": np.dtype(np.int64), "i": np.dtype(np.int64), "u": np.dtype(np.uint64)}
    return wide.get(x.dtype.kind, x.dtype) if dtype is None else np.dtype(dtype)


@rule_of(np.sum, method="sum")
def _sum(
    rec: TraceRecorder, x: Tracer, axis: Axis = None, dtype: Any = None, keepdims: bool = False,
    out: None = None,
) -> Tracer:  # fmt: skip
    return reduced(rec, "ReduceSum", rec.operand(x, _accumulator(x, dtype)), axis, keepdims)


@rule_of(np.prod, method="prod")
def _prod(
    rec: TraceRecorder, x: Tracer, axis: Axis = None, dtype: Any = None, keepdims: bool = False,
    out: None = None,
) -> Tracer:  # fmt: skip
    return reduced(rec, "ReduceProd", rec.operand(x, _accumulator(x, dtype)), axis, keepdims)


@rule_of(np.mean, method="mean")
def _mean(
    rec: TraceRecorder, x: Tracer, axis: Axis = None, dtype: Any = None, keepdims: bool = False
) -> Tracer:
    return reduced(rec, "ReduceMean", _as_float(rec, x, dtype), axis, keepdims)


def _as_float(rec: TraceRecorder, x: Tracer, dtype: Any) -> Tracer:
    wanted = np.dtype(dtype) if dtype else x.dtype if x.dtype.kind == "f" else np.dtype("float64")
    return rec.operand(x, wanted)


@rule_of(np.var, method="var")
def _var(
    rec: TraceRecorder, x: Tracer, axis: Axis = None, dtype: Any = None, ddof: int = 0,
    keepdims: bool = False,
) -> Tracer:  # fmt: skip
    given = _as_float(rec, x, dtype)
    wide = rec.cast(given, FLOAT32) if given.dtype.itemsize < FLOAT32.itemsize else given
    centred = rec.emit("Sub", wide, reduced(rec, "ReduceMean", wide, axis, True))
    found = reduced(rec, "ReduceMean", rec.emit("Mul", centred, centred), axis, keepdims)
    count = prod(x.shape[n] for n in axes_of(axis, x.ndim))
    if count <= ddof:
        raise Unsupported(f"ddof is {ddof}", f"less than {count}, the number of elements")
    return rec.cast(scaled(rec, found, count / (count - ddof)) if ddof else found, given.dtype)


@rule_of(np.std, method="std")
def _std(
    rec: TraceRecorder, x: Tracer, axis: Axis = None, dtype: Any = None, ddof: int = 0,
    keepdims: bool = False,
) -> Tracer:  # fmt: skip
    return rec.emit("Sqrt", _var(rec, x, axis, dtype, ddof, keepdims))


def _extreme(op: str) -> Callable[..., Tracer]:
    def rule(
        rec: TraceRecorder, x: Tracer, axis: Axis = None, keepdims: bool = False, out: None = None
    ) -> Tracer:
        return reduced(rec, op, x, axis, keepdims)

    return rule


rule_of(np.max, np.amax, method="max")(_extreme("ReduceMax"))
rule_of(np.min, np.amin, method="min")(_extreme("ReduceMin"))


@rule_of(np.ptp)
def _ptp(rec: TraceRecorder, x: Tracer, axis: Axis = None, keepdims: bool = False) -> Tracer:
    high, low = (reduced(rec, op, x, axis, keepdims) for op in ("ReduceMax", "ReduceMin"))
    return apply(rec, "subtract", high, low)


def _truth(op: str) -> Callable[..., Tracer]:
    def rule(
        rec: TraceRecorder, x: Tracer, axis: Axis = None, keepdims: bool = False, out: None = None
    ) -> Tracer:
        return reduced(rec, op, rec.cast(x, np.dtype(np.bool_)), axis, keepdims)

    return rule


rule_of(np.any, method="any")(_truth("ReduceMax"))
rule_of(np.all, method="all")(_truth("ReduceMin"))


@rule_of(np.count_nonzero)
def _count(rec: TraceRecorder, x: Tracer, axis: Axis = None, keepdims: bool = False) -> Tracer:
    some = rec.cast(rec.cast(x, np.dtype(np.bool_)), np.dtype(np.int64))
    return reduced(rec, "ReduceSum", some, axis, keepdims)


def _place(op: str) -> Callable[..., Tracer]:
    def rule(
        rec: TraceRecorder, x: Tracer, axis: int | None = None, *, keepdims: bool = False
    ) -> Tracer:
        given = rec.cast(x, np.dtype(np.uint8)) if x.dtype == np.bool_ else x
        if axis is not None:
            (at,) = axes_of(axis, x.ndim)
            return rec.emit(op, given, axis=at, keepdims=int(keepdims))
        flat = rec.emit("Reshape", given, constants=[np.array([x.size])])
        found = rec.emit(op, flat, axis=0, keepdims=0)
        shape = (1,) * x.ndim if keepdims else ()
        return rec.emit("Reshape", found, constants=[np.array(shape, np.int64)])

    return rule


rule_of(np.argmax, method="argmax")(_place("ArgMax"))
rule_of(np.argmin, method="argmin")(_place("ArgMin"))


@rule_of(np.cumsum, method="cumsum")
def _cumsum(rec: TraceRecorder, x: Tracer, axis: int | None = None, dtype: Any = None) -> Tracer:
    given = rec.operand(x, _accumulator(x, dtype))
    if axis is None:
        given = rec.emit("Reshape", given, constants=[np.array([x.size])])
    (at,) = axes_of(0 if axis is None else axis, given.ndim)
    return rec.emit("CumSum", given, constants=[np.array(at)])


@rule_of(np.linalg.norm)
def _norm(
    rec: TraceRecorder, x: Tracer, ord: Any = None, axis: Axis = None, keepdims: bool = False
) -> Tracer:
    given = _as_float(rec, x, None)
    axes = axes_of(axis, x.ndim)
    if ord in (1, np.inf) and len(axes) == 1:
        op = "ReduceSum" if ord == 1 else "ReduceMax"
        return reduced(rec, op, rec.emit("Abs", given), axes, keepdims)
    if ord not in (None, "fro") and not (ord == 2 and len(axes) == 1):
        raise Unsupported(f"ord is {ord!r}", "None, or 1, 2, np.inf of one axis")
    total = reduced(rec, "ReduceSum", rec.emit("Mul", given, given), axes, keepdims)
    return rec.emit("Sqrt", total)
