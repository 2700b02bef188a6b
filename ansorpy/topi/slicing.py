"""Operators that take parts of tensors, join tensors and repeat elements, of any dtype."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from ansorpy import te
from ansorpy.te.dims import Dim, dims_in, least
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import axes_of, axis_of, refuse, shown
from ansorpy.topi.layout import expand_dims

CHAIN: Final = 32  # tensors of a concatenation whose choices are a chain, not halves


def concat(tensors: Sequence[Tensor], axis: int = 0, *, name: str = "concat") -> Tensor:
    """Return tensors one after the other along an axis.

    Raises:
        SpecError: no tensors, or tensors with other extents of another axis or other dtypes.
    """
    if not tensors:
        refuse("concatenate", "no tensor is given", "at least one")
    first, *others = tensors
    action = f"concatenate {', '.join(map(shown, tensors))}"
    at = axis_of(axis, len(first.shape), action)
    for other in others:
        if _without(other.shape, at) != _without(first.shape, at):
            refuse(action, f"their shapes differ beside axis {at}", "equal extents there")
    ends = list(accumulate(tensor.shape[at] for tensor in tensors))

    def body(*i: te.Scalar) -> te.Scalar:
        parts = [
            tensor[(*i[:at], i[at] - (end - tensor.shape[at]) if n else i[at], *i[at + 1 :])]
            for n, (tensor, end) in enumerate(zip(tensors, ends, strict=True))
        ]
        return _chosen(i[at], parts, ends)

    return te.compute((*first.shape[:at], ends[-1], *first.shape[at + 1 :]), body, name)


def _chosen(place: te.Scalar, parts: Sequence[te.Scalar], ends: Sequence[int]) -> te.Scalar:
    """Return the part whose end is the first one behind a place; choices nest, of many by halves.

    Expressions may nest 64 deep (`te.check`).
    """
    if len(parts) == 1:
        return parts[0]
    cut = 1 if len(parts) <= CHAIN else len(parts) // 2
    first, others = _chosen(place, parts[:cut], ends), _chosen(place, parts[cut:], ends[cut:])
    return te.select(place < ends[cut - 1], first, others)


def stack(tensors: Sequence[Tensor], axis: int = 0, *, name: str = "stack") -> Tensor:
    """Return tensors of one shape along a new axis.

    Raises:
        SpecError: no tensors, or tensors with other shapes or dtypes.
    """
    return concat([expand_dims(tensor, axis) for tensor in tensors], axis, name=name)


def strided_slice(
    data: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    stride: Sequence[int] | None = None,
    *,
    name: str = "strided_slice",
) -> Tensor:
    """Return data[begin[0]:end[0]:stride[0], ...], with the meaning of Python's slices.

    Raises:
        SpecError: another number of slices than axes, a stride of 0, or an empty result.
    """
    rank = len(data.shape)
    strides = (1,) * rank if stride is None else tuple(stride)
    action = f"slice {shown(data)}"
    if not len(begin) == len(end) == len(strides) == rank:
        refuse(action, f"{len(begin)} slices are given", f"{rank}, one per axis")
    if 0 in strides:
        refuse(action, "a stride is 0", "another number")
    spans = [span(*bounds, action) for bounds in zip(begin, end, strides, data.shape, strict=True)]
    if any(count == 0 for *_, count in spans):
        refuse(action, f"begin {list(begin)}, end {list(end)} leave no element", "one or more")

    def body(*i: te.Scalar) -> te.Scalar:
        places = zip(i, spans, strict=True)
        return data[
            tuple(
                at if isinstance(count, Dim) else at * step + start
                for at, (start, step, count) in places
            )
        ]

    return te.compute([count for *_, count in spans], body, name)


def span(first: int, last: int, step: int, extent: int, action: str) -> tuple[int, int, int]:
    """Return first element, step and number of elements of a slice of an axis, as Python's.

    Raises:
        SpecError: the number depends on a dim and is none.
    """
    if not dims_in((first, last, extent)):
        taken = range(*slice(first, last, step).indices(extent))
        return taken.start, step, len(taken)
    whole, most = first == 0 and step == 1, extent.high if isinstance(extent, Dim) else extent
    if isinstance(last, Dim):
        if whole and (last == extent or (not isinstance(extent, Dim) and last.high <= extent)):
            return 0, 1, last
    elif whole and last >= most:
        return 0, 1, extent
    elif step > 0 and not isinstance(first, Dim) and first >= 0 and 0 <= last <= least(extent):
        return first, step, len(range(first, last, step))
    refuse(
        action, f"the number of elements {first}:{last}:{step} of {extent} depends on the dim",
        "all elements, or some below the least size",
    )  # fmt: skip


def split(
    data: Tensor, sections: int | Sequence[int], axis: int = 0, *, name: str = "split"
) -> tuple[Tensor, ...]:
    """Return parts of `data` along an axis: a number of equal ones, or of the given extents.

    Raises:
        SpecError: the parts do not make up the axis.
    """
    action = f"split {shown(data)}"
    at = axis_of(axis, len(data.shape), action)
    extent = data.shape[at]
    if isinstance(sections, int):
        if sections < 1 or extent % sections:
            refuse(action, f"axis {at} has {extent} elements", f"a multiple of {sections} parts")
        sizes = [extent // sections] * sections
    else:
        sizes = list(sections)
    if sum(sizes) != extent or min(sizes) < 1:
        refuse(action, f"parts {sizes} do not make up {extent}", "positive parts of this sum")

    def part(first: int, size: int, number: int) -> Tensor:
        shape = (*data.shape[:at], size, *data.shape[at + 1 :])
        return te.compute(
            shape, lambda *i: data[(*i[:at], i[at] + first, *i[at + 1 :])], f"{name}_{number}"
        )

    starts = accumulate(sizes[:-1], initial=0)
    return tuple(
        part(start, size, n) for n, (start, size) in enumerate(zip(starts, sizes, strict=True))
    )


def pad(
    data: Tensor,
    before: Sequence[int],
    after: Sequence[int] | None = None,
    *,
    value: te.Operand = 0,
    mode: str = "constant",
    name: str = "pad",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return `data` with elements around it, or `data` itself if there are none.

    Args:
        before, after: elements added per axis; `after` is `before` unless it is given.
        value: the added elements of mode "constant".
        mode: "constant"; "edge": the nearest element of the data; "reflect": mirrored at the
            elements of the border, which are not repeated; "wrap": the data again.

    Raises:
        SpecError: a negative or missing number, or an unknown mode.
    """
    action = f"pad {shown(data)}"
    behind = before if after is None else after
    for numbers in (before, behind):
        if len(numbers) != len(data.shape) or any(number < 0 for number in numbers):
            refuse(action, f"it gets {list(numbers)}", f"{len(data.shape)} numbers from 0 on")
    if mode not in ("constant", *_SOURCES):
        refuse(action, f"mode {mode!r} is not known", f"constant, {', '.join(_SOURCES)}")
    if not any(before) and not any(behind):
        return data
    places = list(zip(before, data.shape, behind, strict=True))

    def constant(*at: te.Scalar) -> te.Scalar:
        inside = [
            condition
            for i, (b, n, a) in zip(at, places, strict=True)
            for condition in (*([i >= b] if b else []), *([i < b + n] if a else []))
        ]
        source = tuple(i - b if b else i for i, (b, _, _) in zip(at, places, strict=True))
        return te.select(te.all(*inside), data[source], value)

    def moved(*at: te.Scalar) -> te.Scalar:
        source = _SOURCES[mode]
        return data[
            tuple(
                source(i - b, n) if b or a else i for i, (b, n, a) in zip(at, places, strict=True)
            )
        ]

    body = constant if mode == "constant" else moved
    wide = [n if not b and not a else b + n + a for b, n, a in places]
    return te.compute(wide, body, name, axes=axes)


