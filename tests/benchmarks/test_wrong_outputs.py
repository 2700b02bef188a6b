"""Verification refuses outputs of 16 bits that are 1.05 times the right ones, and zeros."""

import pytest

from benchmarks.wrong_outputs import DTYPES, OPERATORS, accepts, tolerance_share

LIMIT = {"float16": 0.01, "bfloat16": 0.04}  # largest tolerance, as a share of the largest element


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("length", [16, 17, 197, 1024, 4096])
def test_wrong_rows_are_refused_and_right_ones_are_not(name: str, dtype: str, length: int) -> None:
    dag = OPERATORS[name](4, length, dtype=dtype)
    assert [accepts(dag, factor) for factor in (0.0, 1.5, 1.05, 0.95)] == [False] * 4
    assert accepts(dag, 1.0)
    assert tolerance_share(dag) < LIMIT[dtype]
