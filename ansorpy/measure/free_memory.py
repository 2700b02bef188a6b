"""The memory that this process may still take, and freed memory that it returns."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROCFS: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")


def free_memory(procfs: Path = PROCFS, cgroups: Path = CGROUPS) -> int | None:
    """Return the bytes of memory that this process may still take, None if Linux does not tell.

    The smaller of the memory that the machine has available and of the rest of the control group
    (version 2) of this process and of every group above; pages of files count as free.
    """
    found = [*_available(procfs / "meminfo"), *_groups(procfs / "self/cgroup", cgroups)]
    return min(found, default=None)


def return_freed() -> None:
    """Return freed pages of the heap to the system, in milliseconds, if the C library can.

    glibc keeps them for later allocations: arrays of proposals and references leave 130 MB in the
    tuning of a model of 53 tasks, more than its live values take.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _available(path: Path) -> Iterator[int]:
    for line in _lines(path):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) << 10


def _groups(path: Path, cgroups: Path) -> Iterator[int]:
    for line in _lines(path):
        if not line.startswith("0::/"):
            continue
        folder = cgroups / line.removeprefix("0::/")
        for group in (folder, *folder.parents):
            if not group.is_relative_to(cgroups):
                break
            most, used = (_lines(group / f"memory.{name}") for name in ("max", "current"))
            if most and used and most[0] != "max":
                cached = [one for one in _lines(group / "memory.stat") if "inactive_file " in one]
                rest = int(most[0]) - int(used[0]) + sum(int(one.split()[1]) for one in cached)
                yield max(0, rest)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
