"""Events as they happen: server-sent events and JSONL, from the database, from any number on."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from prometheus_client import Gauge

from ansorpy.server.access.errors import RateError
from ansorpy.server.service.jobs import Followed, JobEvent

Format = Literal["sse", "jsonl"]

PING_S: Final = 15.0
RETRY_MS: Final = 1000  # when a browser whose stream ended comes back
RETRY_S: Final = 5
MEDIA_TYPES: Final = {"sse": "text/event-stream", "jsonl": "application/x-ndjson"}

Read = Callable[[int], Followed]  # events after a number


@dataclass
class Streams:
    """The open streams of a service."""

    poll_s: float
    most_s: float  # one stream lasts so long at most
    most: int  # streams of one tenant
    gauge: Gauge
    clock: Callable[[], float] = time.monotonic
    _open: Counter[int] = field(default_factory=Counter)

    def check(self, tenant_id: int) -> None:
        """Raise RateError where the tenant has as many streams as it may."""
        if self._open[tenant_id] >= self.most:
            raise RateError(f"{self.most} event streams are open", RETRY_S)

    async def follow(
        self, tenant_id: int, read: Read, first: Followed, after: int, form: Format, wait: bool
    ) -> AsyncIterator[bytes]:
        """Yield events in `form`.

        Args:
            first: what comes after number `after`; it was read already, so that an unknown job is
                a 404 and not a broken stream.
            wait: for what has not happened yet; else the stream ends with what there is.
        """
        self._open[tenant_id] += 1
        self.gauge.inc()
        try:
            async for chunk in self._chunks(read, first, after, form, wait):
                yield chunk
        finally:
            self._open[tenant_id] -= 1
            self.gauge.dec()

    async def _chunks(
        self, read: Read, found: Followed, after: int, form: Format, wait: bool
    ) -> AsyncIterator[bytes]:
        end_s = self.clock() + self.most_s
        told_s = self.clock()
        while True:
            if found.events:
                after, told_s = found.events[-1].number, self.clock()
                yield b"".join(encode(event, form) for event in found.events)
            elif found.ended or not wait or self.clock() >= end_s:
                return
            elif form == "sse" and self.clock() - told_s >= PING_S:
                told_s = self.clock()
                yield KEEPALIVE_COMMENT
            if not found.events:
                await asyncio.sleep(self.poll_s)
            found = await run_in_threadpool(read, after)


def encode(event: JobEvent, form: Format) -> bytes:
    """Return one event on the wire."""
    if form == "jsonl":
        return event.line.encode() + b"\n"
    return format_sse_event(
        data_str=event.line, event=event.kind, id=str(event.number), retry=RETRY_MS
    )
