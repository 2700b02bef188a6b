"""The page on searched and delivered forms names the differing rows."""

import pytest

from benchmarks.common import Row
from benchmarks.delivered import page, ratio

MACHINE: Row = {"model": "some processor"}


def row(case: str, searched_s: float, delivered_s: float) -> Row:
    times = {"searched_s": searched_s, "delivered_s": delivered_s, "spread": 0.01}
    return {"case": case, "threads": 1, "trials": 128, "seed": 0, **times}


def test_rows_with_different_times_are_named_and_failures_have_no_ratio() -> None:
    lost: Row = {"case": "maxpool", "threads": 1, "failed": {"delivered": "C[0] is 1, not 2"}}
    found = page([row("gmm_512", 2e-3, 2.02e-3), row("cap", 1e-3, 1.5e-3), lost], MACHINE)
    assert ratio(lost) is None
    assert "1.231 times as long in the mean of 2 rows" in found  # the root of 1.01 * 1.5
    assert "More than 5% apart: capsule 32 at 16, 3x3 / 2." in found
    assert next(line for line in found.splitlines() if "failed" in line).startswith("| max-pool")


@pytest.mark.parametrize(("searched_s", "expected"), [(1e-3, 1.0), (2e-3, 0.5)])
def test_the_ratio_says_how_much_longer_the_delivered_form_takes(
    searched_s: float, expected: float
) -> None:
    assert ratio(row("cap", searched_s, 1e-3)) == expected
