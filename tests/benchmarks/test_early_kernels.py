"""The page on early kernels counts rows in time, and rows with a right kernel after the cancel."""

from benchmarks.common import Row
from benchmarks.early_kernels import page

MACHINE: Row = {"model": "some processor"}
ROW: Row = {
    "case": "gmm_512", "threads": 1, "trials": 512, "cancel_s": 10.0, "starts_s": 0.2,
    "first_s": 2.5, "baseline_s": 4.0, "kernels": 3, "measured": 40, "ended": "cancelled",
    "best_s": 2e-3, "rival_s": 6e-3, "right": True,
}  # fmt: skip


def test_the_page_tells_first_kernels_and_speed_ups() -> None:
    late = {**ROW, "case": "gmm_1024", "first_s": 3.5}
    none = {**ROW, "case": "c2d_r64", "first_s": None, "baseline_s": None, "kernels": 0,
            "best_s": None, "rival_s": None, "right": False}  # fmt: skip
    found = page([ROW, late, none], MACHINE)
    assert "First download within 3 s of the start on 1 of 3 rows" in found
    assert "a right kernel is there after the cancel on 2 of 3" in found
    assert "Jobs of 512 trials, cancelled after 10 s." in found
    lines = {line.split(" | ")[0]: line for line in found.splitlines()}
    assert lines["| gmm_512"].endswith("| 2 ms | 3x |")
    assert lines["| c2d_r64"].endswith("| - | - |")
