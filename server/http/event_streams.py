"""Event streams of jobs, as server-sent events or JSONL, resumable from any event number."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Literal

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from prometheus_client import Gauge

from ansorpy.server.http.event_poller import EventPoller, EventReader
from ansorpy.server.service.jobs import EventBatch, JobEvent
from ansorpy.server.service.slots import Slots

Format = Literal["sse", "jsonl"]

PING_S: Final = 15.0  # interval of keep-alive comments
RETRY_MS: Final = 1000  # time until a browser reconnects
MEDIA_TYPES: Final = {"sse": "text/event-stream", "jsonl": "application/x-ndjson"}

Read = Callable[[int], EventBatch]  # returns the stored events after a number


@dataclass
class EventStreams:
    """The open event streams of a process; callers of `follow` hold one of `slots` each."""

    poller: EventPoller
    most_s: float  # maximum duration of one stream
    slots: Slots
    gauge: Gauge
    clock: Callable[[], float] = time.monotonic

    async def follow(
        self,
        reader: EventReader,
        read: Read,
        first: EventBatch,
        form: Format,
        wait: bool,
    ) -> AsyncIterator[bytes]:
        """Yield the encoded events of a job.

        Args:
            first: the first batch; the caller has already read it, so that an unknown job is a
                404 and not a broken stream.
            wait: whether to wait for new events after the stored ones.
        """
        with self.gauge.track_inprogress():
            self.poller.subscribe(reader)
            try:
                async for chunk in self._chunks(reader, read, first, form, wait):
                    yield chunk
            finally:
                self.poller.unsubscribe(reader)

    async def _chunks(
        self, reader: EventReader, read: Read, batch: EventBatch, form: Format, wait: bool
    ) -> AsyncIterator[bytes]:
        end_s = self.clock() + self.most_s
        while batch.events and not reader.closed:
            reader.after = batch.events[-1].number
            yield b"".join(encode(event, form) for event in batch.events)
            batch = await run_in_threadpool(read, reader.after)
        if batch.ended or not wait:
            return
        reader.follows_live = True
        while self.clock() < end_s:
            try:
                async with asyncio.timeout(min(PING_S, end_s - self.clock())):
                    await reader.changed.wait()
            except TimeoutError:
                if form == "sse":
                    yield KEEPALIVE_COMMENT
                continue
            batch = reader.take()
            if batch.events:
                yield b"".join(encode(event, form) for event in batch.events)
            if batch.ended:
                return


def encode(event: JobEvent, form: Format) -> bytes:
    """Return the encoding of one event."""
    if form == "jsonl":
        return event.line.encode() + b"\n"
    return format_sse_event(
        data_str=event.line, event=event.kind, id=str(event.number), retry=RETRY_MS
    )
