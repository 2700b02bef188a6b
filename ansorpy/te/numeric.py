"""What the operators of the language mean on arrays: float64 for floats, wrapping integers.

A float of any width is held as float64 (an input is first rounded to its dtype, nothing else is
rounded); an integer is held in its own NumPy dtype, so that arithmetic wraps; bool is bool.
float16 and bfloat16 are storage types: computed in wider registers and rounded when stored,
which belongs to the error bound, not to the value. bfloat16 arrays come in as uint16 bit
patterns, or as any float array that is rounded to nearest even.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ansorpy.errors import SpecError
from ansorpy.expr.expr import FLOATS, INTS
from ansorpy.te.dag import ConstantTensor
from ansorpy.te.erf import erf

Array = NDArray[Any]
FloatArray = NDArray[np.floating[Any]]

UNIT_ROUNDOFF: Final[Mapping[str, float]] = {
    "float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53,
}  # fmt: skip
# The largest absolute error of a result that underflows. Machines may flush subnormals to
# zero, except in float16, which is only stored.
UNDERFLOW: Final[Mapping[str, float]] = {
    "float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022,
}  # fmt: skip

LARGEST: Final[Mapping[str, float]] = {
    "float16": 65504.0, "bfloat16": float.fromhex("0x1.fep127"),
    "float32": float(np.finfo(np.float32).max), "float64": float(np.finfo(np.float64).max),
    "bool": 1.0, **{name: float(np.iinfo(name).max) for name in INTS},
}  # fmt: skip


def meaning(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype in which values of `dtype` are held here."""
    return np.dtype(np.float64 if dtype in FLOATS else dtype)


def rounded(values: Array, dtype: str) -> FloatArray:
    """Return float values rounded to the float `dtype`, as float64."""
    if dtype == "bfloat16":
        return _from_bits(_bits(values))
    return np.asarray(values).astype(dtype).astype(np.float64)


def given(values: object, dtype: str, place: str) -> Array:
    """Return an array from outside in the form described above.

    Raises:
        SpecError: it holds something that `dtype` does not.
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


def stored(values: Array, dtype: str) -> bytes:
    """Return the C-ordered little-endian bytes of a tensor; SpecError if it does not fit."""
    array = given(values, dtype, "constant tensor")
    packed = _bits(array) if dtype == "bfloat16" else array.astype(dtype)
    return packed.astype(packed.dtype.newbyteorder("<")).tobytes()


def loaded(node: ConstantTensor) -> Array:
    """Return the values of a constant tensor in the form described above."""
    storage = np.dtype("uint16" if node.dtype == "bfloat16" else node.dtype).newbyteorder("<")
    array = np.frombuffer(node.data, storage).reshape(node.shape)
    return given(array.astype(storage.newbyteorder("=")), node.dtype, node.name)


def cast(values: Array, dtype: str) -> Array:
    """Return values as `dtype`: float to integer truncates towards zero, integers wrap.

    A float beyond the range of the integer has no defined meaning in a kernel either.
    """
    if dtype == "bool":
        truth: Array = np.not_equal(values, 0)
        return truth
    if dtype in INTS and values.dtype.kind == "f":
        safe = np.clip(np.nan_to_num(np.trunc(values)), -(2.0**62), 2.0**62)
        values = safe.astype(np.int64)
    out: Array = values.astype(meaning(dtype))
    return out


def _bits(values: Array) -> NDArray[np.uint16]:
    """Return the bfloat16 bit patterns nearest to `values`, ties to even."""
    single = np.ascontiguousarray(values, np.float32).reshape(np.shape(values))
    wide = single.view(np.uint32).astype(np.uint64)
    nearest = (wide + 0x7FFF + ((wide >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(single), 0x7FC0, nearest).astype(np.uint16)


def _from_bits(bits: Array) -> FloatArray:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _sigmoid(x: FloatArray) -> FloatArray:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


BINARY: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum,
    "pow": np.power, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip

FUNCTION: Final[Mapping[str, Callable[[Array], Array]]] = {
    "neg": np.negative, "not": np.logical_not, "abs": np.abs, "floor": np.floor,
    "ceil": np.ceil, "exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": erf,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x), "sigmoid": _sigmoid,
}  # fmt: skip
