"""Checks of a SQLite database file: private to its user, and never replaced while it is open.

SQLite opens a file once. If the file is moved or replaced, commits still succeed, in a file that
the next start does not find. So each begin and commit compares device and inode of the path and
of the opened file: two calls of stat, some microseconds.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlalchemy.exc import OperationalError

MODE: Final = 0o600
OTHERS: Final = 0o077  # permission bits of group and others
ROOM_BYTES: Final = 8 << 20  # a chunk of a model in the log, and again in the file
BESIDE: Final = ("", "-wal", "-shm", "-journal")  # the files of a database, by suffix


class DatabaseFile:
    """The file that an engine opened first; every later connection must open the same file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: tuple[int, int] | None = None  # device, inode

    def prepare(self) -> None:
        """Create the file with mode 0600 if it is missing; SQLite copies the mode to its others.

        Raises:
            OperationalError: the file that was opened before is no longer at its path.
        """
        if self._opened is None:
            self._create()
            self._opened = self._found()
        self.check()

    def tighten(self) -> None:
        """Remove the permissions of group and others from the files of the database."""
        for path in files_of(self.path):
            with suppress(OSError):  # the file of another user: `ansorpy doctor` reports it
                mode = path.stat().st_mode & 0o777
                if mode & OTHERS:
                    path.chmod(mode & ~OTHERS)

    def check(self) -> None:
        """Raise OperationalError if the path no longer leads to the opened file."""
        if self._opened is not None and self._found() != self._opened:
            told = sqlite3.OperationalError(
                f"cannot use {self.path} because the file was moved away or replaced since it was"
                " opened; expected the same file: put it back, or restart"
            )
            raise OperationalError(None, None, told)

    def is_readable_alone(self) -> bool:
        """Return whether the disk is full, and all commits are in the file itself.

        Then no process can write, and the file is read without those beside it, which need room.
        """
        log = Path(f"{self.path}-wal")
        return is_full(self.path.parent) and not (log.exists() and log.stat().st_size)

    @property
    def frozen_uri(self) -> str:
        """The URI of the file as an immutable file."""
        return f"{self.path.as_uri()}?immutable=1"

    def _create(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):  # it exists, or SQLite reports the error
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, MODE))

    def _found(self) -> tuple[int, int] | None:
        with suppress(OSError):
            facts = self.path.stat()
            return facts.st_dev, facts.st_ino
        return None


def is_full(folder: Path) -> bool:
    """Return whether the disk of a folder has no room for a transaction."""
    try:
        facts = os.statvfs(folder)
    except OSError:
        return False
    return facts.f_bavail * facts.f_frsize < ROOM_BYTES


def files_of(path: Path) -> list[Path]:
    """Return the existing files of a SQLite database."""
    return [each for each in (Path(f"{path}{suffix}") for suffix in BESIDE) if each.exists()]
