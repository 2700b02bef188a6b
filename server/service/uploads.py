"""Folders for the files of requests, on disk, each with one file of a stranger."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.scratch import SERVICE, sweep
from ansorpy.server.service.slots import Slots


@dataclass(frozen=True)
class Uploads:
    """Folders of the requests of this process, below `parent`.

    Every folder is new and private, so that a model finds no external data there. The folders of
    killed services are removed at the start.
    """

    parent: Path
    slots: Slots
    identity: ProcessIdentity = field(default_factory=ProcessIdentity.current)

    def __post_init__(self) -> None:
        sweep(self.parent, self.identity, SERVICE)

    @property
    def home(self) -> Path:
        """The folder of this process, which exists from the first upload on."""
        return self.parent / f"{SERVICE}{self.identity}"

    @contextmanager
    def folder(self, tenant_id: int) -> Iterator[Path]:
        """Create a folder for the block.

        Raises:
            RateLimitError, OverloadedError: too many uploads are in progress.
        """
        with self.slots.taken(tenant_id):
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self.home, ignore_cleanup_errors=True) as folder:
                yield Path(folder)

    def close(self) -> None:
        """Remove all folders of this process."""
        shutil.rmtree(self.home, ignore_errors=True)
