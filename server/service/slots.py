"""A bounded number of operations at once: of one tenant, and of all together."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from ansorpy.server.access.errors import OverloadedError, RateLimitError

RETRY_S: Final = 5  # Retry-After if all slots are taken


@dataclass
class Slots:
    """Slots of one kind of operation.

    Args:
        action: the operation, for messages: "cannot {action} because ...".
        most: operations of one tenant.
        most_in_all: operations of all tenants.
    """

    action: str
    most: int
    most_in_all: int
    _taken: Counter[int] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def check(self, tenant_id: int) -> None:
        """Raise an error if no slot is free; `taken` checks again, with the lock.

        Raises:
            RateLimitError: the tenant has reached its limit.
            OverloadedError: the service has reached its limit.
        """
        if self._taken[tenant_id] >= self.most:
            raise RateLimitError(
                f"cannot {self.action} because {self.most} of this tenant are in progress;"
                " expected fewer: try again later",
                RETRY_S,
            )
        if self._taken.total() >= self.most_in_all:
            raise OverloadedError(
                f"cannot {self.action} because {self.most_in_all} are in progress; expected"
                " fewer: try again later",
                RETRY_S,
            )

    @contextmanager
    def taken(self, tenant_id: int) -> Iterator[None]:
        """Take a slot for the block.

        Raises:
            RateLimitError, OverloadedError: as `check`.
        """
        with self._lock:
            self.check(tenant_id)
            self._taken[tenant_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[tenant_id] -= 1
