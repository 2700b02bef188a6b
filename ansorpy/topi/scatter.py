"""Scatters: copies of a tensor with updates at indices that are the elements of a tensor.

Every element of the result looks for its updates among the indices. There is no order of writes:
a scatter runs in parallel, and equal indices have a meaning. The work is the elements of the result
times the indices that each is compared with: a few rows of a cache are cheap, long lists are not.

A negative index counts from the end; an index beyond either end updates nothing.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import axis_of, refuse, require_integers, shown
from ansorpy.topi.gather import from_the_end
from ansorpy.topi.layout import expand_dims

NONE: Final = "none"
MOST_COMPARISONS: Final = 1 << 32  # places times indices: about a second of one core
REDUCTIONS: Final = (NONE, "add", "mul", "max", "min")
Place = tuple[te.Scalar, ...]


def scatter_elements(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    *,
    reduction: str = NONE,
    name: str = "scatter_elements",
) -> Tensor:
    """Return `data` with each element of `updates` at its index along an axis.

    out[indices[i, j], j] = updates[i, j] for axis 0 (ONNX ScatterElements).

    Args:
        reduction: "none": the last update, in order along the axis, replaces the element; "add",
            "mul", "max" or "min": the element is combined with all its updates.

    Raises:
        SpecError: there is no such axis or reduction, the indices are no integers, or the shapes
            or dtypes do not fit.
    """
    action = _checked(data, indices, updates, reduction)
    at = axis_of(axis, len(data.shape), action)
    _check_elements(data, indices, updates, at, action)
    count = indices.shape[at]
    _bounded(prod(data.shape), count, action)
    k = te.reduce_axis((0, count), "k")

    def along(i: Place, place: te.Scalar) -> Place:
        return (*i[:at], place, *i[at + 1 :])

    def chosen(i: Place, then: te.Scalar, other: te.Operand) -> te.Scalar:
        here = from_the_end(indices[along(i, k)], data.shape[at]) == i[at]
        return _reached(i, at, (data, indices), te.select(here, then, other), other)

    if reduction != NONE:
        return te.compute(
            data.shape,
            lambda *i: _combined(
                reduction, data[i], lambda rest: chosen(i, updates[along(i, k)], rest), (k,)
            ),
            name,
        )
    last = te.compute(data.shape, lambda *i: te.max(chosen(i, k, -1), axis=k), "last")

    def body(*i: te.Scalar) -> te.Scalar:
        update = updates[along(i, te.clamped(last[i], 0, count - 1))]
        one = te.select(last[i] >= 0, update, data[i])
        return _reached(i, at, (data, indices), one, data[i])

    return te.compute(data.shape, body, name)


def scatter_nd(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    reduction: str = NONE,
    name: str = "scatter_nd",
) -> Tensor:
    """Return `data` with each part of `updates` at the vector along the last axis of `indices`.

    out[indices[i, 0], indices[i, 1], ...] = updates[i, ...] (ONNX ScatterND).

    Args:
        reduction: as in `scatter_elements`.

    Raises:
        SpecError: there is no such reduction, the indices are no integers, or the shapes or
            dtypes do not fit.
    """
    action = _checked(data, indices, updates, reduction)
    if not indices.shape or indices.shape[-1] > len(data.shape):
        refuse(action, "its vectors are too long", f"at most {len(data.shape)} indices each")
    *outer, length = indices.shape
    wanted = (*outer, *data.shape[length:])
    if updates.shape != wanted:
        refuse(action, f"there are {shown(updates)}", f"updates of shape {list(wanted)}")
    if not outer:
        parts = (expand_dims(one, 0) for one in (indices, updates))
        return scatter_nd(data, *parts, reduction=reduction, name=name)
    places = data.shape[:length] if reduction == NONE else data.shape
    _bounded(prod(places), prod(outer), action)
    axes = tuple(te.reduce_axis((0, n), "k") for n in outer)

    def chosen(i: Place, then: te.Scalar, other: te.Operand) -> te.Scalar:
        here = (
            from_the_end(indices[(*axes, te.const(d, "int64"))], data.shape[d]) == i[d]
            for d in range(length)
        )
        return te.select(te.all(*here), then, other)

    if reduction != NONE:
        return te.compute(
            data.shape,
            lambda *i: _combined(
                reduction,
                data[i],
                lambda rest: chosen(i, updates[(*axes, *i[length:])], rest),
                axes,
            ),
            name,
        )
    number: te.Scalar = axes[0]
    for axis, n in zip(axes[1:], outer[1:], strict=True):
        number = number * n + axis
    shape = data.shape[:length]
    last = te.compute(shape, lambda *i: te.max(chosen(i, number, -1), axis=axes), "last")

    def body(*i: te.Scalar) -> te.Scalar:
        at = last[i[:length]]
        which = te.clamped(at, 0, prod(outer) - 1)
        digits = [which // prod(outer[d + 1 :]) % n for d, n in enumerate(outer)]
        return te.select(at >= 0, updates[(*digits, *i[length:])], data[i])

    return te.compute(data.shape, body, name)


def _combined(
    reduction: str,
    element: te.Scalar,
    update: Callable[[te.Operand], te.Scalar],
    axes: Sequence[te.ReduceAxis],
) -> te.Reduction:
    """Return an element combined with its updates; `update` takes the value for no update."""
    match reduction:
        case "add":
            return te.sum(update(0), axis=axes, init=element)
        case "mul":
            return te.prod(update(1), axis=axes, init=element)
        case "max":
            return te.max(update(element), axis=axes, init=element)
        case _:
            return te.min(update(element), axis=axes, init=element)


def _bounded(places: int, indices: int, action: str) -> None:
    """Refuse a scatter that would take seconds, as a list of writes would not."""
    if places * indices > MOST_COMPARISONS:
        because = f"{places} places are compared with {indices} indices each"
        refuse(action, because, f"at most {MOST_COMPARISONS} comparisons")


def _reached(
    i: Place, at: int, tensors: tuple[Tensor, Tensor], then: te.Scalar, other: te.Operand
) -> te.Scalar:
    """Return `then` where the second tensor extends to an element of the first, but along `at`."""
    data, indices = tensors
    for d, extent in enumerate(data.shape):
        if d != at and indices.shape[d] < extent:
            then = te.select(i[d] < indices.shape[d], then, other)
    return then


def _check_elements(data: Tensor, indices: Tensor, updates: Tensor, at: int, action: str) -> None:
    if indices.shape != updates.shape or len(indices.shape) != len(data.shape):
        refuse(action, f"there are {shown(updates)}", f"rank {len(data.shape)}, one per index")
    for d, (given, extent) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if d != at and given > extent:
            refuse(action, f"axis {d} has {given} indices", f"at most {extent}")


def _checked(data: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> str:
    """Return the action of a scatter, for messages; refuse wrong dtypes and reductions."""
    action = f"scatter {shown(updates)} into {shown(data)} at {shown(indices)}"
    require_integers(indices, action)
    if updates.dtype != data.dtype:
        refuse(action, f"the updates are {updates.dtype}", f"{data.dtype}, as the data")
    if reduction not in REDUCTIONS:
        refuse(action, f"reduction is {reduction!r}", ", ".join(REDUCTIONS))
    return action
