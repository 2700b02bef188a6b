"""Authentication: from the key or session of a request to its principal, with a cache."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from ansorpy.server.access import keys, sessions
from ansorpy.server.access.errors import UnauthenticatedError
from ansorpy.server.db.engine import now, reading, transaction

CACHE_S: Final = 5.0  # lifetime of a cache entry, and so the delay of a revocation
CACHE_ENTRIES: Final = 1024
USED_S: Final = 60.0  # resolution of the stored time of last use
BEARER: Final = "bearer "
Kind = Literal["key", "session"]
KEY: Final[Kind] = "key"
SESSION: Final[Kind] = "session"
CHECKS: Final = {KEY: keys.check, SESSION: sessions.check}


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller of a request: its tenant and scopes."""

    tenant_id: int
    tenant: str
    scopes: frozenset[str]
    caller: str  # identity for rate limits; "": use the address
    key_id: int | None = None  # None: the service needs no key


@dataclass
class Authenticator:
    """Authenticates API keys and browser sessions.

    Valid secrets are cached for CACHE_S. A lookup only reads, so that invalid keys never take or
    wait for the write lock of the database.
    """

    engine: Engine
    local: Principal | None  # principal of requests without a key; None: keys are required
    clock: Callable[[], float] = time.monotonic
    _cache: OrderedDict[tuple[Kind, str], tuple[float, Principal]] = field(
        default_factory=OrderedDict
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def authenticate(self, secret: str | None, kind: Kind = KEY) -> Principal:
        """Return the principal of a key or of a session.

        Raises:
            UnauthenticatedError: the secret is invalid, or missing although keys are required.
        """
        if secret is None:
            if self.local is None:
                raise UnauthenticatedError(
                    "cannot answer because the request has no API key; expected the header"
                    " Authorization: Bearer KEY"
                )
            return self.local
        return self.cached(secret, kind) or self._look_up(secret, kind)

    def cached(self, secret: str, kind: Kind = KEY) -> Principal | None:
        """Return the cached principal of a secret, without a query."""
        with self._lock:
            until_s, principal = self._cache.get((kind, keys.digest(secret)), (0.0, None))
        return principal if self.clock() < until_s else None

    def valid_keys(self, key_ids: Collection[int]) -> set[int]:
        """Return the ids of the usable keys among `key_ids`, from the database."""
        with reading(self.engine) as tx:
            return keys.still_valid(tx, key_ids, now(tx))

    def forget(self, secret: str, kind: Kind) -> None:
        """Remove a secret from the cache."""
        with self._lock:
            self._cache.pop((kind, keys.digest(secret)), None)

    def sign_in(self, key: str) -> str:
        """Begin a session for a key, and return the secret of the session.

        Raises:
            UnauthenticatedError: the key is invalid.
        """
        key_id = self.authenticate(key).key_id
        assert key_id is not None, "the principal of a key has its id"
        with transaction(self.engine) as tx:
            return sessions.begin(tx, key_id, now(tx))

    def sign_out(self, session: str) -> None:
        """End a session; the caches of other processes expire within CACHE_S."""
        self.forget(session, SESSION)
        with transaction(self.engine) as tx:
            sessions.end(tx, session)

    def _look_up(self, secret: str, kind: Kind) -> Principal:
        with reading(self.engine) as tx:
            now_s = now(tx)
            grant = CHECKS[kind](tx, secret, now_s)
        if grant is None:
            self.forget(secret, kind)
            raise UnauthenticatedError(
                f"cannot accept this {kind} because it is unknown, expired or revoked; expected a"
                f" valid {kind}"
            )
        if grant.used_s is None or now_s - grant.used_s > USED_S:
            # A full disk: the time of the last use is told to people only.
            with suppress(OperationalError), transaction(self.engine) as tx:
                keys.note_use(tx, grant.key_id, now_s)
        principal = Principal(
            grant.tenant_id, grant.tenant, grant.scopes, f"key {grant.key_id}", grant.key_id
        )
        keep_s = CACHE_S if grant.expires_s is None else min(CACHE_S, grant.expires_s - now_s)
        self._store(secret, kind, principal, keep_s)
        return principal

    def _store(self, secret: str, kind: Kind, principal: Principal, keep_s: float) -> None:
        place = (kind, keys.digest(secret))
        with self._lock:
            self._cache[place] = (self.clock() + keep_s, principal)
            self._cache.move_to_end(place)
            while len(self._cache) > CACHE_ENTRIES:
                self._cache.popitem(last=False)


def bearer(header: str | None) -> str | None:
    """Return the key of an Authorization header, or None if there is no header.

    Raises:
        UnauthenticatedError: the scheme is not Bearer.
    """
    if header is None:
        return None
    if not header.lower().startswith(BEARER):
        raise UnauthenticatedError(
            "cannot read the header Authorization because of its scheme; expected Bearer"
        )
    return header[len(BEARER) :].strip()
