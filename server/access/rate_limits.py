"""Rate limits: a sliding window per caller and kind of request."""

import math
import time
from dataclasses import dataclass, field
from typing import Final, Literal

from limits import RateLimitItem, parse
from limits.storage import Storage, storage_from_string
from limits.strategies import SlidingWindowCounterRateLimiter

from ansorpy.server.access.errors import RateLimitError

Kind = Literal["read", "tune", "admin", "denied"]

MEMORY: Final = "memory://"


@dataclass(frozen=True)
class RateLimiter:
    """Rate limiter of the service; processes with a common `storage` share its counts.

    Args:
        rates: limits such as "120/minute", by kind of request.
        storage: a storage URI of the package `limits`.
    """

    rates: dict[Kind, str]
    storage: str = MEMORY
    _limiter: SlidingWindowCounterRateLimiter = field(init=False)
    _items: dict[Kind, RateLimitItem] = field(init=False)

    def __post_init__(self) -> None:
        storage = storage_from_string(self.storage)
        assert isinstance(storage, Storage)
        object.__setattr__(self, "_limiter", SlidingWindowCounterRateLimiter(storage))
        object.__setattr__(self, "_items", {kind: parse(r) for kind, r in self.rates.items()})

    def hit(self, kind: Kind, caller: str) -> None:
        """Count one request.

        Raises:
            RateLimitError: the limit is exceeded; has the seconds until the next allowed request.
        """
        if not self._limiter.hit(self._items[kind], kind, caller):
            raise self._error(kind, caller)

    def _error(self, kind: Kind, caller: str) -> RateLimitError:
        reset_s = self._limiter.get_window_stats(self._items[kind], kind, caller).reset_time
        wait_s = max(1, math.ceil(reset_s - time.time()))
        return RateLimitError(
            f"cannot answer because of too many {kind} requests; expected at most"
            f" {self._items[kind]}",
            wait_s,
        )
