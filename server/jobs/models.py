"""Queries and changes of models; each is restricted to the models of one tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from ansorpy.server.db.models import JobRow, ModelFileRow, ModelRow, TenantRow
from ansorpy.server.jobs.errors import NotFoundError, QuotaError, StateError
from ansorpy.server.jobs.states import WAITING

RETRY_S: Final = 600  # Retry-After if the models of a tenant take all of its quota

NO_MODEL: Final = (
    "cannot find this model because no model of yours has this digest; expected a digest of"
    " /v1/models"
)


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model of a tenant: position in the list, digest, size, time of the first PUT, facts, name.

    `facts` is JSON (`server.schemas.model.ModelFacts`), "" until the file was read.
    """

    seq: int
    sha256: str
    size_bytes: int
    created_s: float
    facts: str
    name: str = ""  # the file name; "" if no PUT told it


@dataclass(frozen=True, slots=True)
class ModelQuota:
    """Default limits of the models of a tenant, for tenants without limits of their own."""

    models: int = 64
    size_bytes: int = 8 << 30


def find(tx: Session, tenant_id: int, sha256: str) -> StoredModel:
    """Return a model of the tenant.

    Raises:
        NotFoundError: the tenant has no such model.
    """
    row = tx.execute(_of(tenant_id).where(ModelRow.sha256 == sha256)).one_or_none()
    if row is None:
        raise NotFoundError(NO_MODEL)
    return StoredModel(*row)


def list_models(
    tx: Session, tenant_id: int, before: int | None = None, limit: int = 50, word: str = ""
) -> tuple[Sequence[StoredModel], int | None]:
    """Return a page of models, newest first, and `before` of the next page (None: last page).

    Args:
        word: part of the names, or leading digits of the digests.
    """
    query = _of(tenant_id)
    if word:
        named = ModelRow.name.icontains(word, autoescape=True)
        query = query.where(or_(named, ModelRow.sha256.startswith(word.lower(), autoescape=True)))
    if before is not None:
        query = query.where(ModelRow.seq < before)
    rows = tx.execute(query.order_by(ModelRow.seq.desc()).limit(limit + 1)).all()
    page = [StoredModel(*row) for row in rows[:limit]]
    return page, page[-1].seq if len(rows) > limit else None


def add(tx: Session, tenant_id: int, sha256: str, now_s: float, name: str = "") -> bool:
    """Make the tenant an owner of a complete file; return False if it was one before.

    A `name` replaces the earlier one.
    """
    query = select(ModelRow).where(ModelRow.tenant_id == tenant_id, ModelRow.sha256 == sha256)
    known = tx.scalar(query)
    if known is None:
        tx.add(ModelRow(tenant_id=tenant_id, sha256=sha256, name=name, created_s=now_s))
        return True
    known.name = name or known.name
    return False


def remove(tx: Session, tenant_id: int, sha256: str) -> None:
    """Remove a model of the tenant; its file stays for other owners.

    Raises:
        NotFoundError: the tenant has no such model.
        StateError: a job that has not ended uses the model.
    """
    # `queries.submit` takes the same lock, so that no job appears meanwhile.
    tx.get_one(TenantRow, tenant_id, with_for_update=True)
    query = select(ModelRow).where(ModelRow.tenant_id == tenant_id, ModelRow.sha256 == sha256)
    row = tx.scalar(query)
    if row is None:
        raise NotFoundError(NO_MODEL)
    uses = select(JobRow.seq).where(
        JobRow.tenant_id == tenant_id, JobRow.state.in_(WAITING), JobRow.model == sha256
    )
    if tx.scalar(uses.limit(1)) is not None:
        raise StateError(
            "cannot delete this model because a job that has not ended uses it; expected the end"
            " of the job, or its cancel"
        )
    tx.delete(row)


def check_quota(
    tx: Session, tenant_id: int, sha256: str, size_bytes: int, quota: ModelQuota
) -> None:
    """Raise QuotaError if the tenant has no room for a model; a stored model takes none.

    The row of the tenant is locked, so that two models do not take the same room.
    """
    tenant = tx.get_one(TenantRow, tenant_id, with_for_update=True)
    models = quota.models if tenant.max_models is None else tenant.max_models
    most = quota.size_bytes if tenant.max_models_bytes is None else tenant.max_models_bytes
    count, used = tx.execute(
        select(func.count(), func.coalesce(func.sum(ModelFileRow.size_bytes), 0))
        .select_from(ModelRow)
        .join(ModelFileRow, ModelFileRow.sha256 == ModelRow.sha256)
        .where(ModelRow.tenant_id == tenant_id, ModelRow.sha256 != sha256)
    ).one()
    if count >= models:
        raise QuotaError(
            "cannot store the model because of the quota of its tenant; expected at most"
            f" {models} models: delete one",
            RETRY_S,
        )
    if used + size_bytes > most:
        raise QuotaError(
            "cannot store the model because of the quota of its tenant; expected at most"
            f" {most} bytes of models: delete one",
            RETRY_S,
        )


def _of(tenant_id: int) -> Select[int, str, int, float, str, str]:
    return (
        select(
            ModelRow.seq, ModelRow.sha256, ModelFileRow.size_bytes, ModelRow.created_s,
            ModelFileRow.facts, ModelRow.name,
        )
        .join(ModelFileRow, ModelFileRow.sha256 == ModelRow.sha256)
        .where(ModelRow.tenant_id == tenant_id)
    )  # fmt: skip
