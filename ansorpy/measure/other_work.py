"""Work of others on the cores of this machine, from the counters of Linux.

Other processes, and other guests of the same host (stolen time), make every time too long.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

STAT: Final = Path("/proc/stat")
LOADS: Final = Path("/proc/loadavg")
TICKS: Final = os.sysconf("SC_CLK_TCK")  # per second
IDLE: Final = (3, 4)  # fields of a line of /proc/stat: idle, and waiting for a disk
FIELDS: Final = 8  # user, nice, system, idle, iowait, irq, softirq, steal
CROWDED: Final = 0.75  # processes that want to run, per core, from which on a machine is busy
MOST: Final = 0.95  # share of others above which a slowdown is a guess


def busy_s(cores: Iterable[int], stat: Path = STAT) -> float:
    """Return the seconds since the start that cores were not idle; 0.0 if Linux does not tell."""
    wanted = {f"cpu{core}" for core in cores}
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return 0.0
    ticks = 0
    for line in lines:
        name, *fields = line.split()
        if name in wanted:
            ticks += sum(int(n) for at, n in enumerate(fields[:FIELDS]) if at not in IDLE)
    return ticks / TICKS


def process_s(pid: int) -> float:
    """Return the seconds of processor time of a process and its threads; 0.0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def slowdown(others_s: float, cores: int, wall_s: float) -> float:
    """Return how much longer work takes if others have a part of the time of the cores.

    Args:
        others_s: processor time of others.
        wall_s: length of the span.
    """
    if wall_s <= 0:
        return 1.0
    return 1 / (1 - min(MOST, max(0.0, others_s / (cores * wall_s))))


def crowd(loads: Path = LOADS, cores: int | None = None) -> str:
    """Return a warning if other work crowds this machine, "" if it does not.

    Both the average of the last minute and the processes that want to run just now must be many:
    an earlier tuning of ours is in the average alone.
    """
    count = cores or os.cpu_count() or 1
    try:
        fields = loads.read_text().split()
        average, running = float(fields[0]), int(fields[3].split("/")[0])
    except (OSError, ValueError, IndexError):
        return ""
    if average < CROWDED * count or running - 1 < CROWDED * count:  # this process runs
        return ""
    return (
        f"the machine is busy (load {average:.1f} on {count} cores): times are too long, and a"
        " slower kernel may win"
    )
