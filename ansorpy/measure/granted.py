"""The cores that the system grants to this process: its affinity, and quotas of control groups."""

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

GROUPS: Final = Path("/proc/self/cgroup")
MOUNT: Final = Path("/sys/fs/cgroup")


def granted_cores(groups: Path = GROUPS, mount: Path = MOUNT) -> int:
    """Return the number of threads that this process can run at once, at least 1.

    That are its cores, or the whole cores of the processor time that its control group may use.
    """
    quota = cpu_quota(groups, mount)
    count = len(os.sched_getaffinity(0))
    return count if quota is None else max(1, min(count, int(quota)))


def cpu_quota(groups: Path = GROUPS, mount: Path = MOUNT) -> float | None:
    """Return the least quota of the control groups around this process in cores; None: no quota.

    Version 2 tells it in `cpu.max`, version 1 in two files of the controller `cpu`. Inside of a
    container the folder of a group may be hidden: then the mount itself is the group.
    """
    quotas = []
    with suppress(OSError, ValueError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            inside = [PurePosixPath(path), *PurePosixPath(path).parents]
            roots = [mount] if not controllers else [mount / controllers, mount / "cpu"]
            if not controllers or "cpu" in controllers.split(","):
                quotas += [_quota(root / str(one).lstrip("/")) for root in roots for one in inside]
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota(group: Path) -> float | None:
    """Return the quota of one control group in cores; None: it has none, or there is no group."""
    with suppress(OSError, ValueError):
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{n}_us").read_text() for n in ("quota", "period"))
        if float(quota) > 0 and float(period) > 0:  # ValueError: "max"
            return float(quota) / float(period)
    return None
