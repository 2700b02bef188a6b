"""Elements written at indices that are data."""

from collections.abc import Sequence

import numpy as np

from ansorpy.graph.graph import Array
from ansorpy.graph.operator import Facts, Operands, hosted


def scatter_elements(
    reads: Sequence[Array], axis: int = 0, reduction: str = "none"
) -> tuple[Array]:
    """Return data with updates at indices along an axis."""
    out, indices, updates = reads[0].copy(), reads[1], reads[2]
    grid: list[Array] = [*np.indices(indices.shape)]
    grid[axis] = np.where(indices < 0, indices + out.shape[axis], indices)
    function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    if reduction == "none":
        out[tuple(grid)] = updates
    else:
        function[reduction].at(out, tuple(grid), updates)
    return (out,)


@hosted("ScatterElements", scatter_elements, "axis", "reduction")
def _scatter_elements(on: Operands) -> Sequence[Facts]:
    _reduction(on)
    shape, indices, axis = on.shape(0), on.shape(1), on.attribute("axis", 0)
    if len(indices) != len(shape) or on.shape(2) != indices or not -len(shape) <= axis < len(shape):
        on.refuse(f"indices are {list(indices)} for data {list(shape)}", "equal ranks, an axis")
    return [(shape, on.dtype(0))]


def scatter_nd(reads: Sequence[Array], reduction: str = "none") -> tuple[Array]:
    """Return data with updates at the vectors along the last axis of the indices."""
    out, indices, updates = reads[0].copy(), reads[1], reads[2]
    count = indices.shape[-1]
    rows = indices.reshape(-1, count)
    rows = np.where(rows < 0, rows + np.array(out.shape[:count], indices.dtype), rows)
    place = tuple(rows.T)
    parts = updates.reshape(len(rows), *out.shape[count:])
    function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    if reduction == "none":
        out[place] = parts
    else:
        function[reduction].at(out, place, parts)
    return (out,)


@hosted("ScatterND", scatter_nd, "reduction")
def _scatter_nd(on: Operands) -> Sequence[Facts]:
    _reduction(on)
    shape, indices = on.shape(0), on.shape(1)
    count = indices[-1] if indices else 0
    if not 0 < count <= len(shape) or on.shape(2) != (*indices[:-1], *shape[count:]):
        on.refuse(f"indices are {list(indices)} for data {list(shape)}", "updates that fit")
    return [(shape, on.dtype(0))]


def tensor_scatter(
    reads: Sequence[Array], axis: int = -2, mode: str = "linear", absent: Sequence[int] = ()
) -> tuple[Array]:
    """Return a cache with an update at one place per element of the batch."""
    out, update = reads[0].copy(), reads[1]
    starts = np.zeros(out.shape[0], np.int64) if len(reads) < 3 else reads[2]
    size, length = out.shape[axis], update.shape[axis]
    for n, start in enumerate(starts):
        rows = start + np.arange(length)
        place = [slice(None)] * (out.ndim - 1)
        place[axis if axis < 0 else axis - 1] = rows % size if mode == "circular" else rows
        out[n][tuple(place)] = update[n]
    return (out,)


@hosted("TensorScatter", tensor_scatter, "axis", "mode")
def _tensor_scatter(on: Operands) -> Sequence[Facts]:
    shape, update, axis = on.shape(0), on.shape(1), on.attribute("axis", -2)
    if len(update) != len(shape) or not -len(shape) <= axis < len(shape):
        on.refuse(f"the update is {list(update)} for {list(shape)}", "equal ranks, an axis")
    return [(shape, on.dtype(0))]


def max_unpool(
    reads: Sequence[Array], shape: Sequence[int] = (), kernel_shape: Sequence[int] = (),
    strides: Sequence[int] = (), pads: Sequence[int] = (),
) -> tuple[Array]:  # fmt: skip
    """Return zeros with the elements at their flat indices, in the shape that was pooled."""
    x, indices = reads[0], reads[1]
    rank = x.ndim - 2
    steps, around = list(strides) or [1] * rank, list(pads) or [0] * (2 * rank)
    pooled = [
        (n - 1) * s - around[i] - around[rank + i] + k
        for i, (n, s, k) in enumerate(zip(x.shape[2:], steps, kernel_shape, strict=True))
    ]
    out = np.zeros((*x.shape[:2], *pooled), x.dtype)
    out.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    if len(reads) < 3:
        return (out,)
    wide = np.zeros([int(n) for n in reads[2]], x.dtype)
    wide[tuple(slice(0, n) for n in out.shape)] = out
    return (wide,)


@hosted("MaxUnpool", max_unpool, "kernel_shape", "pads", "strides")
def _max_unpool(on: Operands) -> Sequence[Facts]:
    shape, kernel = on.shape(0), on.attribute("kernel_shape", ())
    rank = len(shape) - 2
    if len(kernel) != rank or on.shape(1) != shape:
        on.refuse(f"kernel_shape is {kernel} for rank {len(shape)}", f"{rank} numbers")
    if on.given(2):
        return [(on.ints(2), on.dtype(0))]
    steps = on.attribute("strides", (1,) * rank)
    pads = on.attribute("pads", (0,) * (2 * rank))
    out = [
        (n - 1) * s - pads[i] - pads[rank + i] + k
        for i, (n, s, k) in enumerate(zip(shape[2:], steps, kernel, strict=True))
    ]
    return [((*shape[:2], *out), on.dtype(0))]


def _reduction(on: Operands) -> None:
    if on.attribute("reduction", "none") not in ("none", "add", "mul", "max", "min"):
        on.refuse(f"reduction is {on.attribute('reduction')!r}", "none, add, mul, max or min")
