"""The index of the largest element in a window of lowest elements: never one of the padding."""

import numpy as np
import pytest

from ansorpy import te, topi
from ansorpy.oracle.reference import evaluate
from tests.topi.running import on_every_back_end

LOWEST = {"int8": -128, "uint8": 0, "int16": -(2**15), "int32": -(2**31), "float32": -np.inf}


@pytest.mark.parametrize("dtype", LOWEST)
def test_padding_wins_no_tie(dtype: str) -> None:
    data = np.full((1, 1, 3, 3), LOWEST[dtype], dtype)
    data[0, 0, 2, 2] = 1
    x = te.placeholder(data.shape, "X", dtype)
    largest, index = topi.max_pool_with_index(x, [2, 2], [1, 1], [1, 1, 1, 1])
    flat = te.elementwise(lambda n: n + 0, index, name="flat")  # an index alone is no output
    dag = te.dag([largest, flat], inputs=[x])
    places = [[0, 0, 1, 2], [0, 0, 1, 2], [3, 3, 8, 8], [6, 6, 8, 8]]
    values = np.where(np.equal(places, 8), 1, LOWEST[dtype]).astype(dtype)
    for found in (on_every_back_end(dag, data), evaluate(dag, {"X": data})):
        np.testing.assert_array_equal(found[0], values[None, None])
        np.testing.assert_array_equal(found[1], [[places]])
