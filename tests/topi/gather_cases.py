"""Cases of operators that read at indices from a tensor; see `cases.py`."""

from typing import Any, Final

import numpy as np

from ansorpy import te, topi
from tests.topi.cases import ANY, SIGNED, Array, Case, Draw, shape, tensor

INDEX: Final = ("int32", "int64", "int8", "uint8")


def places(ids: Array, extent: int) -> Array:
    """Return indices as all gathers take them: from the end if negative, then clamped."""
    wide = ids.astype(np.int64)
    return np.asarray(np.clip(np.where(wide < 0, wide + extent, wide), 0, extent - 1))


def take(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 3), ANY)
    ids = tensor(rng, shape(rng, 0, 2), INDEX, "ids")
    axis = int(rng.integers(-len(x.shape), len(x.shape)))

    def want(x: Array, ids: Array) -> Any:
        return np.take(x, places(ids, x.shape[axis]), axis)

    return topi.take(x, ids, axis), (x, ids), want


def gather_elements(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 3), ANY)
    axis = int(rng.integers(-len(x.shape), len(x.shape)))
    extents = [int(rng.integers(1, n + 1)) for n in x.shape]
    extents[axis] = int(rng.integers(1, 8))
    ids = tensor(rng, extents, INDEX, "ids")

    def want(x: Array, ids: Array) -> Any:
        cut = tuple(slice(n) for n in ids.shape)
        at = axis % x.ndim
        part = x[(*cut[:at], slice(None), *cut[at + 1 :])]
        return np.take_along_axis(part, places(ids, x.shape[axis]), axis)

    return topi.gather_elements(x, ids, axis), (x, ids), want


def gather_nd(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 1, 4), ANY)
    batch = int(rng.integers(0, min(2, len(x.shape))))
    length = int(rng.integers(1, len(x.shape) - batch + 1))
    ids = tensor(rng, (*x.shape[:batch], *shape(rng, 0, 1), length), INDEX, "ids")

    def want(x: Array, ids: Array) -> Any:
        vectors = ids.reshape(-1, length)
        grid = np.indices(ids.shape[:-1])[:batch].reshape(batch, len(vectors))
        at = (places(vectors[:, k], x.shape[batch + k]) for k in range(length))
        return x[(*grid, *at)].reshape(*ids.shape[:-1], *x.shape[batch + length :])

    return topi.gather_nd(x, ids, batch), (x, ids), want


def scattered(x: Array, at: Any, updates: Array, reduction: str) -> Array:
    """Return a copy with one update after the other; `at` yields places, None for no place."""
    out = np.array(x)
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for place, update in zip(at, updates, strict=True):
        if place is not None:
            kept = out[place]
            out[place] = update if reduction == "none" else combine[reduction](kept, update)
    return out


def _inside(index: Any, extent: int) -> int | None:
    wide = int(index) + (extent if index < 0 else 0)
    return wide if 0 <= wide < extent else None


REDUCED: Final = ("none", "none", "add", "mul", "max", "min")


def scatter_elements(rng: Draw) -> Case:
    reduction = str(rng.choice(REDUCED))
    x = tensor(rng, shape(rng, 1, 3), ANY if reduction == "none" else SIGNED)
    axis = int(rng.integers(-len(x.shape), len(x.shape)))
    extents = [int(rng.integers(1, n + 1)) for n in x.shape]
    extents[axis] = int(rng.integers(1, 6))
    ids = tensor(rng, extents, INDEX, "ids")
    updates = te.placeholder(extents, "updates", x.dtype)

    def want(x: Array, ids: Array, updates: Array) -> Any:
        places = []
        for place in np.ndindex(*ids.shape):
            at, found = list(place), _inside(ids[place], x.shape[axis])
            at[axis] = -1 if found is None else found
            places.append(None if found is None else tuple(at))
        return scattered(x, places, updates.ravel(), reduction)

    made = topi.scatter_elements(x, ids, updates, axis, reduction=reduction)
    return made, (x, ids, updates), want


def scatter_nd(rng: Draw) -> Case:
    reduction = str(rng.choice(REDUCED))
    x = tensor(rng, shape(rng, 1, 3), ANY if reduction == "none" else SIGNED)
    length = int(rng.integers(1, len(x.shape) + 1))
    outer = shape(rng, 0, 2)
    ids = tensor(rng, (*outer, length), INDEX, "ids")
    updates = te.placeholder((*outer, *x.shape[length:]), "updates", x.dtype)

    def want(x: Array, ids: Array, updates: Array) -> Any:
        places: list[Any] = []
        for vector in ids.reshape(-1, length):
            at = tuple(_inside(n, extent) for n, extent in zip(vector, x.shape, strict=False))
            places.append(None if None in at else at)
        return scattered(x, places, updates.reshape(-1, *x.shape[length:]), reduction)

    return topi.scatter_nd(x, ids, updates, reduction=reduction), (x, ids, updates), want


def tensor_scatter(rng: Draw) -> Case:
    x = tensor(rng, (*shape(rng, 1, 2), int(rng.integers(1, 8)), *shape(rng, 0, 1)), ANY)
    axis = int(rng.integers(1, len(x.shape)))
    extents = list(x.shape)
    extents[axis] = count = int(rng.integers(1, x.shape[axis] + 1))
    updates, starts = (
        te.placeholder(extents, "updates", x.dtype),
        tensor(rng, x.shape[:1], INDEX, "starts"),
    )
    circular = bool(rng.integers(2))

    def want(x: Array, updates: Array, starts: Array) -> Any:
        out, size = np.moveaxis(x.copy(), axis, 1), x.shape[axis]
        for n, k in np.ndindex(len(x), count):
            row = int(starts[n]) + k
            if circular or 0 <= row < size:
                out[n, row % size] = np.moveaxis(updates, axis, 1)[n, k]
        return np.moveaxis(out, 1, axis)

    made = topi.tensor_scatter(x, updates, starts, axis, circular=circular)
    return made, (x, updates, starts), want
