"""The principal of a request: the tenant of a key or session, or `local` if none is needed."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Literal

from sqlalchemy import Engine

from ansorpy.server.access import keys, sessions
from ansorpy.server.access.errors import UnauthenticatedError
from ansorpy.server.db.engine import now, reading, transaction

CACHE_S: Final = 5.0  # how long a revoked key may go on
CACHE_ENTRIES: Final = 1024
USED_S: Final = 60.0  # the time of the last use is stored to the minute
BEARER: Final = "bearer "
Kind = Literal["key", "session"]
KEY: Final[Kind] = "key"
SESSION: Final[Kind] = "session"
CHECKS: Final = {KEY: keys.check, SESSION: sessions.check}


@dataclass(frozen=True, slots=True)
class Principal:
    """The tenant that a request speaks for, and what it may do."""

    tenant_id: int
    tenant: str
    scopes: frozenset[str]
    caller: str  # what its rates are counted under
    key_id: int | None = None  # the key behind it; None: the service needs no key


@dataclass
class Authenticator:
    """Admits keys and the sessions of browsers.

    A secret that was found good is not looked up again for REMEMBER_S. A lookup only reads, so
    that wrong keys never wait for the write lock of the database, nor hold it.
    """

    engine: Engine
    local: Principal | None  # whom a request without a key speaks for; None: keys are needed
    clock: Callable[[], float] = time.monotonic
    _cache: OrderedDict[tuple[Kind, str], tuple[float, Principal]] = field(
        default_factory=OrderedDict
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def authenticate(self, secret: str | None, kind: Kind = KEY) -> Principal:
        """Return the principal of a key or of a session.

        Raises:
            DeniedError: there is no key although one is needed, or it is not valid.
        """
        if secret is None:
            if self.local is None:
                raise UnauthenticatedError("a key is needed: Authorization: Bearer ...")
            return self.local
        return self.cached(secret, kind) or self._look_up(secret, kind)

    def cached(self, secret: str, kind: Kind = KEY) -> Principal | None:
        """Return the principal of a secret that was good a moment ago, without a query."""
        with self._lock:
            until_s, principal = self._cache.get((kind, keys.digest(secret)), (0.0, None))
        return principal if self.clock() < until_s else None

    def valid_keys(self, key_ids: Collection[int]) -> set[int]:
        """Return those of the keys that the database has as valid now."""
        with reading(self.engine) as tx:
            return keys.still_valid(tx, key_ids, now(tx))

    def forget(self, secret: str, kind: Kind) -> None:
        """Look a secret up again the next time that it comes."""
        with self._lock:
            self._cache.pop((kind, keys.digest(secret)), None)

    def sign_in(self, key: str) -> str:
        """Begin a session of a key; return its secret.

        Raises:
            DeniedError: the key is not valid.
        """
        key_id = self.authenticate(key).key_id
        assert key_id is not None, "a principal that was admitted by a key has its number"
        with transaction(self.engine) as tx:
            return sessions.begin(tx, key_id, now(tx))

    def sign_out(self, session: str) -> None:
        """End a session; other processes forget it within REMEMBER_S."""
        self.forget(session, SESSION)
        with transaction(self.engine) as tx:
            sessions.end(tx, session)

    def _look_up(self, secret: str, kind: Kind) -> Principal:
        with reading(self.engine) as tx:
            now_s = now(tx)
            grant = CHECKS[kind](tx, secret, now_s)
        if grant is None:
            self.forget(secret, kind)
            raise UnauthenticatedError(f"this {kind} is not valid (any more)")
        if grant.used_s is None or now_s - grant.used_s > USED_S:
            with transaction(self.engine) as tx:
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
    """Return the key of an Authorization header; None where there is no such header.

    Raises:
        DeniedError: another scheme.
    """
    if header is None:
        return None
    if not header.lower().startswith(BEARER):
        raise UnauthenticatedError("Authorization: only the scheme Bearer is known")
    return header[len(BEARER) :].strip()
