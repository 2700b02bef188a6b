"""The transfer functions against every pair of operands of small intervals."""

from itertools import combinations_with_replacement, product
from typing import Final

import pytest

from ansorpy.expr.evaluate import PYTHON_OPS
from ansorpy.expr.interval_arithmetic import BINARY_INTERVALS, UNARY_INTERVALS, hull

INTERVALS: Final = tuple(combinations_with_replacement(range(-4, 5), 2))
BOOLS: Final = ((0, 0), (0, 1), (1, 1))


def values(interval: tuple[int, int]) -> range:
    return range(interval[0], interval[1] + 1)


def held(op: str, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """The smallest interval of the results, by trying all operands."""
    found = [int(PYTHON_OPS[op](a, b)) for a, b in product(values(x), values(y))]
    return min(found), max(found)


@pytest.mark.parametrize("op", sorted(BINARY_INTERVALS))
def test_an_interval_is_the_smallest_that_holds_all_results(op: str) -> None:
    over = BOOLS if op in ("and", "or") else INTERVALS
    for x, y in product(over, over):
        if op in ("floordiv", "mod") and y[0] <= 0 <= y[1]:
            continue
        got, best = BINARY_INTERVALS[op](x, y), held(op, x, y)
        if op == "mod":  # safe, not always the smallest
            assert got[0] <= best[0] <= best[1] <= got[1]
        else:
            assert got == best
        floats = BINARY_INTERVALS[op]((float(x[0]), float(x[1])), (float(y[0]), float(y[1])))
        assert floats == got


@pytest.mark.parametrize("fn", sorted(UNARY_INTERVALS))
def test_an_interval_of_a_function_is_the_smallest(fn: str) -> None:
    for x in BOOLS if fn == "not" else INTERVALS:
        found = [int(PYTHON_OPS[fn](a)) for a in values(x)]
        assert UNARY_INTERVALS[fn](x) == (min(found), max(found))


def test_a_hull_holds_both_intervals() -> None:
    assert hull((1, 2), (-3, 0)) == (-3, 2)
    assert hull((-1.5, 2.5), (0.0, 4.0)) == (-1.5, 4.0)
