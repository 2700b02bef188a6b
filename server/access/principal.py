"""Who asks: the holder of a key, or whoever reaches a service that needs none."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Engine

from ansorpy.server.access import keys
from ansorpy.server.access.errors import DeniedError
from ansorpy.server.db.engine import now, transaction

REMEMBER_S: Final = 5.0  # how long a revoked key may go on
REMEMBERED: Final = 1024
BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Principal:
    """The tenant that a request speaks for, and what it may do."""

    tenant_id: int
    tenant: str
    scopes: frozenset[str]
    caller: str  # what its rates are counted under


@dataclass
class Gate:
    """Says who asks. A key that was found good is not looked up again for a few seconds."""

    engine: Engine
    local: Principal | None  # whom a request without a key speaks for; None: keys are needed
    clock: Callable[[], float] = time.monotonic
    _known: OrderedDict[str, tuple[float, Principal]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, key: str | None) -> Principal:
        """Return who holds a key.

        Raises:
            DeniedError: there is no key where one is needed, or it is not valid.
        """
        if key is None:
            if self.local is None:
                raise DeniedError("a key is needed: Authorization: Bearer ...")
            return self.local
        return self.remembered(key) or self._look_up(key, keys.digest(key))

    def remembered(self, key: str) -> Principal | None:
        """Return who holds a key that was good a moment ago, without asking the database."""
        with self._lock:
            until_s, principal = self._known.get(keys.digest(key), (0.0, None))
        return principal if self.clock() < until_s else None

    def _look_up(self, key: str, digest: str) -> Principal:
        with transaction(self.engine) as tx:
            now_s = now(tx)
            grant = keys.check(tx, key, now_s)
        if grant is None:
            with self._lock:
                self._known.pop(digest, None)
            raise DeniedError("this key is not valid (any more)")
        principal = Principal(grant.tenant_id, grant.tenant, grant.scopes, f"key {grant.key_id}")
        keep_s = REMEMBER_S if grant.expires_s is None else min(REMEMBER_S, grant.expires_s - now_s)
        with self._lock:
            self._known[digest] = (self.clock() + keep_s, principal)
            self._known.move_to_end(digest)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return principal


def bearer(header: str | None) -> str | None:
    """Return the key of an Authorization header; None where there is no such header.

    Raises:
        DeniedError: another scheme.
    """
    if header is None:
        return None
    if not header.lower().startswith(BEARER):
        raise DeniedError("Authorization: only the scheme Bearer is known")
    return header[len(BEARER) :].strip()
