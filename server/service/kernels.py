"""Use cases of a delivered kernel: the package, and its files one by one."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Literal

from sqlalchemy import Engine

from ansorpy.artifact.package import NAMES, unbox
from ansorpy.server.db.engine import reading
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.errors import NotFoundError

FileName = Literal[
    "kernel.py", "constants.npz", "kernel.so", "libkernel.so", "kernel.o", "kernel.h", "native.py",
    "manifest.json",
]  # fmt: skip
MEDIA_TYPES: Final[Mapping[FileName, str]] = {
    "kernel.py": "text/x-python; charset=utf-8",
    "constants.npz": "application/octet-stream",
    "kernel.so": "application/octet-stream",
    "libkernel.so": "application/octet-stream",
    "kernel.o": "application/octet-stream",
    "kernel.h": "text/x-c; charset=utf-8",
    "native.py": "text/x-python; charset=utf-8",
    "manifest.json": "application/json",
}
assert set(MEDIA_TYPES) == set(NAMES)
REMEMBERED_BYTES: Final = 1 << 24


@dataclass
class KernelService:
    """What the routes of kernels call. What was served lately is kept: it never changes."""

    engine: Engine
    _kept: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def exists(self, tenant_id: int, sha256: str) -> None:
        """Raise UnknownError unless a job of the tenant delivered this package."""
        with reading(self.engine) as tx:
            queries.package(tx, tenant_id, sha256)

    def content(self, tenant_id: int, sha256: str) -> bytes:
        """Return a package; UnknownError."""
        with reading(self.engine) as tx:
            row = queries.package(tx, tenant_id, sha256)
            with self._lock:
                if sha256 in self._kept:
                    self._kept.move_to_end(sha256)
                    return self._kept[sha256]
            content = row.content
        self._keep(sha256, content)
        return content

    def file(self, tenant_id: int, sha256: str, name: str) -> bytes:
        """Return a file of a package; UnknownError."""
        package = unbox(self.content(tenant_id, sha256), "package", sha256)
        if name not in package.files:
            raise NotFoundError("no such file in this package")
        return package.files[name]

    def _keep(self, sha256: str, content: bytes) -> None:
        with self._lock:
            self._kept[sha256] = content
            while sum(map(len, self._kept.values())) > REMEMBERED_BYTES:
                self._kept.popitem(last=False)
