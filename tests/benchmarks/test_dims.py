"""Kernels for ranges of sizes: the page, and the schedule of a size."""

import json

import numpy as np
import pytest

from ansorpy.plan.join import rows_of
from ansorpy.replay import plan_text
from ansorpy.schedule.lowered import scheduled
from ansorpy.te.dims import at_sizes
from benchmarks.common import Row
from benchmarks.dims import page_of, schedule_at, sizes_of
from tests.plan.test_join import TARGET, joined


def timed(workload: str, size: int, dim_s: float, **more: float) -> Row:
    seconds = {"dim_s": dim_s, "own_s": 1e-3, "dim_tuning_s": 30.0, "own_tuning_s": 4.0}
    return {"workload": workload, "size": size, "trials": 32, "all_trials": 64, **seconds, **more}


def test_the_page_has_a_line_for_each_workload_and_each_size() -> None:
    page = page_of(
        [
            timed("softmax", 9, 4e-3),
            timed("product", 64, 1.25e-3, alike_s=1.25e-3),
            timed("product", 1, 1e-3),
        ]
    )
    assert "2.11 over the workloads, 1.00 with the same schedule" in page  # root of 1.118 * 4
    assert "| N x 768 by 768 x 768 | 2 | 1.12 | 1.25 at 64 | 1.00 | 1 | 30 s | 4 s |" in page
    assert "| softmax of 64 rows of N | 1 | 4.00 | 4.00 at 9 | - | 0 | 30 s | 4 s |" in page
    assert page.index("| product | 1 |") < page.index("| product | 64 |")
    assert "| product | 64 | 1.25 ms | 1 ms | 1.25 | 1.00 |" in page
    assert "| softmax | 9 | 4 ms | 1 ms | 4.00 | - |" in page


@pytest.mark.parametrize("seed", range(4))
def test_the_schedule_of_a_size_is_that_of_its_range(seed: int) -> None:
    over, plan, row = joined(seed)
    manifest = {"plan": json.loads(plan_text(plan)), "row": list(row)}
    for size in (8, 23, 40):
        dag = at_sizes(over, {"M": size})
        found = scheduled(schedule_at(over, manifest, dag, size), dag, TARGET)
        (wanted,) = [own for part, own in rows_of(plan, row) if part.sizes.has(size)]
        assert all(a <= b for a, b in zip(found.row, wanted, strict=True))
        assert size < 40 or found.row == wanted


def test_sizes_are_drawn_once_each() -> None:
    sizes = sizes_of(512, 16, np.random.default_rng(0))
    assert sizes == sorted(set(sizes))
    assert len(sizes) == 16
    assert sizes[0] == 1
    assert sizes[-1] <= 512
    assert sizes_of(8, 16, np.random.default_rng(0)) == list(range(1, 9))
