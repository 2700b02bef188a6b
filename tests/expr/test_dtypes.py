"""The table of dtypes against NumPy, and against bfloat16 built from its bits."""

import numpy as np
import pytest

from ansorpy.expr.dtypes import (
    DTYPES,
    EXACT_BELOW,
    FLOATS,
    INTEGER_RANGE,
    INTS,
    LARGEST,
    SIZE_BYTES,
    UNDERFLOW,
    UNIT_ROUNDOFF,
)


@pytest.mark.parametrize("dtype", INTS)
def test_an_integer_dtype_is_that_of_numpy(dtype: str) -> None:
    info = np.iinfo(dtype)
    assert INTEGER_RANGE[dtype] == (info.min, info.max)
    assert LARGEST[dtype] == float(info.max)
    assert SIZE_BYTES[dtype] == np.dtype(dtype).itemsize
    assert EXACT_BELOW[dtype] == int(info.max) + 1


@pytest.mark.parametrize("dtype", [name for name in FLOATS if name != "bfloat16"])
def test_a_float_dtype_is_that_of_numpy(dtype: str) -> None:
    info = np.finfo(dtype)
    assert LARGEST[dtype] == float(info.max)
    assert UNIT_ROUNDOFF[dtype] == float(info.eps) / 2
    smallest = info.smallest_subnormal if dtype == "float16" else info.smallest_normal
    assert UNDERFLOW[dtype] == float(smallest)
    assert SIZE_BYTES[dtype] == np.dtype(dtype).itemsize
    kind = np.dtype(dtype).type
    exact = EXACT_BELOW[dtype]
    assert int(kind(exact - 1)) == exact - 1
    assert int(kind(exact + 1)) != exact + 1


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    def value(bits: int) -> float:
        return float(np.array([bits << 16], np.uint32).view(np.float32)[0])

    assert LARGEST["bfloat16"] == value(0x7F7F)
    assert 2 * UNIT_ROUNDOFF["bfloat16"] == value(0x3F81) - 1.0
    assert UNDERFLOW["bfloat16"] == value(0x0080)
    assert EXACT_BELOW["bfloat16"] == 1 / UNIT_ROUNDOFF["bfloat16"]


def test_every_dtype_has_a_size_and_a_largest_value() -> None:
    assert set(SIZE_BYTES) == set(LARGEST) == set(EXACT_BELOW) == set(DTYPES)
    assert set(DTYPES) - set(FLOATS) == set(INTEGER_RANGE)
