"""Rules of functions that move elements: views, permutations, joins, parts and borders."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ansorpy.tracing.indexing import part
from ansorpy.tracing.places import Unsupported
from ansorpy.tracing.recorder import Operand, TraceRecorder, common_dtype
from ansorpy.tracing.reductions import axes_of
from ansorpy.tracing.tracer import FUNCTIONS, METHODS, Tracer, rule_of

Ints = int | Sequence[int]


def reshaped(rec: TraceRecorder, x: Tracer, shape: Sequence[int]) -> Tracer:
    """Return the elements in another shape, which may have one -1."""
    wanted = [int(extent) for extent in shape]
    rest = prod(extent for extent in wanted if extent != -1)
    if wanted.count(-1) == 1 and rest and x.size % rest == 0:
        wanted[wanted.index(-1)] = x.size // rest
    if prod(wanted) != x.size or min(wanted, default=1) < 0:
        raise Unsupported(f"shape {list(x.shape)} has {x.size} elements", f"{x.size} elements")
    if tuple(wanted) == x.shape:
        return x
    return rec.emit("Reshape", x, constants=[np.array(wanted, np.int64)])


def _ints(given: Any) -> tuple[int, ...]:
    """Return sizes that are one number, a sequence, or the arguments of a method."""
    flat = given[0] if len(given) == 1 and not isinstance(given[0], int | np.integer) else given
    return tuple(int(one) for one in flat)


@rule_of(np.reshape)
def _reshape(rec: TraceRecorder, x: Tracer, shape: Ints, order: str = "C") -> Tracer:
    if order != "C":
        raise Unsupported(f"order is {order!r}", "'C'")
    return reshaped(rec, x, _ints((shape,)))


@rule_of("x.reshape", method="reshape")
def _reshape_method(rec: TraceRecorder, x: Tracer, *shape: Any) -> Tracer:
    return reshaped(rec, x, _ints(shape))


@rule_of(np.ravel, "x.flatten", method="ravel")
def _ravel(rec: TraceRecorder, x: Tracer) -> Tracer:
    return reshaped(rec, x, (-1,))


METHODS["flatten"] = "x.flatten"


@rule_of(np.transpose, np.permute_dims)
def _transpose(rec: TraceRecorder, x: Tracer, axes: Sequence[int] | None = None) -> Tracer:
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(int(n) % x.ndim for n in axes)
    if sorted(order) != list(range(x.ndim)):
        raise Unsupported(f"axes are {axes}", f"a permutation of {x.ndim} axes")
    return x if order == tuple(range(x.ndim)) else rec.emit("Transpose", x, perm=order)


@rule_of("x.transpose", method="transpose")
def _transpose_method(rec: TraceRecorder, x: Tracer, *axes: Any) -> Tracer:
    none = not axes or axes == (None,)
    return _transpose(rec, x, None if none else _ints(axes))


@rule_of(np.swapaxes, method="swapaxes")
def _swapaxes(rec: TraceRecorder, x: Tracer, axis1: int, axis2: int) -> Tracer:
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return _transpose(rec, x, order)


@rule_of(np.matrix_transpose, np.linalg.matrix_transpose)
def _matrix_transpose(rec: TraceRecorder, x: Tracer) -> Tracer:
    return _swapaxes(rec, x, -1, -2)


@rule_of(np.moveaxis)
def _moveaxis(rec: TraceRecorder, x: Tracer, source: Ints, destination: Ints) -> Tracer:
    begins, ends = ([n % x.ndim for n in _ints((one,) if isinstance(one, int) else one)]
                    for one in (source, destination))  # fmt: skip
    order = [n for n in range(x.ndim) if n not in begins]
    for end, begin in sorted(zip(ends, begins, strict=True)):
        order.insert(end, begin)
    return _transpose(rec, x, order)


@rule_of(np.squeeze, method="squeeze")
def _squeeze(rec: TraceRecorder, x: Tracer, axis: Any = None) -> Tracer:
    units = tuple(n for n, extent in enumerate(x.shape) if extent == 1)
    gone = units if axis is None else axes_of(axis, x.ndim)
    if not {*gone} <= {*units}:
        raise Unsupported(f"an axis of {gone} has more than one element", "axes of one element")
    return reshaped(rec, x, [e for n, e in enumerate(x.shape) if n not in gone])


@rule_of(np.expand_dims)
def _expand_dims(rec: TraceRecorder, x: Operand, axis: Any) -> Tracer:
    given = rec.operand(x)
    rank = given.ndim + (1 if isinstance(axis, int) else len(axis))
    shape, new = list(given.shape), axes_of(axis, rank)
    for at in new:
        shape.insert(at, 1)
    return reshaped(rec, given, shape)


@rule_of(np.atleast_1d)
def _atleast_1d(rec: TraceRecorder, x: Tracer) -> Tracer:
    return x if x.ndim else reshaped(rec, x, (1,))


@rule_of(np.atleast_2d)
def _atleast_2d(rec: TraceRecorder, x: Tracer) -> Tracer:
    return x if x.ndim > 1 else reshaped(rec, x, (1, -1))


@rule_of(np.broadcast_to)
def _broadcast_to(rec: TraceRecorder, x: Tracer, shape: Ints) -> Tracer:
    wanted = _ints((shape,) if isinstance(shape, int) else shape)
    if np.broadcast_shapes(x.shape, wanted) != wanted:
        raise Unsupported(f"shape {list(x.shape)} does not broadcast to it", "a wider shape")
    return rec.emit("Expand", x, constants=[np.array(wanted, np.int64)])


@rule_of(np.concatenate)
def _concatenate(
    rec: TraceRecorder, arrays: Sequence[Operand], axis: int | None = 0, dtype: Any = None
) -> Tracer:
    kind = np.dtype(dtype) if dtype else common_dtype(*map(_typed, arrays))
    tensors = [rec.operand(one, kind) for one in arrays]
    if axis is None:
        tensors, axis = [reshaped(rec, one, (-1,)) for one in tensors], 0
    (at,) = axes_of(axis, tensors[0].ndim)
    return rec.emit("Concat", *tensors, axis=at) if len(tensors) > 1 else tensors[0]


def _typed(value: Operand) -> Operand:
    return value if isinstance(value, Tracer) else np.asarray(value)


@rule_of(np.stack)
def _stack(rec: TraceRecorder, arrays: Sequence[Operand], axis: int = 0) -> Tracer:
    return _concatenate(rec, [_expand_dims(rec, one, axis) for one in arrays], axis)


@rule_of(np.vstack)
def _vstack(rec: TraceRecorder, tup: Sequence[Operand]) -> Tracer:
    return _concatenate(rec, [_atleast_2d(rec, rec.operand(one)) for one in tup], 0)


@rule_of(np.hstack)
def _hstack(rec: TraceRecorder, tup: Sequence[Operand]) -> Tracer:
    tensors = [_atleast_1d(rec, rec.operand(one)) for one in tup]
    return _concatenate(rec, tensors, 0 if tensors[0].ndim == 1 else 1)


@rule_of(np.split)
def _split(rec: TraceRecorder, x: Tracer, parts: Any, axis: int = 0) -> list[Tracer]:
    if isinstance(parts, int) and x.shape[axis] % parts:
        raise Unsupported(
            f"{x.shape[axis]} rows are no multiple of {parts}", "a divisor, or np.array_split"
        )
    return _array_split(rec, x, parts, axis)


@rule_of(np.array_split)
def _array_split(rec: TraceRecorder, x: Tracer, parts: Any, axis: int = 0) -> list[Tracer]:
    (at,) = axes_of(axis, x.ndim)
    if isinstance(parts, int | np.integer):
        whole, rest = divmod(x.shape[at], int(parts))
        parts = np.cumsum([whole + (n < rest) for n in range(int(parts))])[:-1].tolist()
    ends = [0, *map(int, parts), x.shape[at]]
    before = (slice(None),) * at
    return [part(rec, x, (*before, slice(first, last))) for first, last in pairwise(ends)]


@rule_of(np.tile)
def _tile(rec: TraceRecorder, x: Tracer, reps: Ints) -> Tracer:
    repeats = _ints((reps,) if isinstance(reps, int) else reps)
    rank = max(x.ndim, len(repeats))
    given = reshaped(rec, x, (1,) * (rank - x.ndim) + x.shape)
    counts = (1,) * (rank - len(repeats)) + repeats
    return rec.emit("Tile", given, constants=[np.array(counts, np.int64)])


@rule_of(np.repeat, method="repeat")
def _repeat(rec: TraceRecorder, x: Tracer, repeats: int, axis: int | None = None) -> Tracer:
    if not isinstance(repeats, int | np.integer):
        raise Unsupported("the numbers of copies differ", "one number")
    given = reshaped(rec, x, (-1,)) if axis is None else x
    (at,) = axes_of(0 if axis is None else axis, given.ndim)
    head, extent, tail = given.shape[:at], given.shape[at], given.shape[at + 1 :]
    wide = _broadcast_to(
        rec, reshaped(rec, given, (*head, extent, 1, *tail)), (*head, extent, int(repeats), *tail)
    )
    return reshaped(rec, wide, (*head, extent * int(repeats), *tail))


@rule_of(np.flip)
def _flip(rec: TraceRecorder, x: Tracer, axis: Any = None) -> Tracer:
    axes = axes_of(axis, x.ndim)
    key = tuple(slice(None, None, -1 if n in axes else 1) for n in range(x.ndim))
    return part(rec, x, key)


@rule_of(np.roll)
def _roll(rec: TraceRecorder, x: Tracer, shift: int, axis: int | None = None) -> Tracer:
    if not isinstance(shift, int | np.integer):
        raise Unsupported("there are several shifts", "one number and one axis")
    if axis is None:
        return reshaped(rec, _roll(rec, reshaped(rec, x, (-1,)), shift, 0), x.shape)
    (at,) = axes_of(axis, x.ndim)
    cut = -int(shift) % x.shape[at]
    if cut == 0:
        return x
    before = (slice(None),) * at
    parts = [part(rec, x, (*before, one)) for one in (slice(cut, None), slice(0, cut))]
    return _concatenate(rec, parts, at)


@rule_of(np.diff)
def _diff(rec: TraceRecorder, x: Tracer, n: int = 1, axis: int = -1) -> Tracer:
    (at,) = axes_of(axis, x.ndim)
    before = (slice(None),) * at
    for _ in range(n):
        after, first = (part(rec, x, (*before, one)) for one in (slice(1, None), slice(0, -1)))
        x = rec.emit("Sub", after, first)
    return x


@rule_of(np.pad)
def _pad(
    rec: TraceRecorder, x: Tracer, pad_width: Any, mode: str = "constant", constant_values: Any = 0
) -> Tracer:
    known = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    if mode not in known:
        raise Unsupported(f"mode is {mode!r}", ", ".join(map(repr, known)))
    widths = np.broadcast_to(np.asarray(pad_width, np.int64), (x.ndim, 2))
    pads = tuple(int(one) for one in widths.T.reshape(-1))
    if mode != "constant":
        return rec.emit("Pad", x, mode=known[mode], pads=pads)
    value = np.asarray(constant_values).astype(x.dtype)
    if value.ndim:
        raise Unsupported("constant_values are several", "one number")
    return rec.emit("Pad", x, constants=[np.array(pads), value], mode="constant")


for _name, _upper in {np.tril: 0, np.triu: 1}.items():

    @rule_of(_name)
    def _triangle(rec: TraceRecorder, x: Tracer, k: int = 0, upper: int = _upper) -> Tracer:
        return rec.emit("Trilu", x, constants=[np.array(int(k))], upper=upper)


for _like, _fill in ((np.zeros_like, 0), (np.ones_like, 1)):

    @rule_of(_like)
    def _filled(rec: TraceRecorder, x: Tracer, dtype: Any = None, fill: int = _fill) -> Any:
        return np.full(x.shape, fill, dtype or x.dtype)


@rule_of(np.full_like)
def _full_like(rec: TraceRecorder, x: Tracer, fill_value: Any, dtype: Any = None) -> Any:
    if isinstance(fill_value, Tracer):
        return _broadcast_to(rec, rec.cast(fill_value, np.dtype(dtype or x.dtype)), x.shape)
    return np.full(x.shape, fill_value, dtype or x.dtype)


@rule_of(np.astype, method="astype")
def _astype(rec: TraceRecorder, x: Tracer, dtype: Any, copy: bool = True) -> Tracer:
    return rec.cast(x, np.dtype(dtype))


@rule_of(np.copy, method="copy")
def _copy(rec: TraceRecorder, x: Tracer, order: str = "K") -> Tracer:
    return x


FUNCTIONS[np.shape] = lambda rec, x: x.shape
FUNCTIONS[np.ndim] = lambda rec, x: x.ndim
FUNCTIONS[np.size] = lambda rec, x, axis=None: x.size if axis is None else x.shape[axis]
FUNCTIONS[np.result_type] = lambda rec, *values: common_dtype(*values)
