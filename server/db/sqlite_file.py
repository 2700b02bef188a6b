"""The file of a SQLite database: private to its user, and the same file in every transaction.

SQLite opens a file by its name once. If the file is moved or replaced afterwards, commits still
succeed, in a file that the next start does not find. So the file that the name leads to is compared
with the one that was opened, at every begin and commit: two calls of stat, some microseconds.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlalchemy.exc import OperationalError

MODE: Final = 0o600
OTHERS: Final = 0o077  # permission bits of group and others
BESIDE: Final = ("", "-wal", "-shm", "-journal")  # the files of a database, by suffix


class DatabaseFile:
    """The file that an engine opened first; every later connection must open the same."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: tuple[int, int] | None = None  # device, inode

    def prepare(self) -> None:
        """Make the file if there is none, for nobody else to read; SQLite makes others like it.

        Raises:
            OperationalError: the file that was opened before is not there any more.
        """
        if self._opened is None:
            self._create()
            self._opened = self._found()
        self.check()

    def tighten(self) -> None:
        """Take the permissions of group and others from the files of the database."""
        for path in files_of(self.path):
            with suppress(OSError):  # of another user: `ansorpy doctor` complains
                mode = path.stat().st_mode & 0o777
                if mode & OTHERS:
                    path.chmod(mode & ~OTHERS)

    def check(self) -> None:
        """Raise OperationalError if the path leads to another file than the one opened, or none."""
        if self._opened is not None and self._found() != self._opened:
            told = sqlite3.OperationalError(
                f"cannot use {self.path}: the file was moved away or replaced since it was opened;"
                " put it back, or restart"
            )
            raise OperationalError(None, None, told)

    def _create(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):  # it is there, or SQLite says why it cannot be made
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, MODE))

    def _found(self) -> tuple[int, int] | None:
        with suppress(OSError):
            facts = self.path.stat()
            return facts.st_dev, facts.st_ino
        return None


def files_of(path: Path) -> list[Path]:
    """Return the files of a SQLite database that are there."""
    return [each for each in (Path(f"{path}{suffix}") for suffix in BESIDE) if each.exists()]
