"""Temporary folders of loaded kernels: private, and removed even if their process was killed.

A process has one folder (mode 0700) with a folder per kernel below it. It is locked (flock) for as
long as the process, or a fork of it, lives; a process that makes its own folder first removes this
user's folders that nothing locks.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "ansorpy-loaded-"
OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_own: dict[int, Path] = {}  # by process id: a fork makes a folder of its own


def new_folder() -> Path:
    """Return a new, empty folder; it is gone at the latest when the process has ended."""
    process = os.getpid()
    if process not in _own or not _own[process].exists():
        _own[process] = _make(Path(tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(dir=_own[process]))


def reap(parent: Path) -> None:
    """Remove the folders of processes that ended without doing so."""
    for path in parent.glob(f"{PREFIX}*"):
        lock = _locked(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def remove(path: Path, owner: int) -> None:
    """Remove a folder if this is the process that made it; its forks run the same finalizers."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def _make(parent: Path) -> Path:
    """Return a new folder for this process, locked."""
    reap(parent)
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        # Neither locked nor gone: a file system without locks. Gone: another process reaped it.
        if _locked(path, wait=True) is not None or path.exists():
            atexit.register(remove, path, os.getpid())
            return path


def _locked(path: Path, wait: bool = False) -> int | None:
    """Return a descriptor that locks a folder of this user; None if it is locked or gone."""
    how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    with suppress(OSError):
        descriptor = os.open(path, OPEN)
        with suppress(OSError):
            fcntl.flock(descriptor, how)
            here = os.fstat(descriptor)
            if here.st_uid == os.getuid() and os.path.samestat(here, path.lstat()):
                return descriptor
        os.close(descriptor)
    return None
