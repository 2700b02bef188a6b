"""Browser sessions: 256 random bits in a cookie, stored as their sha256.

A session represents the key of its login and is accepted in cookies only. The browser does not
store the key, so it cannot send the key to another service of the same host (ADR-0041).
"""

import secrets
from typing import Final

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from ansorpy.server.access import keys
from ansorpy.server.db.models import ApiKeyRow, SessionRow

MOST: Final = 64  # sessions of one key; the oldest are deleted
KEEP_S: Final = 7 * keys.DAY_S


def begin(tx: Session, key_id: int, now_s: float) -> str:
    """Add a session for a key, and return its secret."""
    tx.get_one(ApiKeyRow, key_id, with_for_update=True)  # logins of a key are counted in turn
    tx.execute(delete(SessionRow).where(SessionRow.expires_s <= now_s))
    newest = (
        select(SessionRow.sha256)
        .where(SessionRow.key_id == key_id)
        .order_by(SessionRow.created_s.desc(), SessionRow.sha256)
        .offset(MOST - 1)
        .limit(MOST)
    )
    for sha256 in tx.scalars(newest).all():
        tx.execute(delete(SessionRow).where(SessionRow.sha256 == sha256))
    secret = secrets.token_urlsafe(keys.SECRET_BYTES)
    row = SessionRow(
        sha256=keys.digest(secret), key_id=key_id, created_s=now_s, expires_s=now_s + KEEP_S
    )
    tx.add(row)
    return secret


def check(tx: Session, secret: str, now_s: float) -> keys.Grant | None:
    """Return the grant of the key of a session, or None if the session or key is invalid."""
    if len(secret) > keys.MAX_KEY_CHARS or not secret.isascii():
        return None
    key_id = (
        select(SessionRow.key_id)
        .where(SessionRow.sha256 == keys.digest(secret), SessionRow.expires_s > now_s)
        .scalar_subquery()
    )
    return keys.grant(tx, ApiKeyRow.id == key_id, now_s)


def end(tx: Session, secret: str) -> None:
    """Delete a session, if it exists."""
    tx.execute(delete(SessionRow).where(SessionRow.sha256 == keys.digest(secret)))
