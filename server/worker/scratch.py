"""Folder for the temporary files of a worker; leftovers of killed workers are removed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansorpy.server.worker.identity import ProcessIdentity

PREFIX = "worker-"


@contextmanager
def scratch(parent: Path, identity: ProcessIdentity) -> Iterator[Path]:
    """Create a folder for the block, then remove it; first remove folders of ended workers."""
    for folder in parent.glob(f"{PREFIX}*"):
        owner = ProcessIdentity.of(folder.name.removeprefix(PREFIX))
        if owner is not None and owner.is_gone(identity):
            shutil.rmtree(folder, ignore_errors=True)
    folder = parent / f"{PREFIX}{identity}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def empty(folder: Path) -> None:
    """Remove the files of a killed tuner process."""
    for path in folder.iterdir():
        shutil.rmtree(path, ignore_errors=True)
