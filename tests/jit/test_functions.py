"""Thirty functions of NumPy names, against NumPy, by the interpreter of their traces."""

from typing import Any

import numpy as np
import pytest

import ansorpy
from tests.jit.functions import FUNCTIONS

# Shares of the largest element: sums of another order, and fewer roundings of float16.
SHARES = {"float32": 1e-5, "float16": 1e-2}


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, tuple | list):
        return [one for part in tree for one in leaves(part)]
    if isinstance(tree, dict):
        return [one for part in tree.values() for one in leaves(part)]
    return [tree]


def check(made: Any, wanted: Any, share: float) -> None:
    assert type(made) is type(wanted)
    for one, right in zip(leaves(made), leaves(wanted), strict=True):
        assert np.asarray(one).dtype == np.asarray(right).dtype
        assert np.shape(one) == np.shape(right)
        assert type(one) is type(right)
        largest = np.abs(np.asarray(right).astype(np.float64)).max()
        np.testing.assert_allclose(
            np.asarray(one).astype(np.float64), np.asarray(right).astype(np.float64),
            rtol=0, atol=share * largest if np.asarray(right).dtype.kind == "f" else 0,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_traces_mean_the_function(name: str, dtype: str) -> None:
    function, signatures = FUNCTIONS[name]
    traced = ansorpy.jit(function)
    rng = np.random.default_rng(0)
    for shapes in signatures:
        arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
        check(traced.lower(*arrays).evaluate(arrays), function(*arrays), SHARES[dtype])
    assert len(traced.status()) == len(signatures)
