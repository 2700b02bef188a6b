"""Use cases of a model: store its file, find, list and delete it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import Engine

from ansorpy.server.access.errors import OverloadedError
from ansorpy.server.db import model_files
from ansorpy.server.db.engine import now, reading, transaction
from ansorpy.server.jobs import models
from ansorpy.server.jobs.errors import NotFoundError
from ansorpy.server.jobs.models import ModelQuota, StoredModel

WRITES: Final = 3  # attempts, if deletions of the same file come between
RETRY_S: Final = 5


@dataclass(frozen=True, slots=True)
class ModelService:
    """Use cases of `routes.models`; each is restricted to one tenant."""

    engine: Engine
    quota: ModelQuota = field(default_factory=ModelQuota)

    def store(self, tenant_id: int, sha256: str, path: Path) -> bool:
        """Store a file whose digest was checked; return False if the tenant had it before.

        Nothing is visible before the last transaction; a killed upload leaves chunks without an
        owner, which `model_files.sweep` removes.

        Raises:
            QuotaError: the tenant has no room for the model.
        """
        size_bytes = path.stat().st_size
        model_files.sweep(self.engine)
        self.check_room(tenant_id, sha256, size_bytes)
        with path.open("rb") as file:
            for _ in range(WRITES):
                if not model_files.write(self.engine, sha256, size_bytes, file):
                    continue
                with transaction(self.engine) as tx:
                    models.check_quota(tx, tenant_id, sha256, size_bytes, self.quota)
                    if model_files.lock_complete(tx, sha256) is not None:
                        return models.add(tx, tenant_id, sha256, now(tx))
        raise OverloadedError(
            "cannot store the model because it is being deleted; expected another try", RETRY_S
        )

    def check_room(self, tenant_id: int, sha256: str, size_bytes: int) -> None:
        """Raise QuotaError if the tenant has no room for a model."""
        with transaction(self.engine) as tx:
            models.check_quota(tx, tenant_id, sha256, size_bytes, self.quota)

    def find(self, tenant_id: int, sha256: str) -> StoredModel:
        """Return a model.

        Raises:
            NotFoundError: the tenant has no such model.
        """
        with reading(self.engine) as tx:
            return models.find(tx, tenant_id, sha256)

    def export(self, tenant_id: int, sha256: str, path: Path) -> None:
        """Write the file of a model to `path`, which does not exist.

        Raises:
            NotFoundError: the tenant has no such model.
        """
        self.find(tenant_id, sha256)
        try:
            model_files.export(self.engine, sha256, path)
        except LookupError:
            raise NotFoundError(models.NO_MODEL) from None

    def delete(self, tenant_id: int, sha256: str) -> None:
        """Delete a model, and its file if no other tenant has it.

        Raises:
            NotFoundError: the tenant has no such model.
            StateError: a job that has not ended uses it.
        """
        with transaction(self.engine) as tx:
            models.remove(tx, tenant_id, sha256)
            now_s = now(tx)
        model_files.drop_unowned(self.engine, sha256, now_s)
