"""The event poller: its queries, and the events of each reader."""

import asyncio
import threading
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from sqlalchemy.exc import OperationalError

from ansorpy.server.http.event_poller import EventPoller, EventReader
from ansorpy.server.service.jobs import EventBatch, JobEvent
from tests.server.process import SOON_S


@dataclass
class Source:
    """A fake database of jobs with events, and of keys."""

    last: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    keys: set[int] = field(default_factory=set)
    asked: list[Mapping[str, int]] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def read_new(self, after: Mapping[str, int]) -> Mapping[str, EventBatch]:
        self.asked.append(dict(after))
        if self.errors:
            raise self.errors.pop()
        found = {}
        for job_id, number in after.items():
            events = [JobEvent(n, "state", "{}") for n in range(number + 1, self.last[job_id] + 1)]
            if events or job_id in self.ended:
                found[job_id] = EventBatch(events, job_id in self.ended)
        return found

    def valid_keys(self, ids: Collection[int]) -> set[int]:
        return self.keys & set(ids)


@asynccontextmanager
async def feeding(source: Source, *readers: EventReader) -> AsyncIterator[EventPoller]:
    feed = EventPoller(source.read_new, source.valid_keys, poll_s=0.001)
    for reader in readers:
        feed.subscribe(reader)
    try:
        async with asyncio.timeout(SOON_S):
            yield feed
    finally:
        for reader in readers:
            feed.unsubscribe(reader)
        while feed._task is not None:
            await asyncio.sleep(0.001)


async def taken(reader: EventReader) -> list[int]:
    await reader.changed.wait()
    return [event.number for event in reader.take().events]


def test_a_thousand_readers_are_one_query() -> None:
    async def run() -> None:
        source = Source({"a": 2, "b": 1})
        readers = [EventReader("ab"[n % 2], None, 1, follows_live=True) for n in range(1000)]
        async with feeding(source, *readers):
            found = await asyncio.gather(*(taken(reader) for reader in readers[::2]))
        assert found == [[2]] * 500
        assert source.asked[0] == {"a": 1, "b": 1}
        assert all(reader.batch is None for reader in readers[1::2])

    asyncio.run(run())


def test_each_reader_gets_each_event_once_in_order() -> None:
    async def run() -> None:
        source = Source({"a": 3})
        readers = [EventReader("a", None, after, follows_live=True) for after in (0, 1, 2, 3)]
        seen: list[list[int]] = [[], [], [], []]

        async def follow(reader: EventReader, numbers: list[int]) -> None:
            while reader.after < 20:
                numbers += await taken(reader)

        async with feeding(source, *readers), asyncio.TaskGroup() as tasks:
            for reader, numbers in zip(readers, seen, strict=True):
                tasks.create_task(follow(reader, numbers))
            while source.last["a"] < 20:
                await asyncio.sleep(0.002)
                source.last["a"] += 1
        assert seen == [list(range(after + 1, 21)) for after in (0, 1, 2, 3)]

    asyncio.run(run())


def test_an_idle_reader_does_not_delay_others() -> None:
    async def run() -> None:
        source = Source({"a": 1})
        slow, quick = (
            EventReader("a", None, 0, follows_live=True),
            EventReader("a", None, 0, follows_live=True),
        )
        async with feeding(source, slow, quick):
            for number in range(1, 10):
                source.last["a"] = number
                assert await taken(quick) == [number]
            assert await taken(slow) == [1]
            assert await taken(slow) == list(range(2, 10))

    asyncio.run(run())


def test_readers_of_stored_events_are_not_polled() -> None:
    async def run() -> None:
        source = Source({"a": 5, "b": 0}, ended={"b"})
        old, follows_live = EventReader("a", None, 0), EventReader("b", None, 0, follows_live=True)
        async with feeding(source, old, follows_live):
            await follows_live.changed.wait()
            assert follows_live.take() == EventBatch([], True)
        assert all(list(asked) == ["b"] for asked in source.asked)

    asyncio.run(run())


def test_streams_of_an_invalid_key_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        source = Source({"a": 0}, keys={1, 2})
        good, bad, free = (EventReader("a", key, 0, follows_live=True) for key in (1, 2, None))
        catching_up = EventReader("a", 2, 0)
        async with feeding(source, good, bad, free, catching_up):
            source.keys.remove(2)
            await bad.changed.wait()
            await catching_up.changed.wait()
            assert [r.closed for r in (good, bad, free, catching_up)] == [False, True, False, True]

    monkeypatch.setattr("ansorpy.server.http.event_poller.VALID_S", 0.01)
    asyncio.run(run())


def test_an_unreachable_database_is_retried_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        away = [OperationalError("SELECT", {}, Exception("away")) for _ in range(20)]
        reader = EventReader("a", None, 0, follows_live=True)
        async with feeding(Source({"a": 1}, errors=list(away)), reader):
            assert await taken(reader) == [1]

    asyncio.run(run())
    assert len(caplog.records) == 1


def test_an_error_of_the_poller_ends_its_streams_and_the_next_reader_restarts_it() -> None:
    async def run() -> None:
        source = Source({"a": 1}, errors=[ZeroDivisionError()])
        first, second = (
            EventReader("a", None, 0, follows_live=True),
            EventReader("a", None, 0, follows_live=True),
        )
        async with feeding(source, first) as feed:
            failing = feed._task
            await first.changed.wait()
            assert first.closed
            assert failing is not None
            assert isinstance(failing.exception(), ZeroDivisionError)
            feed.unsubscribe(first)
            feed.subscribe(second)
            assert await taken(second) == [1]
            feed.unsubscribe(second)

    asyncio.run(run())


def test_closing_waits_for_the_current_query() -> None:
    asked, answer = threading.Event(), threading.Event()
    order: list[str] = []

    class Slow(Source):
        def read_new(self, after: Mapping[str, int]) -> Mapping[str, EventBatch]:
            asked.set()
            assert answer.wait(SOON_S)
            order.append("looked")
            return super().read_new(after)

    async def run() -> None:
        reader = EventReader("job", None, 0, follows_live=True)
        async with feeding(Slow(last={"job": 0}), reader) as feed:
            assert await asyncio.to_thread(asked.wait, SOON_S)
            closing = asyncio.create_task(feed.close())
            await asyncio.sleep(0)
            answer.set()
            await closing
            order.append("closed")
            assert reader.closed
            await feed.close()  # a second close does nothing

    asyncio.run(run())
    assert order == ["looked", "closed"]
