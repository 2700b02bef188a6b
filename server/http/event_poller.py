"""One poller of the database for all event streams of a process."""

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

VALID_S: Final = 2.0  # between two looks at the keys of open streams; they end within 5 s
TURN: Final = 8  # readers that are woken before other requests have their turn

ReadNewEvents = Callable[
    [Mapping[str, int]], Mapping[str, EventBatch]
]  # by job, after an event number
ValidKeys = Callable[[Collection[int]], set[int]]  # those of the keys that can be used now


@dataclass(eq=False)
class EventReader:
    """One open stream: the events that it has, and those that it has not taken yet."""

    job_id: str
    key_id: int | None  # None: no key is needed
    after: int  # the number of its last event
    follows_live: bool = False  # False: it still reads pages of old events by itself
    closed: bool = False  # its key is not valid any more, or the poller failed
    found: EventBatch | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> EventBatch:
        """Return the events that were found, and make room for the next ones."""
        self.changed.clear()
        if self.closed:
            return EventBatch((), True)
        found, self.found = self.found, None
        if found is None:
            return EventBatch((), False)
        events = [event for event in found.events if event.number > self.after]
        if events:
            self.after = events[-1].number
        return EventBatch(events, found.ended)

    def end(self) -> None:
        """End the stream before its next event; `over` also ends the reading of old events."""
        self.closed = True
        self.changed.set()


@dataclass
class EventPoller:
    """The readers of a process, and the task that looks for their events while there are any.

    It has one thread of its own, so that the threads of other requests never wait for streams.
    """

    read_new: ReadNewEvents
    valid_keys: ValidKeys
    poll_s: float
    clock: Callable[[], float] = time.monotonic
    _readers: dict[EventReader, None] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def subscribe(self, reader: EventReader) -> None:
        """Look for events of a reader from now on."""
        self._readers[reader] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._poll())

    def unsubscribe(self, reader: EventReader) -> None:
        """Forget a reader."""
        self._readers.pop(reader, None)

    async def close(self) -> None:
        """End all streams, and wait until the poller has given its connection back."""
        for reader in self._readers:
            reader.end()
        self._readers.clear()
        if self._task is not None:
            await asyncio.wait([self._task])  # to cancel it would leave its thread at work

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
                        log.warning("event streams: no answer of the database", exc_info=error)
                    silent = True
                await asyncio.sleep(self.poll_s)
        finally:
            self._task = None
            for reader in self._readers:  # there are none, unless the poller was ended
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
            if reader.follows_live and reader.found is None:
                asked[reader.job_id] = min(reader.after, asked.get(reader.job_id, reader.after))
        if not asked:
            return
        found = await run_sync(self.read_new, asked, limiter=thread)
        waiting = iter([reader for reader in self._readers if reader.job_id in found])
        while turn := list(islice(waiting, TURN)):
            for reader in turn:
                _deliver(reader, found[reader.job_id])
            await asyncio.sleep(0)


def _deliver(reader: EventReader, found: EventBatch) -> None:
    """Hand the events of its job to a reader that has taken the ones before."""
    if not reader.follows_live or reader.found is not None:
        return
    if found.ended or (found.events and found.events[-1].number > reader.after):
        reader.found = found
        reader.changed.set()
