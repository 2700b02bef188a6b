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
    "kernel.py", "simd.py", "driver.py", "reference.py", "constants.npz", "kernel.so",
    "libkernel.so", "kernel.o", "kernel.h", "native.py", "kernel.ptx", "kernel.sm_80.cubin",
    "kernel.sm_90.cubin", "manifest.json",
]  # fmt: skip
MEDIA_TYPES: Final[Mapping[FileName, str]] = {
    "kernel.py": "text/x-python; charset=utf-8",
    "simd.py": "text/x-python; charset=utf-8",
    "driver.py": "text/x-python; charset=utf-8",
    "reference.py": "text/x-python; charset=utf-8",
    "constants.npz": "application/octet-stream",
    "kernel.so": "application/octet-stream",
    "libkernel.so": "application/octet-stream",
    "kernel.o": "application/octet-stream",
    "kernel.h": "text/x-c; charset=utf-8",
    "native.py": "text/x-python; charset=utf-8",
    "kernel.ptx": "text/plain; charset=utf-8",
    "kernel.sm_80.cubin": "application/octet-stream",
    "kernel.sm_90.cubin": "application/octet-stream",
    "manifest.json": "application/json",
}
assert set(MEDIA_TYPES) == set(NAMES)
CACHE_BYTES: Final = 1 << 24


@dataclass
class KernelService:
    """Use cases of `routes.kernels`, with an LRU cache of packages."""

    engine: Engine
    _cache: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def exists(self, tenant_id: int, sha256: str) -> None:
        """Raise NotFoundError unless a job of the tenant delivered this package."""
        with reading(self.engine) as tx:
            queries.package(tx, tenant_id, sha256)

    def content(self, tenant_id: int, sha256: str) -> bytes:
        """Return the bytes of a package.

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            row = queries.package(tx, tenant_id, sha256)
            with self._lock:
                if sha256 in self._cache:
                    self._cache.move_to_end(sha256)
                    return self._cache[sha256]
            content = row.content
        self._store(sha256, content)
        return content

    def file(self, tenant_id: int, sha256: str, name: str) -> bytes:
        """Return the bytes of a file of a package.

        Raises:
            NotFoundError
        """
        package = unbox(self.content(tenant_id, sha256), "package", sha256)
        if name not in package.files:
            raise NotFoundError(
                "cannot find this file because the package has none of this name; expected a name"
                " in manifest.json"
            )
        return package.files[name]

    def _store(self, sha256: str, content: bytes) -> None:
        with self._lock:
            self._cache[sha256] = content
            while sum(map(len, self._cache.values())) > CACHE_BYTES:
                self._cache.popitem(last=False)
