"""The start of this process, so that the seconds of a command count from there."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

STAT: Final = Path("/proc/self/stat")
START_FIELD: Final = 19  # index behind the name of the program: start in ticks of the machine
MOST_S: Final = 60.0  # an older process did not start for this command, or has another clock


def process_begin_s(
    clock: Callable[[], float] = time.monotonic,
    uptime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    stat: Path = STAT,
) -> float:
    """Return when this process started, by `clock`; now if the system does not tell.

    Args:
        uptime: seconds since the start of the machine.
        stat: the file of procfs about this process.
    """
    now_s = clock()
    with suppress(OSError, ValueError, IndexError):
        ticks = int(stat.read_text().rpartition(")")[2].split()[START_FIELD])
        age_s = uptime() - ticks / os.sysconf("SC_CLK_TCK")
        if 0 <= age_s <= MOST_S:
            return now_s - age_s
    return now_s
