"""How often somebody may ask: a sliding window per caller and kind of request."""

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
    """The rates of a service; several processes share them where `storage` is shared.

    Args:
        rates: such as "120/minute", by kind of request.
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
            RateError: it is one too many; with the seconds until the next one may come.
        """
        if not self._limiter.hit(self._items[kind], kind, caller):
            raise self._error(kind, caller)

    def test(self, kind: Kind, caller: str) -> None:
        """Count nothing.

        Raises:
            RateError: another request would be one too many.
        """
        if not self._limiter.test(self._items[kind], kind, caller):
            raise self._error(kind, caller)

    def _error(self, kind: Kind, caller: str) -> RateLimitError:
        reset_s = self._limiter.get_window_stats(self._items[kind], kind, caller).reset_time
        wait_s = max(1, math.ceil(reset_s - time.time()))
        return RateLimitError(f"more than {self._items[kind]} ({kind} requests)", wait_s)
