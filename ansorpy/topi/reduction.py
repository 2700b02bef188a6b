"""Reductions over any axes: all of them unless `axis` names some, as in NumPy.

With `keepdims` a reduced axis stays, with extent 1. `axes` are the names of the axes of the
data, for readers of schedules; the reduced one is called k unless they are given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod as product
from typing import Final, Protocol, TypeVar

from ansorpy import te
from ansorpy.te.dims import Dim
from ansorpy.te.tensor import Tensor
from ansorpy.te.wide import rounds_once
from ansorpy.topi.common import LETTERS, axes_of, refuse, require_float, shown

Axes = int | Sequence[int] | None
Reduced = TypeVar("Reduced", te.Reduction, te.ArgReduction)
COMBINERS: Final[Mapping[str, Callable[[te.Scalar, te.Axes], te.Reduction]]] = {
    "sum": te.sum, "max": te.max, "min": te.min, "prod": te.prod,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Over:
    """The kept and the reduced axes of a tensor."""

    shape: tuple[int, ...]
    names: tuple[str, ...]  # names of the axes of the result
    kept: tuple[int, ...]  # axes of the data, one per axis of the result; -1 for an extent of 1
    taps: Mapping[int, te.ReduceAxis]  # by axis of the data

    @staticmethod
    def of(
        data: Tensor, axis: Axes, keepdims: bool, action: str, axes: Sequence[str] | None = None
    ) -> "Over":
        """Return the kept and the reduced axes of a reduction of `data` over `axis`."""
        rank = len(data.shape)
        reduced = axes_of(axis, rank, f"reduce {shown(data)} by {action}")
        names = [axes[i] if axes else "k" if reduced == (i,) else LETTERS[i] for i in range(rank)]
        stays = [i for i in range(rank) if keepdims or i not in reduced]
        return Over(
            tuple(1 if i in reduced else data.shape[i] for i in stays),
            tuple(LETTERS[i] if i in reduced else names[i] for i in stays),
            tuple(-1 if i in reduced else i for i in stays),
            {i: te.reduce_axis((0, data.shape[i]), names[i]) for i in reduced},
        )

    def place(self, index: Sequence[te.Scalar], reverse: bool = False) -> tuple[te.Scalar, ...]:
        """Return the index of the data for an index of the result."""
        taps = {i: tap.extent - 1 - tap if reverse else tap for i, tap in self.taps.items()}
        found = {**dict(zip(self.kept, index, strict=True)), **taps}
        return tuple(found[i] for i in sorted(found) if i >= 0)

    def body(
        self, data: Tensor, fn: Callable[..., Reduced], reverse: bool = False
    ) -> Callable[..., Reduced]:
        """Return the body of the reduction, where `fn` takes an element and the reduced axes.

        With `reverse` the last element of the data along the reduced axes is the first.
        """
        return lambda *i: fn(data[self.place(i, reverse)], tuple(self.taps.values()))


class Reducer(Protocol):
    """A reduction of a tensor to a tensor of the same dtype."""

    def __call__(
        self,
        data: Tensor,
        axis: Axes = None,
        *,
        keepdims: bool = False,
        name: str = ...,
        axes: Sequence[str] | None = None,
    ) -> Tensor:
        """Return the tensor without the reduced axes."""
        ...


def _reducer(combiner: str, doc: str) -> Reducer:
    def apply(
        data: Tensor,
        axis: Axes = None,
        *,
        keepdims: bool = False,
        name: str = combiner,
        axes: Sequence[str] | None = None,
    ) -> Tensor:
        return _reduce(data, axis, COMBINERS[combiner], keepdims, name, axes)

    apply.__name__ = apply.__qualname__ = combiner
    apply.__doc__ = f"{doc}\n\nRaises:\n    SpecError: there is no such axis, or the dtype is bool."
    return apply


sum = _reducer("sum", "Return the sum over axes; integers wrap around in their own dtype.")
prod = _reducer("prod", "Return the product over axes; integers wrap around in their own dtype.")
max = _reducer("max", "Return the largest element over axes.")
min = _reducer("min", "Return the smallest element over axes.")


@rounds_once
def mean(data: Tensor, axis: Axes = None, *, keepdims: bool = False, name: str = "mean") -> Tensor:
    """Return the mean over axes of floats; the elements along dims are counted by a call.

    Raises:
        SpecError: there is no such axis, or the dtype is not a float.
    """
    require_float(data, f"average {shown(data)}")
    reduced = axes_of(axis, len(data.shape), f"average {shown(data)}")
    total = sum(data, reduced, keepdims=keepdims, name="total")
    dims = [i for i in reduced if isinstance(data.shape[i], Dim)]
    share = 1 / product(data.shape[i] for i in reduced if i not in dims)
    if not dims:
        return te.elementwise(lambda x: x * share, total, name=name)
    taps = [te.reduce_axis((0, data.shape[i]), f"c{i}") for i in dims]
    ones = te.const(1.0, data.dtype)
    count = te.compute(total.shape, lambda *i: te.sum(ones, taps), "count")
    return te.elementwise(
        lambda x, n: x / n if share == 1 else x * share / n, total, count, name=name
    )


@rounds_once
def norm(
    data: Tensor,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    name: str = "norm",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return the square root of the sum of squares over axes of floats (Frobenius norm).

    Raises:
        SpecError: there is no such axis, or the dtype is not a float.
    """
    require_float(data, f"compute the norm of {shown(data)}")

    def squares(value: te.Scalar, over: te.Axes) -> te.Reduction:
        return te.sum(value * value, over)

    over = Over.of(data, axis, keepdims, name, axes)
    if not over.taps:
        return te.elementwise(te.abs, data, name=name)
    total = te.compute(over.shape, over.body(data, squares), "squares", axes=over.names)
    return te.elementwise(te.sqrt, total, name=name, axes=over.names)


