"""Waves of shared memory: words of one bank take turns."""

import numpy as np
import pytest

from ansorpy.expr.banks import waves


@pytest.mark.parametrize(
    ("size_bytes", "stride_bytes", "expected"),
    [
        (4, 4, 1),
        (4, 0, 1),  # all threads load one word
        (4, 8, 2),
        (4, 128, 32),
        (4, 132, 1),
        (1, 1, 1),
        (8, 8, 2),  # two halves of a warp
        (16, 16, 4),  # four quarters
        (16, 32, 8),
        (16, 128, 32),
        (16, 144, 4),
        (16, 0, 4),
    ],
)
def test_waves_of_a_request(size_bytes: int, stride_bytes: int, expected: int) -> None:
    assert waves(np.arange(32) * stride_bytes, size_bytes) == expected


def test_few_threads_make_few_waves() -> None:
    assert waves(np.arange(8) * 16, 16) == 1
