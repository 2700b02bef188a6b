"""Inputs to check and time a kernel with, as arrays in the storage form of their dtype.

bfloat16 is stored as uint16 bit patterns.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ansorpy.expr.dtypes import FLOATS, INTEGER_RANGE, UNSIGNED
from ansorpy.rewrites.padding import spared
from ansorpy.te.analysis import index_ranges
from ansorpy.te.dag import ConstantTensor, Dag, Placeholder
from ansorpy.te.tensor_data import storage, tensor_bytes

Array = NDArray[Any]
Inputs = Mapping[str, Array]
Rng = np.random.Generator

INT_SPAN: Final[Mapping[str, tuple[int, int]]] = {
    "int8": (-128, 128), "uint8": (0, 256), "int16": (-1000, 1000), "uint16": (0, 1000),
    "int32": (-1000, 1000), "uint32": (0, 1000), "int64": (-1000, 1000), "uint64": (0, 1000),
}  # fmt: skip
SPARSE: Final = 0.25  # share of nonzero elements, at most
# -0, the smallest subnormal of float32, one in the middle, the smallest normal; and sizes that
# squares and sums of squares still hold.
EDGES: Final = (
    0.0, -0.0, 1.0, -1.0, 1.4e-45, -1e-40, 1.18e-38, 1e-7, -0.5, 2.0, 3e2, -3e2, 1e3, -1e3,
)  # fmt: skip


LARGE: Final = 3e2  # from here on, an edge value is the end of a range


def encode(values: Array, dtype: str) -> Array:
    """Return values in the storage form of `dtype`."""
    if dtype == "bfloat16":
        return (
            np.frombuffer(tensor_bytes(values, dtype), "<u2")
            .reshape(values.shape)
            .astype(np.uint16)
        )
    return np.ascontiguousarray(values.astype(storage(dtype))).reshape(values.shape)


def decode(array: Array, dtype: str) -> Array:
    """Return the numbers in an array of storage form; float64 for floats."""
    if dtype == "bfloat16":
        wide = array.astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    return array.astype(np.float64) if dtype in FLOATS else array


def random_inputs(dag: Dag, rng: Rng) -> dict[str, Array]:
    """Return floats uniform in [-1, 1), 8-bit integers in their whole range, others below 1000."""
    return _each(dag, rng, lambda shape: rng.uniform(-1.0, 1.0, shape))


def positive_inputs(dag: Dag, rng: Rng) -> dict[str, Array]:
    """Return floats uniform in [0.5, 1.5): for logarithms, roots and divisors."""
    return _each(dag, rng, lambda shape: rng.uniform(0.5, 1.5, shape))


def sparse_inputs(dag: Dag, rng: Rng) -> dict[str, Array]:
    """Return mostly zeros: few terms of a sum are rounded, so a lost or a coarse one shows.

    About four products of two elements are left in the longest sum.
    """
    share = min(SPARSE, 2.0 / longest_sum(dag) ** 0.5)

    def draw(shape: tuple[int, ...]) -> Array:
        return np.where(rng.random(shape) < share, rng.uniform(-1.0, 1.0, shape), 0.0)

    return _each(dag, rng, draw)


def edge_inputs(dag: Dag, rng: Rng) -> dict[str, Array]:
    """Return zeros of both signs, subnormals, and sizes up to 1000, among ordinary values.

    The largest number of a row is far above the second: exp overflows if a maximum misses it.
    """

    def draw(shape: tuple[int, ...]) -> Array:
        odd = rng.choice(np.array(EDGES), shape)
        odd = np.where(np.abs(odd) >= LARGE, odd * rng.random(shape) ** 4, odd)
        return np.where(rng.random(shape) < 0.3, odd, rng.uniform(-1.0, 1.0, shape))

    return _each(dag, rng, draw)


def ordered_inputs(dag: Dag, rising: bool) -> dict[str, Array]:
    """Return rising negative numbers, or falling positive numbers, in row-major order.

    The extreme of every reduction is then its first or its last element, and it never lies
    beyond zero: a lost tail and a wrong identity show.
    """

    spans = index_spans(dag)

    def draw(node: Placeholder) -> Array:
        ramp = np.linspace(-1.0, -0.5, prod(node.shape)).reshape(node.shape)
        if node.dtype in FLOATS:
            return encode(ramp if rising else -ramp, node.dtype)
        low, high = (0, 2) if node.dtype == "bool" else spans.get(node.name, INT_SPAN[node.dtype])
        if low < 0:
            values = np.floor(ramp * -low) if rising else np.ceil(-ramp * (high - 1))
        else:
            values = np.floor((ramp + 1.0 if rising else -ramp) * (high - 1))
        return encode(values, node.dtype)

    return {node.name: draw(node) for node in dag.placeholders}


def with_nans(dag: Dag, inputs: Inputs, rng: Rng) -> dict[str, Array]:
    """Return the inputs with a NaN in about every third row, at least two in each tensor.

    No NaN goes to elements that padding multiplies by zero: a kernel may omit these products.
    """
    free = spared(dag)

    def spoil(node: Placeholder) -> Array:
        array = inputs[node.name]
        if node.dtype not in FLOATS or not array.size or node.name in free:
            return array
        rows = array.size // array.shape[-1] if array.shape else 1
        count = min(array.size, max(2, rows // 3))
        flat = array.flatten()
        flat[rng.choice(flat.size, count, replace=False)] = encode(np.array(np.nan), node.dtype)
        return flat.reshape(array.shape)

    return {node.name: spoil(node) for node in dag.placeholders}


def integer_inputs(dag: Dag, rng: Rng, magnitude: int) -> dict[str, Array]:
    """Return integers from -magnitude to magnitude (unsigned ones positive; bool 0 or 1).

    None is 0: each term of a sum of products counts.
    """

    def draw(node: Placeholder) -> Array:
        if node.dtype == "bool":
            return rng.integers(0, 2, node.shape).astype(bool)
        sizes = rng.integers(1, magnitude + 1, node.shape)
        signs = 1 if node.dtype in UNSIGNED else rng.choice([-1, 1], node.shape)
        return encode(sizes * signs, node.dtype)

    return {node.name: draw(node) for node in dag.placeholders}


def longest_sum(dag: Dag) -> int:
    """Return how many terms the longest sum of a Dag has, at least 1."""
    sums = (node for node in dag.computes if node.combiner == "sum")
    return max((prod(axis.extent for axis in node.reduce_axes) for node in sums), default=1)


def constants(dag: Dag) -> dict[str, Array]:
    """Return the constant tensors of a Dag in storage form."""
    arrays = {}
    for node in dag.nodes:
        if isinstance(node, ConstantTensor):
            flat = np.frombuffer(node.data, storage(node.dtype).newbyteorder("<"))
            assert flat.size == prod(node.shape)
            arrays[node.name] = flat.astype(storage(node.dtype)).reshape(node.shape)
    return arrays


def index_spans(dag: Dag) -> dict[str, tuple[int, int]]:
    """Return, by input that chooses indices, the first number to draw and the one after the last.

    A third of the numbers are no index, or count from the end: they show that a kernel clamps.
    """
    found = {}
    for name, (low, high) in index_ranges(dag).items():
        beyond = (high - low + 1) // 4 + 1
        first, last = INTEGER_RANGE[dag.node(name).dtype]
        found[name] = max(first, low - beyond), min(last, high + beyond) + 1
    return found


def _each(dag: Dag, rng: Rng, floats: Callable[[tuple[int, ...]], Array]) -> dict[str, Array]:
    spans = index_spans(dag)

    def draw(node: Placeholder) -> Array:
        if node.dtype == "bool":
            return rng.integers(0, 2, node.shape).astype(bool)
        if node.name in spans:
            return rng.integers(*spans[node.name], node.shape).astype(storage(node.dtype))
        if node.dtype in INT_SPAN:
            return rng.integers(*INT_SPAN[node.dtype], node.shape).astype(storage(node.dtype))
        return encode(np.asarray(floats(node.shape)), node.dtype)

    return {node.name: draw(node) for node in dag.placeholders}