@rounds_once
def logsumexp(
    data: Tensor, axis: Axes = None, *, keepdims: bool = False, name: str = "logsumexp"
) -> Tensor:
    """Return log(sum of exp(x)) over axes of floats, computed without overflow.

    It is -inf where all elements are, as in a row that a mask excludes.

    Raises:
        SpecError: there is no such axis, or the dtype is not a float.
    """
    require_float(data, f"compute {name} of {shown(data)}")
    over = Over.of(data, axis, keepdims, name)
    if not over.taps:
        return te.elementwise(lambda x: x, data, name=name)
    largest = max(data, axis, keepdims=keepdims, name="maximum")
    low, high = te.min_value(data.dtype), te.max_value(data.dtype)
    # A finite number to subtract: inf - inf is NaN.
    base = te.elementwise(lambda x: te.minimum(te.maximum(x, low), high), largest, name="base")

    def powers(*i: te.Scalar) -> te.Reduction:
        return te.sum(te.exp(data[over.place(i)] - base[i]), tuple(over.taps.values()))

    total = te.compute(over.shape, powers, "total", axes=over.names)
    return te.elementwise(lambda x, y: te.log(x) + y, total, base, name=name)


def argmax(
    data: Tensor,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    select_last_index: bool = False,
    name: str = "argmax",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return the int64 index of the largest element; the first of equal ones, as in NumPy.

    Over several axes the index counts in row-major order. With `select_last_index` it names
    the last of equal elements (ONNX ArgMax).

    Raises:
        SpecError: there is no such axis, or the dtype is bool.
    """
    return _index(
        te.argmax, data, Over.of(data, axis, keepdims, name, axes), select_last_index, name
    )


def argmin(
    data: Tensor,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    select_last_index: bool = False,
    name: str = "argmin",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return the int64 index of the smallest element; the rest is as in `argmax`.

    Raises:
        SpecError: there is no such axis, or the dtype is bool.
    """
    return _index(
        te.argmin, data, Over.of(data, axis, keepdims, name, axes), select_last_index, name
    )


def _reduce(
    data: Tensor,
    axis: Axes,
    fn: Callable[[te.Scalar, te.Axes], te.Reduction],
    keepdims: bool,
    name: str,
    axes: Sequence[str] | None,
) -> Tensor:
    over = Over.of(data, axis, keepdims, name, axes)
    if not over.taps:  # a reduction over no axis
        return te.elementwise(lambda x: x, data, name=name)
    return te.compute(over.shape, over.body(data, fn), name, axes=over.names)


def _index(
    fn: Callable[[te.Scalar, te.Axes], te.ArgReduction],
    data: Tensor,
    over: Over,
    last: bool,
    name: str,
) -> Tensor:
    if not over.taps:
        refuse(f"compute {name} of {shown(data)}", "no axis is reduced", "one axis or more")
    body = over.body(data, fn, reverse=last)
    if not last:
        return te.compute(over.shape, body, name, axes=over.names)[1]
    _, found = te.compute(over.shape, body, f"{name}_reversed", axes=over.names)
    count = product(data.shape[i] for i in over.taps)
    return te.elementwise(lambda at: count - 1 - at, found, name=name, axes=over.names)
