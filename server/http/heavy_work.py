"""Threads for requests that compute for long: few in all, one of each tenant at once.

The interpreter runs one thread at a time, so that more of them would delay every other request, and
would end no earlier. Requests wait in the event loop, where they take no thread of the others.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request
from starlette.requests import ClientDisconnect

T = TypeVar("T")


@dataclass(frozen=True)
class HeavyWork:
    """The threads of one kind of request.

    Args:
        threads: tenants that compute at once; the others wait, in the order of their requests.
    """

    threads: CapacityLimiter
    _turns: defaultdict[int, asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock)
    )

    async def run(self, request: Request, tenant_id: int, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs in a thread as soon as it is its turn.

        Raises:
            ClientDisconnect: the client has left before; the work is not begun.
        """
        async with self._turns[tenant_id], self.threads:
            if await request.is_disconnected():
                raise ClientDisconnect
            return await run_sync(work, limiter=CapacityLimiter(1))
