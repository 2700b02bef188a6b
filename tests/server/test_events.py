import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest
from httpx2 import Response
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session
from starlette.types import ASGIApp, Message

from ansorpy.server.access import keys
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.models import ApiKeyRow, JobRow, TenantRow
from ansorpy.server.jobs import queries
from tests.server.databases import ON_SQLITE
from tests.server.process import SOON_S, until
from tests.server.service import MM, Service, package, service


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url, max_event_streams=1) as found:
        yield found


def parsed(text: str) -> list[dict[str, str]]:
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


def test_the_stream_of_an_ended_job_closes(running: Service) -> None:
    job_id, _ = running.succeed()
    reply = running.client.get(f"/v1/jobs/{job_id}/events")
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = parsed(reply.text)
    assert [event["event"] for event in events] == [
        "state", "state", "kernel", "finished", "state",
    ]  # fmt: skip
    assert [event["id"] for event in events] == ["1", "2", "3", "4", "5"]
    bodies = [json.loads(event["data"]) for event in events]
    assert [body.get("state") for body in bodies] == [
        "queued", "running", None, None, "succeeded",
    ]  # fmt: skip
    assert [body["id"] for body in bodies] == [1, 2, 3, 4, 5]


def test_a_stream_resumes_after_the_last_event(running: Service) -> None:
    job_id, _ = running.succeed()
    path = f"/v1/jobs/{job_id}/events"
    rest = running.client.get(path, headers={"Last-Event-ID": "3"})
    assert [event["id"] for event in parsed(rest.text)] == ["4", "5"]
    assert parsed(running.client.get(path, params={"after": 4}).text)[0]["id"] == "5"
    assert running.client.get(path, params={"after": 5}).text == ""
    assert running.client.get(path, headers={"Last-Event-ID": "x"}).status_code == 422


def test_jsonl_ends_with_the_stored_events(running: Service) -> None:
    job_id = running.submit()
    reply = running.client.get(f"/v1/jobs/{job_id}/events", params={"format": "jsonl"})
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    (event,) = map(json.loads, reply.text.splitlines())
    assert (event["id"], event["kind"], event["state"]) == (1, "state", "queued")


def test_a_stream_follows_events_of_another_process(url: str) -> None:
    with service(url, event_stream_s=20.0) as running:
        job_id = running.submit()

        def work() -> None:
            time.sleep(0.3)
            claimed = running.claim()
            running.deliver(claimed, package())
            time.sleep(0.3)
            running.finish(claimed)

        package()
        worker = threading.Thread(target=work)
        worker.start()
        reply = running.client.get(f"/v1/jobs/{job_id}/events")
        worker.join()
    assert [event["id"] for event in parsed(reply.text)] == ["1", "2", "3", "4", "5"]
    with service(url) as another:
        headers = {"Last-Event-ID": "4"}
        rest = another.client.get(f"/v1/jobs/{job_id}/events", headers=headers)
    assert [event["id"] for event in parsed(rest.text)] == ["5"]


def test_excess_streams_are_refused_and_closed_ones_do_not_count(url: str) -> None:
    with service(url, max_event_streams=1, event_stream_s=3600.0) as running:
        job_id = running.submit()
        path = f"/v1/jobs/{job_id}/events"
        follower, replies = opened(running, path, {})
        refused = running.client.get(path)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate")
        assert refused.headers["retry-after"] == "5"
        assert running.client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200
        follower.join()
        assert [reply.status_code for reply in replies] == [200]
        assert running.client.get(path).status_code == 200


@ON_SQLITE
def test_of_1000_streams_that_a_tenant_opens_at_once_64_are_let_in(url: str) -> None:
    with service(url, event_stream_s=3600.0) as running:
        path = f"/v1/jobs/{running.submit()}/events"
        portal = running.client.portal
        assert portal is not None
        statuses = portal.call(partial(statuses_at_once, running.client.app, path, 1000))
        assert statuses == {200: 64, 429: 936}
        assert running.client.head(path).status_code == 200
        assert running.client.get("/v1/jobs/0/events").status_code == 422
        streams = running.client.app.state.dependencies.streams  # type: ignore[attr-defined]
        assert streams.slots._taken.total() == 0


