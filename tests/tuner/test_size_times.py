"""Times of a delivered kernel at single sizes: which sizes, and when there is no time for them."""

from collections.abc import Sequence
from typing import Any

import pytest

from ansorpy.measure.outcome import Failed
from ansorpy.records import Race, SizeTimes
from ansorpy.tuner.race.size_times import MOST_S, sizes_to_time, timed_by_size
from tests.tuner.ranged_task import with_parts

ROWS = "def f(float(M in 1..512, 4) A) -> (B) { B(i,j) = A(i,j) + 1 }"
TWO = "def f(float(M in 1..64, L in 4..16 step 4) A) -> (B) { B(i,j) = A(i,j) + 1 }"


@pytest.mark.parametrize(
    ("text", "most", "sizes"),
    [
        (ROWS, 2, [1, 2, 8, 9, 64, 65, 512]),
        (ROWS, 3, [1, 2, 5, 8, 9, 36, 64, 65, 288, 512]),
        (ROWS.replace("1..512", "1..512 @ 1..8: 0.9 + 512: 0.1"), 5, [1, 2, 3, 4, 6, 8, 512]),
        (ROWS.replace("1..512", "8..32 step 8"), 5, [8, 16, 24, 32]),
        (ROWS.replace("M in 1..512", "3"), 5, []),
    ],
)
def test_sizes_represent_each_range(text: str, most: int, sizes: list[int]) -> None:
    assert [size for (size,) in sizes_to_time(with_parts(text), most)] == sizes


def test_several_dims_grow_together() -> None:
    sizes = [(1, 4), (16, 4), (32, 8), (48, 12), (64, 16)]
    assert sizes_to_time(with_parts(TWO), 5) == sizes
    assert sizes_to_time(with_parts(TWO), 2) == [sizes[0], sizes[-1]]


class Pool:
    """Records the sizes to time; every call takes 1 us, or all fail."""

    def __init__(self, fails: bool = False) -> None:
        self.asked: list[tuple[int, bool]] = []
        self.fails = fails

    def time_sizes(self, kernel: object, sizes: Sequence[tuple[int, ...]], numpy: bool) -> Any:
        self.asked.append((len(sizes), numpy))
        times_s = (1e-6, 2e-6)[: 1 + numpy]
        return Failed("crash", "signal 11") if self.fails else (times_s,) * len(sizes)


def timed(pool: Pool, text: str, best_s: float, numpy_s: tuple[float, ...]) -> Any:
    race = Race(
        "tuned", "tuned", (best_s,), (1.0,), numpy_s, (-1.0, 1.0), (1e-4,), 8, 64, 12.5, "00"
    )
    kernel: Any = None
    fake: Any = pool
    return timed_by_size(with_parts(text), fake, kernel, race)


@pytest.mark.parametrize(
    ("best_s", "numpy_s", "asked"),
    [
        (1e-6, (1e-5,), [(16, True)]),
        (1e-6, (), [(16, False)]),
        (MOST_S / 12 / 20, (MOST_S / 12 / 20,), [(10, True)]),
        (MOST_S / 12 / 20, (MOST_S,), [(16, False)]),
        (MOST_S / 12 / 7.5, (MOST_S,), [(7, False)]),
        (MOST_S / 12, (), []),
    ],
)
def test_long_calls_are_timed_at_fewer_sizes_without_numpy_or_not_at_all(
    best_s: float, numpy_s: tuple[float, ...], asked: list[tuple[int, bool]]
) -> None:
    pool = Pool()
    found = timed(pool, ROWS, best_s, numpy_s)
    assert pool.asked == asked
    assert [len(found)] == ([count for count, _ in asked] or [0])
    for one in found:
        assert one.times_s == ((1e-6, 2e-6) if asked[0][1] else (1e-6,))


def test_a_kernel_without_dims_and_a_failure_have_no_times() -> None:
    alone, failing = Pool(), Pool(fails=True)
    assert timed(alone, ROWS.replace("M in 1..512", "3"), 1e-6, ()) == ()
    assert alone.asked == []
    assert timed(failing, ROWS, 1e-6, ()) == ()
    assert timed(Pool(), ROWS, 1e-6, ())[0] == SizeTimes((1,), (1e-6,))
