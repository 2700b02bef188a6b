"""Cases of samples at positions that are data; see `cases.py`."""

from typing import Any, Final

import numpy as np
import scipy.ndimage

from ansorpy import te, topi
from tests.topi.cases import FLOATS, Array, Case, Draw, tensor

BORDERS: Final = {"zeros": "grid-constant", "border": "nearest"}


def grid_sample(rng: Draw) -> Case:
    """Linear samples, against SciPy; the positions are some way beyond the borders."""
    rank = int(rng.integers(1, 4))
    extents = tuple(int(n) for n in rng.integers(2, 6, rank))
    x = tensor(rng, (2, 3, *extents), FLOATS)
    grid = te.placeholder((2, *(int(n) for n in rng.integers(1, 4, rank)), rank), "grid", x.dtype)
    padding, align = str(rng.choice(("zeros", "border", "reflection"))), bool(rng.integers(2))
    border: Any = BORDERS.get(padding, "mirror" if align else "reflect")

    def want(x: Array, grid: Array) -> Any:
        at = [
            (grid[..., rank - 1 - d] * 2 + 1) * ((n - 1) / 2 if align else n / 2)
            - (0 if align else 0.5)
            for d, n in enumerate(extents)
        ]
        parts = [
            [scipy.ndimage.map_coordinates(plane, [axis[n] for axis in at], order=1, mode=border)
             for plane in x[n]]
            for n in range(2)
        ]  # fmt: skip
        return np.array(parts)

    wide = topi.multiply(grid, 2.0)
    made = topi.grid_sample(x, wide, padding=padding, align_corners=align)
    return made, (x, grid), want


def reverse_sequence(rng: Draw) -> Case:
    x = tensor(rng, (int(rng.integers(1, 6)), 4, 2), FLOATS)
    raw = te.placeholder((4,), "lengths", "int64")
    steps = x.shape[0]
    lengths = topi.mod(raw, steps + 1)

    def want(x: Array, raw: Array) -> Any:
        out = x.copy()
        for b, length in enumerate(raw % (steps + 1)):
            out[:length, b] = x[:length, b][::-1]
        return out

    return topi.reverse_sequence(x, lengths), (x, raw), want


def col2im(rng: Draw) -> Case:
    block, stride, dilation = (tuple(int(n) for n in rng.integers(1, 3, 2)) for _ in range(3))
    padding = tuple(int(n) for n in rng.integers(0, 2, 4))
    image = tuple(int(n) for n in rng.integers(3, 7, 2))
    counts = [
        (n + padding[d] + padding[2 + d] - dilation[d] * (block[d] - 1) - 1) // stride[d] + 1
        for d, n in enumerate(image)
    ]
    x = tensor(rng, (2, 3 * block[0] * block[1], counts[0] * counts[1]), FLOATS)

    def want(x: Array) -> Any:
        wide = np.zeros((2, 3, *(image[d] + padding[d] + padding[2 + d] for d in range(2))))
        parts = x.reshape(2, 3, *block, *counts)
        for a, b in np.ndindex(*block):
            for i, j in np.ndindex(*counts):
                row, column = i * stride[0] + a * dilation[0], j * stride[1] + b * dilation[1]
                wide[:, :, row, column] += parts[:, :, a, b, i, j]
        return wide[:, :, padding[0] : padding[0] + image[0], padding[1] : padding[1] + image[1]]

    made = topi.col2im(x, image, block, stride=stride, padding=padding, dilation=dilation)
    return made, (x,), want
