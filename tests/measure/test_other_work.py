"""Work of others: counters of cores, and the warning of a crowded machine."""

import os
import time
from pathlib import Path

import pytest

from ansorpy.measure.other_work import busy_s, crowd, process_s, slowdown

STAT = """\
cpu  100 0 0 0 0 0 0 0 0 0
cpu0 200 10 30 5000 70 5 5 50 0 0
cpu1 100 0 0 9000 0 0 0 0 7 0
intr 5
"""


def test_idle_time_and_waiting_for_disks_are_not_busy(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(STAT)
    ticks = os.sysconf("SC_CLK_TCK")
    assert busy_s([0], tmp_path / "stat") == pytest.approx(300 / ticks)  # stolen time is in it
    assert busy_s([0, 1], tmp_path / "stat") == pytest.approx(400 / ticks)
    assert busy_s([0], tmp_path / "absent") == 0.0


def test_the_time_of_a_process_grows_as_it_works() -> None:
    before_s = process_s(os.getpid())
    end_s = time.process_time() + 0.05
    while time.process_time() < end_s:
        pass
    assert process_s(os.getpid()) > before_s
    assert process_s(2**22 + 1) == 0.0


def test_half_of_the_cores_doubles_the_time() -> None:
    assert slowdown(0.0, 2, 1.0) == 1.0
    assert slowdown(1.0, 2, 1.0) == pytest.approx(2.0)
    assert slowdown(-0.1, 2, 1.0) == 1.0  # ticks are coarse
    assert slowdown(5.0, 1, 1.0) == pytest.approx(20.0)
    assert slowdown(1.0, 1, 0.0) == 1.0


@pytest.mark.parametrize(
    ("loads", "warned"),
    [
        ("6.00 1 1 7/300 1", True),
        ("6.00 1 1 1/300 1", False),  # an earlier tuning of ours has just ended
        ("0.10 1 1 5/300 1", False),  # for a moment only
        ("nothing", False),
    ],
)
def test_a_crowded_machine_is_told(loads: str, warned: bool, tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text(loads)
    told = crowd(tmp_path / "loadavg", cores=2)
    assert bool(told) is warned
    assert not warned or told.startswith("the machine is busy (load 6.0 on 2 cores)")
