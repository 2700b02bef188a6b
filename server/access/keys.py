"""API keys: 256 random bits, stored as their sha256, shown once.

A random key of 256 bits needs no slow hash. It is looked up by its digest, so that the time of the
comparison reveals nothing about the key.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from ansorpy.errors import SpecError
from ansorpy.server.db.models import ApiKeyRow, TenantRow
from ansorpy.target import listed

Scope = Literal["read", "tune", "admin"]

SCOPES: Final[tuple[Scope, ...]] = ("read", "tune", "admin")  # each includes the earlier ones
MARK: Final = "ansorpy"
PREFIX_CHARS: Final = 8
SECRET_BYTES: Final = 32
MAX_KEY_CHARS: Final = 128
DAY_S: Final = 86_400.0
BATCH: Final = 500  # ids per query; SQLite allows at least 999 parameters


@dataclass(frozen=True, slots=True)
class Grant:
    """Tenant, scopes and lifetime of a valid key."""

    tenant_id: int
    tenant: str
    scopes: frozenset[str]
    key_id: int
    expires_s: float | None
    used_s: float | None  # time of the last stored use


def create(
    tx: Session,
    tenant: str,
    scopes: Sequence[str],
    now_s: float,
    *,
    expires_s: float | None = None,
    label: str = "",
) -> tuple[str, ApiKeyRow]:
    """Add a key for a tenant, which is created if it is new; return the key and its row.

    Raises:
        SpecError: a scope or a name is invalid.
    """
    prefix = secrets.token_hex(PREFIX_CHARS // 2)
    key = f"{MARK}_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    row = _add(tx, key, prefix, tenant, scopes, now_s, expires_s, label)
    return key, row


def install(tx: Session, key: str, tenant: str, scopes: Sequence[str], now_s: float) -> None:
    """Add a key that was generated elsewhere, unless it already exists."""
    if not is_made(tx, key):
        _add(tx, key, digest(key)[:PREFIX_CHARS], tenant, scopes, now_s, None, "installed")


def is_made(tx: Session, key: str) -> bool:
    """Return whether a key was ever added, also if it is no longer valid."""
    return tx.scalar(select(ApiKeyRow.id).where(ApiKeyRow.sha256 == digest(key))) is not None


def _add(
    tx: Session,
    key: str,
    prefix: str,
    tenant: str,
    scopes: Sequence[str],
    now_s: float,
    expires_s: float | None,
    label: str,
) -> ApiKeyRow:
    wrong = [scope for scope in scopes if scope not in SCOPES]
    if wrong or not scopes:
        raise SpecError(
            f"cannot grant the scope {wrong[0] if wrong else ''!r} because it does not exist;"
            f" expected {listed(SCOPES)}"
        )
    if not 1 <= len(tenant) <= 64 or not tenant.isprintable():
        raise SpecError(
            f"cannot use the tenant name {tenant[:80]!r} because of its characters; expected 1 to"
            " 64 printable ones"
        )
    if len(label) > 80:
        raise SpecError(
            f"cannot store a label of {len(label)} characters because it is too long; expected at"
            " most 80"
        )
    owner = tx.scalar(select(TenantRow).where(TenantRow.name == tenant))
    if owner is None:
        owner = TenantRow(name=tenant, created_s=now_s)
        tx.add(owner)
        tx.flush()
    row = ApiKeyRow(
        tenant_id=owner.id, prefix=prefix, sha256=digest(key), scopes=",".join(sorted(set(scopes))),
        label=label, created_s=now_s, expires_s=expires_s,
    )  # fmt: skip
    tx.add(row)
    tx.flush()
    return row


def rotate(tx: Session, prefix: str, now_s: float, overlap_s: float) -> tuple[str, ApiKeyRow]:
    """Add a key with the scopes and lifetime of another, which ends after `overlap_s`.

    Raises:
        SpecError: the number of valid keys with this prefix is not 1.
    """
    old = find(tx, prefix, now_s)
    tenant = tx.get_one(TenantRow, old.tenant_id)
    lifetime_s = None if old.expires_s is None else old.expires_s - old.created_s
    key, row = create(
        tx, tenant.name, old.scopes.split(","), now_s,
        expires_s=None if lifetime_s is None else now_s + lifetime_s, label=old.label,
    )  # fmt: skip
    ends_s = now_s + overlap_s
    old.expires_s = ends_s if old.expires_s is None else min(old.expires_s, ends_s)
    return key, row


def revoke(tx: Session, prefix: str, now_s: float) -> ApiKeyRow:
    """Revoke a key.

    Raises:
        SpecError: the number of valid keys with this prefix is not 1.
    """
    row = find(tx, prefix, now_s)
    row.revoked_s = now_s
    return row


def find(tx: Session, prefix: str, now_s: float) -> ApiKeyRow:
    """Return the valid key with a prefix.

    Raises:
        SpecError: the number of valid keys with this prefix is not 1.
    """
    rows = [
        row
        for row in tx.scalars(select(ApiKeyRow).where(ApiKeyRow.prefix == prefix))
        if is_valid(row, now_s)
    ]
    if len(rows) != 1:
        raise SpecError(
            f"cannot choose a key because {len(rows)} valid ones begin with {prefix[:80]!r};"
            " expected 1"
        )
    return rows[0]


def listing(tx: Session) -> Sequence[tuple[ApiKeyRow, str]]:
    """Return every key with the name of its tenant, oldest first."""
    query = select(ApiKeyRow, TenantRow.name).join(TenantRow, TenantRow.id == ApiKeyRow.tenant_id)
    return [(row, name) for row, name in tx.execute(query.order_by(ApiKeyRow.id))]


def count(tx: Session) -> int:
    """Return the number of all keys, also expired and revoked ones; rows are never deleted."""
    return tx.scalar(select(func.count()).select_from(ApiKeyRow)) or 0


def count_valid(tx: Session, now_s: float) -> int:
    """Return the number of keys that are neither revoked nor expired."""
    query = select(func.count()).where(
        ApiKeyRow.revoked_s.is_(None),
        ApiKeyRow.expires_s.is_(None) | (ApiKeyRow.expires_s > now_s),
    )
    return tx.scalar(query) or 0


def check(tx: Session, key: str, now_s: float) -> Grant | None:
    """Return the grant of a key, or None if it is unknown, expired, revoked or malformed."""
    if len(key) > MAX_KEY_CHARS or not key.isascii():
        return None
    return grant(tx, ApiKeyRow.sha256 == digest(key), now_s)


def grant(tx: Session, which: ColumnElement[bool], now_s: float) -> Grant | None:
    """Return the grant of the key that matches a condition, or None if it is not usable."""
    for row, tenant in _usable(tx, which, now_s):
        scopes = with_included(row.scopes.split(","))
        return Grant(tenant.id, tenant.name, scopes, row.id, row.expires_s, row.used_s)
    return None


def still_valid(tx: Session, key_ids: Collection[int], now_s: float) -> set[int]:
    """Return the ids of the usable keys among `key_ids`."""
    found: set[int] = set()
    ids = sorted(key_ids)
    for begin in range(0, len(ids), BATCH):
        which = ApiKeyRow.id.in_(ids[begin : begin + BATCH])
        found |= {row.id for row, _ in _usable(tx, which, now_s)}
    return found


def note_use(tx: Session, key_id: int, now_s: float) -> None:
    """Store the time of the last use of a key."""
    tx.get_one(ApiKeyRow, key_id).used_s = now_s


def _usable(
    tx: Session, which: ColumnElement[bool], now_s: float
) -> list[tuple[ApiKeyRow, TenantRow]]:
    """Return the usable keys that match a condition, with their tenants.

    A usable key is valid, and its tenant is not disabled.
    """
    query = (
        select(ApiKeyRow, TenantRow)
        .join(TenantRow, TenantRow.id == ApiKeyRow.tenant_id)
        .where(which, TenantRow.disabled_s.is_(None))
    )
    return [(row, tenant) for row, tenant in tx.execute(query) if is_valid(row, now_s)]


def is_valid(row: ApiKeyRow, now_s: float) -> bool:
    """Return whether a key is neither revoked nor expired."""
    return row.revoked_s is None and (row.expires_s is None or row.expires_s > now_s)


def with_included(scopes: Sequence[str]) -> frozenset[str]:
    """Return the scopes together with all scopes that they include."""
    highest = max(SCOPES.index(scope) for scope in SCOPES if scope in scopes)
    return frozenset(SCOPES[: highest + 1])


def digest(key: str) -> str:
    """Return the sha256 of a key, in hex digits."""
    return sha256(key.encode()).hexdigest()
