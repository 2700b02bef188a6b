"""Stand-ins for the absent values of weights, so that a model can be run and compared.

Scale: sums of products keep the size of their operands, and functions that need positive numbers
(square roots of variances, divisions by scales) get them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod, sqrt
from typing import Final

import numpy as np

from ansorpy.expr.dtypes import FLOATS
from ansorpy.graph.graph import Array, Graph

VECTOR: Final = (0.5, 1.5)  # range of a weight of one axis: a bias, a scale, a variance
BYTES: Final = {"int8": (-127, 128), "uint8": (0, 256)}  # ranges of quantised weights
INTEGERS: Final = (0, 2)  # range of other integers, which may index tables


def with_drawn_weights(graph: Graph, seed: int) -> Graph:
    """Return a graph with values of absent weights, which follow from seed, number and shape.

    They are drawn anew at each load, so that none stays in memory.
    """
    weights = {
        name: weight if weight.load is not None
        else replace(weight, load=partial(drawn, weight.shape, weight.dtype, (seed, number)))
        for number, (name, weight) in enumerate(graph.weights.items())
    }  # fmt: skip
    return replace(graph, weights=weights)


def drawn(shape: tuple[int, ...], dtype: str, seed: Sequence[int]) -> Array:
    """Return random values of a weight; bfloat16 as uint16 bit patterns."""
    rng = np.random.default_rng(list(seed))
    if dtype not in FLOATS:
        low, high = BYTES.get(dtype, INTEGERS)
        return rng.integers(low, high, shape).astype(dtype)
    if sum(extent > 1 for extent in shape) < 2:
        values = rng.uniform(*VECTOR, shape).astype(np.float32)
    else:
        fan_in = max(1, prod(shape) // shape[0])  # elements of a filter, or of a row
        values = rng.standard_normal(shape, np.float32) / np.float32(sqrt(fan_in))
    if dtype == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype)