async def statuses_at_once(app: ASGIApp, path: str, count: int) -> Counter[int]:
    """Send equal requests at once, leave as soon as each has a status, return the statuses."""
    statuses: list[int] = []
    leave = asyncio.Event()

    async def receive() -> Message:
        await leave.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        if len(statuses) == count:
            leave.set()

    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode(),
        "root_path": "", "query_string": b"", "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    await asyncio.gather(*(app(dict(scope), receive, send) for _ in range(count)))
    return Counter(statuses)


def opened(
    running: Service, path: str, headers: dict[str, str]
) -> tuple[threading.Thread, list[Response]]:
    """Follow a job in a thread, and return when its stream is open."""
    replies: list[Response] = []
    streams = running.client.app.state.dependencies.streams  # type: ignore[attr-defined]
    before = streams.slots._taken.total()
    follower = threading.Thread(
        target=lambda: replies.append(running.client.get(path, headers=headers)), daemon=True
    )
    follower.start()
    until(lambda: streams.slots._taken.total() > before)
    return follower, replies


@pytest.mark.parametrize("end", ["revoked", "expired", "tenant disabled"])
def test_a_stream_ends_with_its_key(url: str, engine: Engine, end: str) -> None:
    with transaction(engine) as tx:
        key, row = keys.create(tx, "one", ("tune",), now(tx))
    headers = {"Authorization": f"Bearer {key}"}
    with service(url, event_stream_s=3600.0) as running:
        other = running.key("two", "tune")
        job_id = running.client.post("/v1/jobs", json={"text": MM}, headers=headers).json()["id"]
        theirs = running.client.post("/v1/jobs", json={"text": MM}, headers=other).json()["id"]
        follower, replies = opened(running, f"/v1/jobs/{job_id}/events", headers)
        staying, ended = opened(running, f"/v1/jobs/{theirs}/events", other)
        with transaction(engine) as tx:
            if end == "revoked":
                keys.revoke(tx, row.prefix, now(tx))
            elif end == "expired":
                tx.get_one(ApiKeyRow, row.id).expires_s = now(tx)
            else:
                tx.get_one(TenantRow, row.tenant_id).disabled_s = now(tx)
        follower.join(SOON_S)
        assert [parsed(reply.text)[-1]["id"] for reply in replies] == ["1"]
        with transaction(engine) as tx:
            queries.cancel(tx, tenant_of(tx, job_id), job_id, now(tx))
        assert ended == []
        assert staying.is_alive()  # the key of another tenant is still valid
        running.client.post(f"/v1/jobs/{theirs}/cancel", headers=other)
        staying.join(SOON_S)
        assert [parsed(reply.text)[-1]["id"] for reply in ended] == ["2"]


def tenant_of(tx: Session, job_id: str) -> int:
    found = tx.scalar(select(JobRow.tenant_id).where(JobRow.id == job_id))
    assert found is not None
    return found


def test_streams_of_a_service_are_limited(url: str) -> None:
    with service(url, event_stream_s=3600.0, max_event_streams_in_all=2) as running:
        job_id = running.submit()
        path = f"/v1/jobs/{job_id}/events"
        followers = [opened(running, path, {}) for _ in range(2)]
        refused = running.client.get(path)
        assert (refused.status_code, refused.json()["code"]) == (503, "full")
        assert refused.headers["retry-after"] == "5"
        running.client.post(f"/v1/jobs/{job_id}/cancel")
        for follower, replies in followers:
            follower.join(SOON_S)
            assert [event["id"] for event in parsed(replies[0].text)] == ["1", "2"]
        assert running.client.get(path).status_code == 200
