"""Cases of operators that read at indices from a tensor; see `cases.py`."""

from typing import Any, Final

import numpy as np

from ansorpy import topi
from tests.topi.cases import ANY, Array, Case, Draw, shape, tensor

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
