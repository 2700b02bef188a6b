"""Elements chosen by their values: the largest, those that are not zero, those that differ."""

from collections.abc import Sequence

import numpy as np

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph.graph import Array, Extent, Symbol
from ansorpy.graph.operator import Facts, Operands, hosted


def top_k(
    reads: Sequence[Array], axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Array, Array]:
    """Return the k largest (or smallest) elements along an axis, and their indices."""
    x, k = reads[0], int(reads[1].reshape(-1)[0])
    # Of equal elements the first comes first: sort the reversed axis, and reverse the order.
    source = np.flip(x, axis) if largest else x
    order = np.argsort(source, axis, kind="stable")
    order = np.flip(x.shape[axis] - 1 - order, axis) if largest else order
    picked = np.take(order, np.arange(k), axis).astype(np.int64)
    return np.take_along_axis(x, picked, axis), picked


@hosted("TopK", top_k, "axis", "largest", "sorted")
def _top_k(on: Operands) -> Sequence[Facts]:
    shape, axis, k = list(on.shape(0)), on.attribute("axis", -1), int(on.number(1))
    if not -len(shape) <= axis < len(shape) or not 0 < k <= shape[axis]:
        on.refuse(f"k is {k} on axis {axis} of {shape}", "at most the extent of an axis")
    shape[axis] = k
    return [(tuple(shape), on.dtype(0)), (tuple(shape), "int64")]


def non_zero(reads: Sequence[Array]) -> tuple[Array]:
    """Return the indices of elements that are not zero, one column each."""
    return (np.array(np.nonzero(np.atleast_1d(reads[0])), np.int64),)


@hosted("NonZero", non_zero)
def _non_zero(on: Operands) -> Sequence[Facts]:
    shape = on.shape(0)
    most = int(np.prod(shape))
    return [((max(len(shape), 1), Symbol("nonzero", 0, most)), "int64")]


def compress(reads: Sequence[Array], axis: int | None = None) -> tuple[Array]:
    """Return the parts along an axis for which a condition holds; of all elements without axis."""
    x, condition = reads[0], np.flatnonzero(reads[1])
    return (np.take(x.reshape(-1) if axis is None else x, condition, 0 if axis is None else axis),)


@hosted("Compress", compress, "axis", moves=True)
def _compress(on: Operands) -> Sequence[Facts]:
    shape, axis = on.shape(0), on.attribute("axis")
    if axis is None:
        return [((Symbol("compressed", 0, int(np.prod(shape))),), on.dtype(0))]
    parts: list[Extent] = list(shape)
    parts[axis] = Symbol("compressed", 0, shape[axis])
    return [(tuple(parts), on.dtype(0))]


def unique(reads: Sequence[Array], axis: int | None = None, sorted: int = 1) -> tuple[Array, ...]:
    """Return the different elements, first indices, their place for each element, and counts."""
    x = reads[0]
    values, first, place, count = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    place = place.reshape(-1)
    if not sorted:  # in the order of first occurrence
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values = np.take(values, order, 0 if axis is None else axis)
        first, place, count = first[order], rank[place], count[order]
    return values, *(one.astype(np.int64) for one in (first, place, count))


@hosted("Unique", unique, "axis", "sorted")
def _unique(on: Operands) -> Sequence[Facts]:
    shape, axis = on.shape(0), on.attribute("axis")
    total = int(np.prod(shape)) if axis is None else shape[axis]
    some = Symbol("unique", 0, total)
    parts: list[Extent] = [some] if axis is None else list(shape)
    if axis is not None:
        parts[axis] = some
    return [
        (tuple(parts), on.dtype(0)), ((some,), "int64"), ((total,), "int64"), ((some,), "int64"),
    ]  # fmt: skip


def determinants(reads: Sequence[Array]) -> tuple[Array]:
    """Return the determinants of matrices."""
    return (np.asarray(np.linalg.det(reads[0]), reads[0].dtype),)


@hosted("Det", determinants)
def _det(on: Operands) -> Sequence[Facts]:
    shape = on.shape(0)
    if len(shape) < 2 or shape[-1] != shape[-2] or on.dtype(0) not in ("float32", "float64"):
        on.refuse(f"its input is {on.dtype(0)}{list(shape)}", "square matrices of float32, float64")
    return [(shape[:-2], on.dtype(0))]


def cumulative_product(
    reads: Sequence[Array], exclusive: int = 0, reverse: int = 0
) -> tuple[Array]:
    """Return the products of the elements up to each element along an axis."""
    x, axis = reads[0], int(reads[1].reshape(-1)[0])
    x = np.flip(x, axis) if reverse else x
    products = np.cumprod(x, axis, dtype=x.dtype)
    if exclusive:
        products = np.roll(products, 1, axis)
        first = [slice(None)] * x.ndim
        first[axis] = slice(0, 1)
        products[tuple(first)] = 1
    return (np.flip(products, axis) if reverse else products,)


@hosted("CumProd", cumulative_product, "exclusive", "reverse")
def _cumulative_product(on: Operands) -> Sequence[Facts]:
    axis, rank = int(on.number(1)), len(on.shape(0))
    if not -rank <= axis < rank:
        on.refuse(f"axis {axis} is not an axis of rank {rank}", f"{-rank} to {rank - 1}")
    return [(on.shape(0), on.dtype(0))]


def same_bits(reads: Sequence[Array], to: str = "") -> tuple[Array]:
    """Return the bits of elements as another dtype of their size; bfloat16 as uint16."""
    bits = np.ascontiguousarray(reads[0]).reshape(reads[0].shape)
    return (bits.view("uint16" if to == "bfloat16" else to),)


@hosted("BitCast", same_bits, "to", moves=True)
def _same_bits(on: Operands) -> Sequence[Facts]:
    to = on.attribute("to")
    if to not in SIZE_BYTES or SIZE_BYTES[to] != SIZE_BYTES[on.dtype(0)]:
        on.refuse(f"attribute 'to' is {to}", f"a dtype of the size of {on.dtype(0)}")
    return [(on.shape(0), to)]
