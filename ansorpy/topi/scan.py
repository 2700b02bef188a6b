"""Cumulative sums, computed by blocks: no element waits for the one before it."""

from typing import Final

from ansorpy import te
from ansorpy.te.dims import Dim
from ansorpy.te.tensor import Tensor
from ansorpy.te.wide import rounds_once
from ansorpy.topi.common import axis_of, refuse, shown, zero

SHORTEST: Final = 16  # elements of a block at least: a vector of float32, on AVX-512


@rounds_once
def cumsum(
    data: Tensor,
    axis: int = -1,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "cumsum",
) -> Tensor:
    """Return the sums of the elements up to each element along an axis (ONNX CumSum).

    Integers wrap around in their own dtype. Of n elements along the axis, each costs about
    n^(1/3) additions, at least 16: the sum of the blocks before it, and a part of its block. Along
    a dim each costs n additions.

    Args:
        exclusive: the element itself is not part of its sum.
        reverse: the sums begin at the end of the axis.

    Raises:
        SpecError: there is no such axis, or the dtype is bool.
    Source: Blelloch, Prefix sums and their applications (1990): sums of blocks, then in blocks.
    """
    action = f"sum {shown(data)} cumulatively"
    at = axis_of(axis, len(data.shape), action)
    if data.dtype == "bool":
        refuse(action, "it is bool", "numbers (use topi.cast)")
    length = data.shape[at]
    if isinstance(length, Dim):
        return _masked(data, at, exclusive, reverse, name)
    block = _block(length)
    if length <= 2 * block:  # blocks would cost two more tensors
        return _prefix(data, at, length, None, exclusive, reverse, name)
    totals = _totals(data, at, block, reverse)
    before = _prefix(totals, at, totals.shape[at], None, True, False, "before")
    return _prefix(data, at, block, before, exclusive, reverse, name)


def _masked(data: Tensor, at: int, exclusive: bool, reverse: bool, name: str) -> Tensor:
    """Return the sums along a dim: each of all elements, of which those outside count as 0."""
    k = te.reduce_axis((0, data.shape[at]), "k")

    def body(*i: te.Scalar) -> te.Reduction:
        less, more = (k, i[at]) if not reverse else (i[at], k)
        inside = less < more if exclusive else less <= more
        element = data[(*i[:at], k, *i[at + 1 :])]
        return te.sum(te.select(inside, element, zero(data.dtype)), axis=k)

    return te.compute(data.shape, body, name)


def _block(length: int) -> int:
    """Return a power of 2 near (2 n)^(1/3): blocks and sums of blocks then cost about the same."""
    block = SHORTEST
    while block**3 < 2 * length:
        block *= 2
    return block


def _element(
    data: Tensor, at: int, i: tuple[te.Scalar, ...], j: te.Scalar, reverse: bool
) -> te.Scalar:
    """Return the element with position `j` along the axis, from the end with `reverse`."""
    place = data.shape[at] - 1 - j if reverse else j
    return data[(*i[:at], place, *i[at + 1 :])]


def _totals(data: Tensor, at: int, block: int, reverse: bool) -> Tensor:
    """Return the sum of each block along the axis."""
    length = data.shape[at]
    k = te.reduce_axis((0, block), "k")

    def body(*i: te.Scalar) -> te.Reduction:
        j = i[at] * block + k
        term = _element(data, at, i, j, reverse)
        return te.sum(te.select(j < length, term, zero(data.dtype)), axis=k)

    return te.compute(
        (*data.shape[:at], -(-length // block), *data.shape[at + 1 :]), body, "totals"
    )


def _prefix(
    data: Tensor,
    at: int,
    block: int,
    before: Tensor | None,
    exclusive: bool,
    reverse: bool,
    name: str,
) -> Tensor:
    """Return the sums within blocks, each from the sum of the blocks before it."""
    length = data.shape[at]
    k = te.reduce_axis((0, block), "k")

    def body(*i: te.Scalar) -> te.Reduction:
        j = length - 1 - i[at] if reverse else i[at]
        first = j // block * block
        inside = k < j % block if exclusive else k <= j % block
        term = _element(data, at, i, first + k, reverse)
        terms = te.select(te.all(inside, first + k < length), term, zero(data.dtype))
        start = None if before is None else before[(*i[:at], j // block, *i[at + 1 :])]
        return te.sum(terms, axis=k, init=start)

    return te.compute(data.shape, body, name)
