"""Use cases of a delivered bundle: its size, and its bytes in parts."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Engine

from ansorpy.server.db import model_files
from ansorpy.server.db.engine import reading
from ansorpy.server.jobs import queries


@dataclass(frozen=True, slots=True)
class BundleService:
    """Use cases of `routes.bundles`; each is restricted to one tenant."""

    engine: Engine

    def size_bytes(self, tenant_id: int, sha256: str) -> int:
        """Return the size of a bundle.

        Raises:
            NotFoundError: no job of the tenant delivered it.
        """
        with reading(self.engine) as tx:
            return queries.bundle(tx, tenant_id, sha256).size_bytes

    def read(self, sha256: str, begin: int, end: int) -> Iterator[bytes]:
        """Yield the bytes [begin, end) of a bundle, a chunk at a time.

        Raises:
            LookupError: a newer bundle has replaced it meanwhile.
        """
        return model_files.chunks(self.engine, sha256, begin, end)
