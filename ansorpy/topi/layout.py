"""Operators that change the shape of a tensor or the order of its elements, of any dtype."""

from collections.abc import Iterator, Sequence
from math import prod

from ansorpy import te
from ansorpy.te.broadcast import broadcast_index, broadcast_shape
from ansorpy.te.dims import Dim, dims_in
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import axes_of, axis_of, refuse, shown


def reshape(data: Tensor, shape: Sequence[int], *, name: str = "reshape") -> Tensor:
    """Return the elements in row-major order with another shape; one extent may be -1.

    A dim stays an extent: memory is laid out for its largest size.

    Raises:
        SpecError: the numbers of elements differ, or those between two dims.
    """
    action = f"reshape {shown(data)} to {list(shape)}"
    if dims_in((*data.shape, *shape)):
        return _moved(data, tuple(shape), list(_beside_dims(data.shape, shape, action)), name)
    count = prod(data.shape)
    known = prod(extent for extent in shape if extent != -1)
    if list(shape).count(-1) > 1 or (-1 in shape and (known < 1 or count % known)):
        refuse(action, "the extent for -1 is not determined", f"a divisor of {count} elements")
    result = tuple(count // known if extent == -1 else extent for extent in shape)
    if prod(result) != count:
        refuse(action, f"{count} elements become {prod(result)}", f"{count} elements")

    return _moved(
        data, result, list(_groups(list(enumerate(data.shape)), list(enumerate(result)))), name
    )


def flatten(data: Tensor, axis: int = 1, *, name: str = "flatten") -> Tensor:
    """Return a matrix: the axes before `axis` are joined, and those from `axis` on.

    Raises:
        SpecError: `axis` is not 0 to the rank.
    """
    rank = len(data.shape)
    if not -rank <= axis <= rank:
        refuse(f"flatten {shown(data)}", f"axis {axis} is no axis", f"{-rank} to {rank}")
    at = axis + rank if axis < 0 else axis
    return reshape(data, (_joined(data.shape[:at]), _joined(data.shape[at:])), name=name)


def squeeze(
    data: Tensor, axis: int | Sequence[int] | None = None, *, name: str = "squeeze"
) -> Tensor:
    """Return `data` without axes of extent 1: those named, or all.

    Raises:
        SpecError: a named axis has another extent, or there is no such axis.
    """
    action = f"squeeze {shown(data)}"
    every = tuple(i for i, extent in enumerate(data.shape) if extent == 1)
    gone = every if axis is None else axes_of(axis, len(data.shape), action)
    if not set(gone) <= set(every):
        refuse(action, f"axes {list(gone)} have extents other than 1", f"axes of {list(every)}")
    return reshape(data, [n for i, n in enumerate(data.shape) if i not in gone], name=name)


def expand_dims(data: Tensor, axis: int | Sequence[int], *, name: str = "expand_dims") -> Tensor:
    """Return `data` with axes of extent 1 at the given positions of the result.

    Raises:
        SpecError: there is no such axis of the result.
    """
    count = 1 if isinstance(axis, int) else len(axis)
    rank = len(data.shape) + count
    new = axes_of(axis, rank, f"expand {shown(data)}")
    old = iter(data.shape)
    return reshape(data, [1 if i in new else next(old) for i in range(rank)], name=name)


def transpose(
    data: Tensor,
    order: Sequence[int] | None = None,
    *,
    name: str = "transpose",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return `data` with axis order[n] as axis n; reversed axes without `order`, as in NumPy.

    Raises:
        SpecError: `order` is not a permutation of the axes.
    """
    rank = len(data.shape)
    action = f"transpose {shown(data)}"
    given = range(rank - 1, -1, -1) if order is None else order
    taken = [axis_of(axis, rank, action) for axis in given]
    if sorted(taken) != list(range(rank)):
        refuse(action, f"order {list(given)} is no permutation", f"each of 0 to {rank - 1} once")
    return te.compute(
        [data.shape[axis] for axis in taken],
        lambda *i: data[tuple(i[taken.index(axis)] for axis in range(rank))],
        name,
        axes=axes,
    )


def broadcast_to(data: Tensor, shape: Sequence[int], *, name: str = "broadcast_to") -> Tensor:
    """Return `data` broadcast to a shape, as in NumPy.

    Raises:
        SpecError: an extent is neither 1 nor the extent of the shape.
    """
    result = tuple(shape)
    if broadcast_shape([data.shape, result], name) != result:
        refuse(f"broadcast {shown(data)} to {list(shape)}", "it has larger extents", "1 or equal")
    return te.compute(result, lambda *i: data[broadcast_index(data.shape, result, i)], name)


def depth_to_space(
    data: Tensor, block: int, *, mode: str = "DCR", name: str = "depth_to_space"
) -> Tensor:
    """Return [n, c / block^2, h * block, w * block]: channels become blocks (as in ONNX).

    Args:
        mode: the order of the channels: "DCR" block^2 runs of c / block^2, or "CRD" the reverse.

    Raises:
        SpecError: not [n, c, h, w], block^2 does not divide the channels, or an unknown mode.
    """
    if mode not in ("DCR", "CRD"):
        refuse(f"move channels of {shown(data)}", f"mode {mode!r} is not known", "DCR or CRD")
    action = f"move channels of {shown(data)} to blocks of {block}"
    if len(data.shape) != 4 or block < 1 or data.shape[1] % (block * block):
        refuse(action, "its shape does not fit", f"[n, c, h, w], c a multiple of {block * block}")
    n, c, h, w = data.shape
    depth = c // (block * block)

    def body(b: te.Scalar, f: te.Scalar, y: te.Scalar, x: te.Scalar) -> te.Scalar:
        place = y % block * block + x % block
        channel = place * depth + f if mode == "DCR" else f * (block * block) + place
        return data[b, channel, y // block, x // block]

    return te.compute((n, depth, h * block, w * block), body, name)


def space_to_depth(data: Tensor, block: int, *, name: str = "space_to_depth") -> Tensor:
    """Return [n, c * block^2, h / block, w / block]: blocks become channels (as in ONNX).

    Raises:
        SpecError: not [n, c, h, w], or block does not divide h and w.
    """
    action = f"move blocks of {block} of {shown(data)} to channels"
    if len(data.shape) != 4 or block < 1 or data.shape[2] % block or data.shape[3] % block:
        refuse(action, "its shape does not fit", f"[n, c, h, w], h and w multiples of {block}")
    n, c, h, w = data.shape
    return te.compute(
        (n, c * block * block, h // block, w // block),
        lambda b, f, y, x: data[b, f % c, y * block + f // c // block, x * block + f // c % block],
        name,
    )


_Axes = list[tuple[int, int]]  # position and extent of axes
_Runs = Sequence[tuple[_Axes, _Axes]]


def _joined(extents: Sequence[int]) -> int:
    """Return the extent of axes that become one; a dim stays itself beside extents of 1."""
    wide = [extent for extent in extents if extent != 1]
    return wide[0] if len(wide) == 1 else prod(wide)


def _moved(data: Tensor, shape: Sequence[int], runs: _Runs, name: str) -> Tensor:
    """Return elements in row-major order with another shape, run of axes by run."""

    def body(*i: te.Scalar) -> te.Scalar:
        parts = [part for run in runs for part in _unravelled(*run, i)]
        return data[tuple(parts)]

    return te.compute(shape, body, name)


def _beside_dims(
    old: Sequence[int], new: Sequence[int], action: str
) -> Iterator[tuple[_Axes, _Axes]]:
    """Yield runs as `_groups`, of shapes with dims: a dim is a run by itself, in the same order."""
    left, right = (
        [n for n, extent in enumerate(shape) if isinstance(extent, Dim)] for shape in (old, new)
    )
    dims = [old[n] for n in left]
    known = dims == [new[n] for n in right]
    first = second = 0
    for a, b in (*zip(left, right, strict=False), (len(old), len(new))):
        before, after = list(enumerate(old))[first:a], list(enumerate(new))[second:b]
        if not known or _size(before) != _size(after):
            refuse(
                action,
                f"memory is laid out for the largest {', '.join(str(one) for one in dims)}",
                "each dim as an extent of its own, and as many elements before and behind it",
            )
        yield from _groups(before, after)
        if a < len(old):
            yield [(a, old[a])], [(b, new[b])]
        first, second = a + 1, b + 1


def _groups(before: _Axes, after: _Axes) -> Iterator[tuple[_Axes, _Axes]]:
    """Yield the shortest runs of old and new axes that have equal numbers of elements."""
    while before or after:
        left, right = before[:1], after[:1]
        del before[:1], after[:1]
        while (size := _size(left)) != (wanted := _size(right)):
            side, rest = (left, before) if size < wanted else (right, after)
            side.append(rest.pop(0))
        yield left, right


def _size(axes: _Axes) -> int:
    return prod(extent for _, extent in axes)


def _unravelled(old: _Axes, new: _Axes, index: Sequence[te.Scalar]) -> Iterator[te.Scalar | int]:
    """Yield the indices of a run of old axes for the indices of the same run of new axes."""
    if len(old) == len(new) == 1:
        yield index[new[0][0]] if new[0][1] != 1 else 0
        return
    flat: te.Scalar | int = 0
    for position, extent in new:
        if extent > 1:
            flat = index[position] if isinstance(flat, int) else flat * extent + index[position]
    stride, first = _size(old), True
    for _, extent in old:
        stride //= extent
        part = flat if stride == 1 else flat // stride
        yield 0 if extent == 1 else part if first else part % extent
        first = first and extent == 1
