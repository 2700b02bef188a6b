"""Cores that a process may use: affinity, and quotas of both versions of control groups."""

from pathlib import Path

import pytest

from ansorpy.measure.cores import usable_cores
from ansorpy.measure.granted import cpu_quota, granted_cores


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ("0::/hidden\n", {"cpu.max": "250000 100000"}, 2.5),
        ("0::/\n", {}, None),
        (
            "4:cpu,cpuacct:/x\n3:cpuset:/y\n",
            {"cpu/x/cpu.cfs_quota_us": "300000", "cpu/x/cpu.cfs_period_us": "100000"}, 3.0,
        ),
        ("1:cpu:/x\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("1:cpu:/x\n0::/\n", {"cpu/x/cpu.cfs_quota_us": "no number"}, None),
        ("nonsense", {"cpu.max": "100000 100000"}, None),
    ],
)  # fmt: skip
def test_the_quota_of_control_groups_is_read(
    tmp_path: Path, groups: str, files: dict[str, str], quota: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "groups").write_text(groups)
    assert cpu_quota(tmp_path / "groups", tmp_path) == quota
    usable = len(usable_cores())
    granted = usable if quota is None else min(usable, int(quota))
    assert granted_cores(tmp_path / "groups", tmp_path) == granted


def test_a_part_of_a_core_is_one_thread(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "groups").write_text("0::/\n")
    assert granted_cores(tmp_path / "groups", tmp_path) == 1
    assert granted_cores(tmp_path / "absent", tmp_path) == len(usable_cores())
