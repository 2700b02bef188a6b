"""Elements written at indices that are data."""

from collections.abc import Sequence

import numpy as np

from ansorpy.graph.graph import Array
from ansorpy.graph.operator import Facts, Operands, hosted


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


@hosted("MaxUnpool", max_unpool, "kernel_shape", "pads", "strides", moves=True)
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
