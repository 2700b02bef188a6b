"""Operators of the language on arrays: float64 for floats, wrapping integers.

Only inputs are rounded to their float dtype; a kernel's rounding belongs to the error bound, not
to the value. An integer is held in its own NumPy dtype, so that arithmetic wraps.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ansorpy.expr.dtypes import FLOATS, INTS
from ansorpy.expr.functions import BINARY_FUNCTIONS
from ansorpy.te.tensor_data import Array


def meaning(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype in which the oracle holds values of `dtype`."""
    return np.dtype(np.float64 if dtype in FLOATS else dtype)


def cast(values: Array, dtype: str) -> Array:
    """Return values as `dtype`: float to integer truncates towards zero, integers wrap.

    A float beyond the range of the integer has no defined meaning in a kernel either.
    """
    if dtype == "bool":
        truth: Array = np.not_equal(values, 0)
        return truth
    if dtype in INTS and values.dtype.kind == "f":
        safe = np.clip(np.nan_to_num(np.trunc(values)), -(2.0**63), 2.0**63 - 2.0**10)
        low = safe.astype(np.int64)
        if dtype == "uint64":
            return np.where(values >= 2.0**63, _above(values), low.astype(np.uint64))
        values = low
    out: Array = values.astype(meaning(dtype))
    return out


def _above(values: Array) -> Array:
    """Return floats from 2**63 on as uint64, and others as any number."""
    rest = np.clip(np.nan_to_num(values) - 2.0**63, 0, 2.0**63 - 2.0**10)
    return np.trunc(rest).astype(np.uint64) + np.uint64(2**63)


BINARY: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum,
    **{name: function.meaning for name, function in BINARY_FUNCTIONS.items()},
    "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
