"""Poller that reads new events from the database for all event streams of a process."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ansorpy.server.service.jobs import EventBatch

log = logging.getLogger(__name__)

VALID_S: Final = 2.0  # interval of the key check, so that streams of a revoked key end within 5 s
TURN: Final = 8  # readers woken per iteration of the event loop, to keep other requests responsive

# Given the last event number per job, return the new events per job.
ReadNewEvents = Callable[[Mapping[str, int]], Mapping[str, EventBatch]]
ValidKeys = Callable[[Collection[int]], set[int]]  # returns the subset of valid key ids


@dataclass(eq=False)
class EventReader:
    """One open stream: the number of its last event, and a batch that it has not taken yet."""

    job_id: str
    key_id: int | None  # None: the service needs no key
    after: int  # number of the last event taken
    follows_live: bool = False  # False while the stream still reads stored events by itself
    closed: bool = False  # the key is no longer valid, or the poller failed
    batch: EventBatch | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> EventBatch:
        """Return the pending events, and clear the slot for the next batch."""
        self.changed.clear()
        if self.closed:
            return EventBatch((), True)
        batch, self.batch = self.batch, None
        if batch is None:
            return EventBatch((), False)
        events = [event for event in batch.events if event.number > self.after]
        if events:
            self.after = events[-1].number
        return EventBatch(events, batch.ended)

    def end(self) -> None:
        """Close the stream, also while it still reads stored events."""
        self.closed = True
        self.changed.set()


@dataclass
class EventPoller:
    """Readers of a process, and the asyncio task that polls the database while there are any.

    Queries run on a thread of their own, so that streams never occupy the threads of requests.
    """

    read_new: ReadNewEvents
    valid_keys: ValidKeys
    poll_s: float
    clock: Callable[[], float] = time.monotonic
    _readers: dict[EventReader, None] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def subscribe(self, reader: EventReader) -> None:
        """Add a reader; start the task if it is the first one."""
        self._readers[reader] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._poll())

    def unsubscribe(self, reader: EventReader) -> None:
        """Remove a reader."""
        self._readers.pop(reader, None)

    async def close(self) -> None:
        """End all streams, and wait until the task has returned its database connection."""
        for reader in self._readers:
            reader.end()
        self._readers.clear()
        if self._task is not None:
            await asyncio.wait([self._task])  # cancelling would leave the query running

    async def _poll(self) -> None:
        thread = CapacityLimiter(1)
        checked_s, silent = self.clock(), False
        try:
            while self._readers:
                try:
                    if self.clock() - checked_s >= VALID_S:
                        await self._check_keys(thread)
                        checked_s = self.clock()
                    await self._read_events(thread)
                    silent = False
                except (OperationalError, PoolTimeoutError) as error:
                    if not silent:
                        log.warning("event poller: the database does not answer", exc_info=error)
                    silent = True
                await asyncio.sleep(self.poll_s)
        finally:
            self._task = None
            for reader in self._readers:  # not empty only after an error
                reader.end()

    async def _check_keys(self, thread: CapacityLimiter) -> None:
        ids = {reader.key_id for reader in self._readers if reader.key_id is not None}
        if not ids:
            return
        valid_keys = await run_sync(self.valid_keys, ids, limiter=thread)
        for reader in self._readers:
            if reader.key_id in ids - valid_keys:
                reader.end()

    async def _read_events(self, thread: CapacityLimiter) -> None:
        asked: dict[str, int] = {}
        for reader in self._readers:
            if reader.follows_live and reader.batch is None:
                asked[reader.job_id] = min(reader.after, asked.get(reader.job_id, reader.after))
        if not asked:
            return
        found = await run_sync(self.read_new, asked, limiter=thread)
        waiting = iter([reader for reader in self._readers if reader.job_id in found])
        while turn := list(islice(waiting, TURN)):
            for reader in turn:
                _deliver(reader, found[reader.job_id])
            await asyncio.sleep(0)


def _deliver(reader: EventReader, batch: EventBatch) -> None:
    """Give a batch to a reader that follows live and has taken its previous batch."""
    if not reader.follows_live or reader.batch is not None:
        return
    if batch.ended or (batch.events and batch.events[-1].number > reader.after):
        reader.batch = batch
        reader.changed.set()