def _clamped(i: te.Scalar, extent: int) -> te.Scalar:
    return te.minimum(te.maximum(i, 0), extent - 1)


def _mirrored(i: te.Scalar, extent: int) -> te.Scalar:
    """Return the place of a position beyond the borders, mirrored as often as need be."""
    period = max(2 * (extent - 1), 1)
    there = i % period
    return _clamped(te.minimum(there, period - there), extent)


_SOURCES: Final[Mapping[str, Callable[[te.Scalar, int], te.Scalar]]] = {
    "edge": _clamped, "reflect": _mirrored, "wrap": lambda i, extent: i % extent,
}  # fmt: skip


def tile(data: Tensor, repeats: Sequence[int], *, name: str = "tile") -> Tensor:
    """Return `data` repeated as a whole along every axis, as `numpy.tile` with equal ranks.

    Raises:
        SpecError: another number of repeats than axes, or one below 1.
    """
    if len(repeats) != len(data.shape) or any(number < 1 for number in repeats):
        refuse(f"tile {shown(data)}", f"repeats are {list(repeats)}", "one per axis, from 1 on")
    pairs = list(zip(data.shape, repeats, strict=True))
    return te.compute(
        [extent if number == 1 else extent * number for extent, number in pairs],
        lambda *i: data[
            tuple(
                at if isinstance(extent, Dim) else at % extent
                for at, extent in zip(i, data.shape, strict=True)
            )
        ],
        name,
    )


def repeat(data: Tensor, repeats: int, axis: int, *, name: str = "repeat") -> Tensor:
    """Return `data` with every element along an axis `repeats` times, as `numpy.repeat`.

    Raises:
        SpecError: there is no such axis, or `repeats` is below 1.
    """
    action = f"repeat {shown(data)}"
    at = axis_of(axis, len(data.shape), action)
    if repeats < 1:
        refuse(action, f"repeats is {repeats}", "1 or more")
    shape = (*data.shape[:at], data.shape[at] * repeats, *data.shape[at + 1 :])
    return te.compute(shape, lambda *i: data[(*i[:at], i[at] // repeats, *i[at + 1 :])], name)


def flip(data: Tensor, axis: int | Sequence[int] | None = None, *, name: str = "flip") -> Tensor:
    """Return `data` in reverse order along axes; all of them unless some are given.

    Raises:
        SpecError: there is no such axis.
    """
    turned = axes_of(axis, len(data.shape), f"flip {shown(data)}")
    return te.compute(
        data.shape,
        lambda *i: data[
            tuple(data.shape[n] - 1 - at if n in turned else at for n, at in enumerate(i))
        ],
        name,
    )


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
