"""Folders for the temporary files of a process; leftovers of killed processes are removed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ansorpy.server.identity import ProcessIdentity

WORKER: Final = "worker-"  # prefixes of the folders, by the kind of process
SERVICE: Final = "service-"


def sweep(parent: Path, identity: ProcessIdentity, prefix: str) -> None:
    """Remove the folders of ended processes of this machine."""
    for folder in parent.glob(f"{prefix}*"):
        owner = ProcessIdentity.of(folder.name.removeprefix(prefix))
        if owner is not None and owner.is_gone(identity):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch(parent: Path, identity: ProcessIdentity, prefix: str = WORKER) -> Iterator[Path]:
    """Create a folder for the block, then remove it; first remove folders of ended processes."""
    sweep(parent, identity, prefix)
    folder = parent / f"{prefix}{identity}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def empty(folder: Path) -> None:
    """Remove the files of a killed tuner process."""
    for path in folder.iterdir():
        shutil.rmtree(path, ignore_errors=True)
