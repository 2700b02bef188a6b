"""Use cases of a model: store its file, find, list and delete it."""

from collections.abc import Iterator
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
from ansorpy.server.schemas.model import ModelFacts, ModelPage, ModelReply, ModelSummary

WRITES: Final = 3  # attempts, if deletions of the same file come between
RETRY_S: Final = 5


@dataclass(frozen=True, slots=True)
class ModelService:
    """Use cases of `routes.models`; each is restricted to one tenant."""

    engine: Engine
    quota: ModelQuota = field(default_factory=ModelQuota)

    def store(
        self, tenant_id: int, sha256: str, path: Path, facts: ModelFacts, name: str = ""
    ) -> bool:
        """Store a file whose digest was checked; return False if the tenant had it before.

        The facts replace the facts of an earlier version of ansorpy.

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
                    row = model_files.lock_complete(tx, sha256)
                    if row is not None:
                        row.facts = facts.model_dump_json()
                        return models.add(tx, tenant_id, sha256, now(tx), name)
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

    def read(self, tenant_id: int, sha256: str) -> ModelReply:
        """Return a model with its facts.

        Raises:
            NotFoundError: the tenant has no such model.
        """
        found = self.find(tenant_id, sha256)
        return ModelReply(
            sha256=sha256, name=found.name, size_bytes=found.size_bytes, created_s=found.created_s,
            **dict(ModelFacts.model_validate_json(found.facts)),
        )  # fmt: skip

    def page(self, tenant_id: int, before: int | None, limit: int, word: str = "") -> ModelPage:
        """Return a page of models, newest first; `word` is as for `models.list_models`."""
        with reading(self.engine) as tx:
            found, after = models.list_models(tx, tenant_id, before, limit, word)
        return ModelPage(models=list(map(_summary, found)), next=after)

    def parts(self, sha256: str, begin: int, end: int) -> Iterator[bytes]:
        """Yield the bytes [begin, end) of a model file that the tenant has, a chunk at a time.

        Raises:
            LookupError: the model was deleted meanwhile.
        """
        return model_files.chunks(self.engine, sha256, begin, end)

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


def _summary(model: StoredModel) -> ModelSummary:
    facts = ModelFacts.model_validate_json(model.facts)
    return ModelSummary(
        sha256=model.sha256,
        name=model.name,
        size_bytes=model.size_bytes,
        created_s=model.created_s,
        node_count=facts.node_count,
        refused=facts.refusal is not None,
    )
