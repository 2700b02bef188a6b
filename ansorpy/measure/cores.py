"""Cores of a slot, and the lock that keeps two jobs of one machine from sharing them."""

import fcntl
import logging
import os
import tempfile
import threading
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, TextIO

from ansorpy.errors import RunError

log = logging.getLogger(__name__)

TOLD_AFTER_S: Final = 2.0  # seconds of waiting before a log message; most batches are shorter


def usable_cores() -> tuple[int, ...]:
    """Return the cores that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def slot_cores(count: int) -> frozenset[int]:
    """Return the cores on which kernels are timed: the last ones; the first serves interrupts."""
    cores = usable_cores()
    return frozenset(cores[-min(count, len(cores)) :])


def with_twins(
    cores: Iterable[int], system: Path = Path("/sys/devices/system/cpu")
) -> frozenset[int]:
    """Return the cores and those that share their execution units (SMT), as far as is known."""
    twins = set(cores)
    for core in tuple(twins):
        with suppress(OSError, ValueError):
            text = (system / f"cpu{core}/topology/thread_siblings_list").read_text()
            for part in text.split(","):
                first, _, last = part.partition("-")
                twins.update(range(int(first), int(last or first) + 1))
    return frozenset(twins)


def importing_cores(own: frozenset[int]) -> frozenset[int]:
    """Return the cores on which a worker with these cores imports.

    On two cores, the last; the parent keeps core 0 for tracing and search.
    """
    usable = usable_cores()
    return frozenset(usable[-1:]) if len(usable) == 2 else own


def keep_off_the_slot() -> None:
    """Keep this process and its children off the core of a slot of one thread.

    Also off its SMT sibling, if another core is left. Workers set their own cores.
    """
    usable, slot = frozenset(usable_cores()), slot_cores(1)
    others = (usable - with_twins(slot)) or (usable - slot)
    for thread in Path("/proc/self/task").iterdir() if others else ():
        with suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread.name), others)


def lock_folder() -> Path:
    """Return the folder of the lock files, private to this user.

    Raises:
        RunError: the name is taken by another user.
    """
    folder = Path(tempfile.gettempdir()) / f"ansorpy-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise RunError(f"{folder} belongs to another user")
    return folder


@contextmanager
def exclusive(
    cores: Iterable[int], folder: Path, told_after_s: float = TOLD_AFTER_S
) -> Generator[None]:
    """Hold the locks of `cores`; wait, with a log message, while another job is timing on one.

    Jobs take turns: a waiting job holds the turn, so that the releasing job cannot lock first.
    """
    with ExitStack() as stack:
        for core in sorted(cores):  # one order in all jobs: no two wait for each other
            with (folder / f"core-{core}.turn").open("w") as turn:
                _lock(turn, core, told_after_s)
                file = stack.enter_context((folder / f"core-{core}.lock").open("w"))
                _lock(file, core, told_after_s)
        yield


def _lock(file: TextIO, core: int, told_after_s: float) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        telling = threading.Timer(told_after_s, _tell, [core])
        telling.start()
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        finally:
            telling.cancel()


@cache
def _tell(core: int) -> None:
    """Log once per process that it waits for another job."""
    log.warning("core %d: another job of this machine is timing on it; waiting", core)
