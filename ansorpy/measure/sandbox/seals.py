"""Files written once by one process without following links, and sealed against changes.

A measuring process cannot write them (see `sandbox`). Where a machine has no sandbox, a change is
at least noticed: no process can set the time of the last change of a file.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from ansorpy.errors import RunError

NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK_BYTES: Final = 1 << 20

Bytes = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Seal:
    """A file as it was written: its number, size, time of the last change in ns, and digest."""

    file: int
    size_bytes: int
    changed_ns: int
    sha256: bytes


def create(folder: Path, name: str, *parts: Bytes) -> Seal:
    """Write a new file; FileExistsError if there is anything of that name, a link included."""
    digest = sha256()
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fd = os.open(name, NEW, 0o400, dir_fd=place)
    finally:
        os.close(place)
    with os.fdopen(fd, "wb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
        file.flush()
        found = os.fstat(fd)
    return Seal(found.st_ino, found.st_size, found.st_ctime_ns, digest.digest())


class Sealed:
    """New folders below `root`, and whether their files are as they were written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seals: dict[Path, Mapping[str, Seal]] = {}

    def folder(self) -> Path:
        """Return a new folder with an unguessable name."""
        return Path(mkdtemp(dir=self.root))

    def keep(self, folder: Path, seals: Mapping[str, Seal]) -> None:
        """Remember the files of a folder."""
        self._seals[folder] = seals

    def check(self, folder: Path) -> None:
        """Compare the files of a folder with their seals.

        Raises:
            RunError: a file was changed.
        """
        for name, seal in self._seals[folder].items():
            if not _is_whole(folder / name, seal):
                raise RunError(f"cannot check kernels because {folder / name} was changed")


def _is_whole(path: Path, seal: Seal) -> bool:
    """Return whether a file is as it was written; it is read only if anything touched it."""
    try:
        found = path.lstat()
        if (found.st_ino, found.st_size, found.st_ctime_ns) == (
            seal.file, seal.size_bytes, seal.changed_ns,
        ):  # fmt: skip
            return True
        digest = sha256()
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return False
    return digest.digest() == seal.sha256
