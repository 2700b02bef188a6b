"""Division and remainder of integers, by all divisors: the least one is its own absolute value."""

import numpy as np
import pytest

from ansorpy import te, topi
from ansorpy.oracle.reference import evaluate
from tests.night import NIGHT
from tests.topi.running import on_every_back_end

INT8 = np.arange(-128, 128, dtype=np.int8)
OPERATORS = (topi.truncate_divide, topi.truncate_mod, topi.mod)


def edges(dtype: str) -> np.ndarray:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return np.array([low, low + 1, low // 2, -3, -1, 0, 1, 2, high // 2, high], dtype)


def exact(a: int, b: int, dtype: str) -> list[int]:
    """Return quotient and both remainders in Python's own arithmetic; 0, a and 0 for a divisor 0.

    The remainder of truncation is a - quotient * b, thus a for b = 0.
    """
    quotient = 0 if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
    found = [quotient, a - quotient * b, 0 if b == 0 else a % b]
    return [int(np.array(one).astype(dtype)) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [edges("int32"), *(pytest.param(one, marks=NIGHT) for one in (edges("int64"), INT8))],
    ids=lambda values: f"{values.dtype}-{len(values)}",
)
def test_every_divisor_divides(values: np.ndarray) -> None:
    dtype = str(values.dtype)
    a, b = (np.ascontiguousarray(one.ravel()) for one in np.meshgrid(values, values))
    x, y = te.placeholder(a.shape, "X", dtype), te.placeholder(a.shape, "Y", dtype)
    results = [operator(x, y, name=f"R{n}") for n, operator in enumerate(OPERATORS)]
    dag = te.dag(results, inputs=[x, y])
    found, oracle = on_every_back_end(dag, a, b), evaluate(dag, {"X": a, "Y": b})
    wanted = np.array([exact(int(i), int(j), dtype) for i, j in zip(a, b, strict=True)], dtype).T
    for kernel, reference, want in zip(found, oracle, wanted, strict=True):
        np.testing.assert_array_equal(reference, want)
        np.testing.assert_array_equal(kernel, want)
