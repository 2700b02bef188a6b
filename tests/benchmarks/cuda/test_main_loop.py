"""The counts of the main loop of a tuned matrix product."""

import pytest

from benchmarks.cuda.main_loop import (
    CASES,
    Case,
    barriers_per_step,
    best,
    counted,
    holds,
    page,
    tuned,
)
from benchmarks.cuda.sass import Counts, Sass
from tests.codegen.simt.test_report import needs_ptxas


def sass(*loops: dict[str, int]) -> Sass:
    """Return a kernel of some loops, the main loop first."""
    counts = tuple(Counts.of(loop) for loop in loops)
    return Sass("phase0", counts[-1] if counts else Counts(()), counts)


def test_barriers_are_counted_by_step_of_the_reduction() -> None:
    products = 512  # multiply-adds of a thread in a step
    whole = sass({"FFMA": 512, "BAR.SYNC": 1})
    unrolled = sass({"FFMA": 1024, "BAR.SYNC": 2})
    part = sass({"FFMA": 64}, {"FFMA": 64, "BAR.SYNC": 3})
    assert barriers_per_step(whole, products, "float32") == 1
    assert barriers_per_step(unrolled, products, "float32") == 1
    assert barriers_per_step(part, products, "float32") == 3
    assert barriers_per_step(sass({"FFMA": 64}), products, "float32") is None
    assert barriers_per_step(sass({"HMMA": 8, "BAR.SYNC": 1}), products, "bfloat16") == 1
    assert barriers_per_step(sass({"HMMA": 16, "BAR.SYNC": 1}), products, "tf32") == 1


@pytest.mark.cuda
@needs_ptxas
def test_a_tuned_product_is_told() -> None:
    task, failures = tuned(Case((64, 96, 128)), trials=8, seed=0)
    name = next(iter(CASES))
    trials = task.history.trials
    row = {"name": name, "candidates": trials, "failures": failures, **best(task, "float32")}
    assert trials == 8
    assert 0 < row["ffma_share"] < 1
    assert row["ffma"] > 0
    assert row["barriers_per_step"] is None or row["barriers_per_step"] >= 0
    verdict = "met" if holds(row) else "missed"
    assert f"| {verdict} |" in page([row])
    assert name in page([row])


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("name", ["bfloat16 4096, 128x256x32", "tf32 4096, 256x64x16"])
def test_a_block_on_matrix_instructions_is_told(name: str) -> None:
    row = {"name": name, **counted(CASES[name], trials=0, seed=0)}
    assert (row["hmma"], row["ffma"], row["steps"], row["barriers_per_step"]) == (64, 0, 1, 1)
    assert holds(row)
    assert "| 64 (" in page([row])
    assert not holds({**row, "hmma_share": 0.15})
