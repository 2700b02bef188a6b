"""Arrays as values of tensors: NumPy has no bfloat16, and bytes have an order.

A float of any width is held as float64, rounded to its dtype. An integer is held in its own NumPy
dtype, bool is bool. bfloat16 arrays come in as uint16 bit patterns, or as any float array, which
is rounded to nearest even.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import FLOATS, INTS
from ansorpy.te.dag import ConstantTensor

Array = NDArray[Any]
FloatArray = NDArray[np.floating[Any]]


def storage(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype in which arrays of `dtype` lie in memory."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def rounded(values: Array, dtype: str) -> FloatArray:
    """Return float values rounded to the float `dtype`, as float64."""
    if dtype == "bfloat16":
        return _from_bits(_bits(values))
    return np.asarray(values).astype(dtype).astype(np.float64)


def checked_array(values: object, dtype: str, place: str) -> Array:
    """Return an array of a caller in the form described above.

    Raises:
        SpecError: `dtype` does not hold a value of the array.
    """
    array = np.asarray(values)
    kind = array.dtype.kind
    if dtype == "bool":
        fits = kind == "b"
    elif dtype in INTS:
        fits = kind in "iu" and bool(np.all(array == array.astype(dtype)))
    else:
        fits = kind in "iuf"
    if not fits:
        raise SpecError(f"{place}: a {array.dtype} array has values that {dtype} does not hold")
    if dtype == "bfloat16" and array.dtype == np.uint16:
        return _from_bits(array)
    if dtype in FLOATS:
        with np.errstate(over="ignore"):
            return rounded(array, dtype)
    return array.astype(dtype)


def tensor_bytes(values: Array, dtype: str) -> bytes:
    """Return the C-ordered little-endian bytes of a tensor; SpecError if it does not fit."""
    array = checked_array(values, dtype, "constant tensor")
    packed = _bits(array) if dtype == "bfloat16" else array.astype(dtype)
    return packed.astype(packed.dtype.newbyteorder("<")).tobytes()


def constant_array(node: ConstantTensor) -> Array:
    """Return the values of a constant tensor in the form described above."""
    held = storage(node.dtype)
    array = np.frombuffer(node.data, held.newbyteorder("<")).reshape(node.shape)
    return checked_array(array.astype(held), node.dtype, node.name)


def _bits(values: Array) -> NDArray[np.uint16]:
    """Return the bfloat16 bit patterns nearest to `values`, ties to even."""
    single = np.ascontiguousarray(values, np.float32).reshape(np.shape(values))
    wide = single.view(np.uint32).astype(np.uint64)
    nearest = (wide + 0x7FFF + ((wide >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(single), 0x7FC0, nearest).astype(np.uint16)


def _from_bits(bits: Array) -> FloatArray:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
