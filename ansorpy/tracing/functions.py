"""Rules of functions that compute: choices, limits, rounding, products."""

from typing import Any

import numpy as np

from ansorpy.tracing import indexing as _indexing  # noqa: F401  it fills the table of rules
from ansorpy.tracing.moves import reshaped
from ansorpy.tracing.places import Unsupported
from ansorpy.tracing.recorder import Operand, TraceRecorder, common_dtype
from ansorpy.tracing.tracer import UFUNCS, Tracer, rule_of
from ansorpy.tracing.ufuncs import apply


@rule_of(np.where)
def _where(rec: TraceRecorder, condition: Operand, x: Operand = None, y: Operand = None) -> Tracer:
    if x is None or y is None:
        raise Unsupported("the shape of the result depends on data", "np.where of three operands")
    kind = common_dtype(x, y)
    test = rec.cast(rec.operand(condition), np.dtype(np.bool_))
    return rec.emit("Where", test, rec.operand(x, kind), rec.operand(y, kind))


@rule_of(np.clip, method="clip")
def _clip(
    rec: TraceRecorder, x: Tracer, a_min: Operand = None, a_max: Operand = None,
    *, min: Operand = None, max: Operand = None,
) -> Tracer:  # fmt: skip
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    kind = common_dtype(*(one for one in (x, low, high) if one is not None))
    result = rec.operand(x, kind)
    for name, limit in (("maximum", low), ("minimum", high)):
        result = result if limit is None else apply(rec, name, result, rec.operand(limit, kind))
    return result


UFUNCS["clip"] = lambda rec, ufunc, *operands, **keywords: _clip(rec, *operands, **keywords)


@rule_of(np.round, np.around, method="round")
def _round(rec: TraceRecorder, x: Tracer, decimals: int = 0) -> Tracer:
    if x.dtype.kind != "f":
        if decimals < 0:
            raise Unsupported("decimals of an integer are negative", "0")
        return x
    if not decimals:
        return rec.emit("Round", x)
    factor = np.asarray(10.0 ** abs(decimals), x.dtype)
    names = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    inner = rec.emit("Round", rec.emit(names[0], x, constants=[factor]))
    return rec.emit(names[1], inner, constants=[factor])


@rule_of(np.nan_to_num)
def _nan_to_num(rec: TraceRecorder, x: Tracer, copy: bool = True, nan: float = 0.0) -> Tracer:
    if x.dtype.kind != "f":
        return x
    limits = np.finfo(x.dtype)
    number = _where(rec, apply(rec, "isnan", x), np.asarray(nan, x.dtype), x)
    return _clip(rec, number, limits.min, limits.max)


def _pair(rec: TraceRecorder, a: Operand, b: Operand) -> tuple[Tracer, Tracer]:
    given = [one if isinstance(one, Tracer) else np.asarray(one) for one in (a, b)]
    kind = common_dtype(*given)
    return rec.operand(a, kind), rec.operand(b, kind)


@rule_of(np.dot, method="dot")
def _dot(rec: TraceRecorder, a: Operand, b: Operand) -> Tracer:
    x, y = _pair(rec, a, b)
    if not x.ndim or not y.ndim:
        return apply(rec, "multiply", x, y)
    if y.ndim <= 2:
        return apply(rec, "matmul", x, y)
    return _tensordot(rec, x, y, ([-1], [-2]))


@rule_of(np.inner)
def _inner(rec: TraceRecorder, a: Operand, b: Operand) -> Tracer:
    return _tensordot(rec, a, b, ([-1], [-1]))


@rule_of(np.outer)
def _outer(rec: TraceRecorder, a: Operand, b: Operand) -> Tracer:
    x, y = _pair(rec, a, b)
    return apply(rec, "multiply", reshaped(rec, x, (-1, 1)), reshaped(rec, y, (1, -1)))


@rule_of(np.tensordot)
def _tensordot(rec: TraceRecorder, a: Operand, b: Operand, axes: Any = 2) -> Tracer:
    x, y = _pair(rec, a, b)
    if isinstance(axes, int):
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    left, right = (
        [n % one.ndim for n in ([given] if isinstance(given, int) else given)]
        for one, given in zip((x, y), axes, strict=True)
    )
    letters = "abcdefghijklmnopqrstuvwxyz"
    first, second = list(letters[: x.ndim]), list(letters[x.ndim : x.ndim + y.ndim])
    for n, m in zip(left, right, strict=True):
        second[m] = first[n]
    kept = [one for n, one in enumerate(first) if n not in left]
    kept += [one for n, one in enumerate(second) if n not in right]
    equation = f"{''.join(first)},{''.join(second)}->{''.join(kept)}"
    return rec.emit("Einsum", x, y, equation=equation)


@rule_of(np.einsum)
def _einsum(rec: TraceRecorder, equation: Any, *operands: Operand, optimize: Any = False) -> Tracer:
    if not isinstance(equation, str):
        raise Unsupported("the equation is no text", "a text, as in 'ij,jk->ik'")
    kind = common_dtype(*(v if isinstance(v, Tracer) else np.asarray(v) for v in operands))
    return rec.emit("Einsum", *(rec.operand(one, kind) for one in operands), equation=equation)


@rule_of(np.linalg.matmul)
def _matmul(rec: TraceRecorder, x1: Operand, x2: Operand) -> Tracer:
    return apply(rec, "matmul", x1, x2)
