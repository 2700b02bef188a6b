"""The folder of a worker's temporary files: gone with it, even if it was killed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansorpy.server.worker.identity import ProcessIdentity

PREFIX = "worker-"


@contextmanager
def scratch(parent: Path, identity: ProcessIdentity) -> Iterator[Path]:
    """Make a folder for the block; remove it, and those of workers that are gone."""
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
    """Remove what a killed driver left."""
    for path in folder.iterdir():
        shutil.rmtree(path, ignore_errors=True)
