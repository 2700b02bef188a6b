"""The times of a delivered kernel at single sizes of its dims, as a table for people."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from ansorpy.events import SizeResult, TaskResult
from ansorpy.units import duration

Row = tuple[str, ...]
HEAD: Final[Row] = ("kernel", "NumPy", "range of sizes, best trial")


def size_table(result: TaskResult) -> list[str]:
    """Return lines: sizes, times of the kernel and of NumPy, the range whose kernel runs.

    Of each range, the least, the middle and the largest timed size are shown; [] without times.
    """
    if not result.by_size:
        return []
    rows: list[Row] = [(", ".join(result.by_size[0].sizes), *HEAD)]
    for kernel_for, timed in groupby(result.by_size, lambda one: one.kernel_for):
        for place, one in enumerate(_ends_and_middle(list(timed))):
            rows.append((*_cells(one), "" if place else _range(result, kernel_for)))
    if all(one.numpy_s is None for one in result.by_size):
        rows = [(*row[:2], *row[3:]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([*map(str.rjust, row[:-1], widths), row[-1]]).rstrip() for row in rows]


def _ends_and_middle(timed: Sequence[SizeResult]) -> list[SizeResult]:
    return [timed[place] for place in sorted({0, len(timed) // 2, len(timed) - 1})]


def _cells(timed: SizeResult) -> Row:
    numpy = "-" if timed.numpy_s is None else duration(timed.numpy_s)
    return ", ".join(map(str, timed.sizes.values())), duration(timed.best_s), numpy


def _range(result: TaskResult, kernel_for: str) -> str:
    trial_s = result.ranges.get(kernel_for)
    return kernel_for if trial_s is None else f"{kernel_for}, {duration(trial_s)}"
