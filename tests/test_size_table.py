"""The table of a result with the times at single sizes."""

from dataclasses import replace
from pathlib import Path

from ansorpy.events import SizeResult, TaskResult
from ansorpy.result import summary
from ansorpy.size_table import size_table

TIMED = tuple(
    SizeResult({"M": size}, kernel_for, 1e-6 * size, 2.5e-6 * size)
    for size, kernel_for in (
        (1, "M in 1..1"), (2, "M in 2..8"), (3, "M in 2..8"), (5, "M in 2..8"), (6, "M in 2..8"),
        (8, "M in 2..8"),
    )
)  # fmt: skip
RESULT = TaskResult(
    name="mm", key="k", best_s=4e-6, baseline_s=None, trials=16, seconds=3.0, verified=True,
    winner="tuned", kernel=Path("mm.zip"), sizes={"M": (1, 2, 4, 6, 8)},
    ranges={"M in 1..1": 0.9e-6, "M in 2..8": 4e-6}, by_size=TIMED,
)  # fmt: skip


def test_a_range_shows_its_ends_and_middle_with_its_best_trial() -> None:
    assert summary([RESULT]).splitlines()[1:-1] == [
        "  latency   4 us, mean of M = 1, 2, 4, 6 and 8",
        "  ranges    M  kernel    NumPy  range of sizes, best trial",
        "            1    1 us   2.5 us  M in 1..1, 0.9 us",
        "            2    2 us     5 us  M in 2..8, 4 us",
        "            5    5 us  12.5 us",
        "            8    8 us    20 us",
        "  trials    16",
    ]


def test_one_kernel_without_numpy_shows_its_dims() -> None:
    served = "M in 8..64 step 8, L in 1..4"
    timed = (
        SizeResult({"M": 8, "L": 1}, served, 2e-6, None),
        SizeResult({"M": 64, "L": 4}, served, 9e-6, None),
    )
    assert size_table(replace(RESULT, ranges={}, by_size=timed)) == [
        " M, L  kernel  range of sizes, best trial",
        " 8, 1    2 us  M in 8..64 step 8, L in 1..4",
        "64, 4    9 us",
    ]


def test_without_times_at_sizes_the_best_trials_are_one_line() -> None:
    alone = replace(RESULT, by_size=())
    assert size_table(alone) == []
    assert "  ranges    M in 1..1: 0.9 us, M in 2..8: 4 us" in summary([alone]).splitlines()
