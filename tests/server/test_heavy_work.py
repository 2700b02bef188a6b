"""Heavy requests: few threads, a turn of each tenant, and no thread that other requests need."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from anyio import CapacityLimiter
from fastapi import Request
from httpx2 import Response
from starlette.requests import ClientDisconnect
from starlette.types import Message

from ansorpy.server.http.heavy_work import HeavyWork
from ansorpy.server.service import explain
from ansorpy.sketch import Derivation, derive
from tests.server.databases import ON_SQLITE
from tests.server.process import SOON_S
from tests.server.service import MM, Service, service
from tests.server.test_explain import NET

THREADS = 40  # threads of FastAPI for all other requests


def request(left: bool = False) -> Request:
    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "path": "/", "headers": []}, receive)


def test_a_tenant_computes_once_at_a_time_beside_another() -> None:
    running: Counter[int] = Counter()
    both = threading.Barrier(2)

    def work(tenant_id: int) -> int:
        running[tenant_id] += 1
        both.wait(SOON_S)
        assert running[tenant_id] == 1
        running[tenant_id] -= 1
        return tenant_id

    async def main() -> list[int]:
        heavy = HeavyWork(CapacityLimiter(2))
        turns = (heavy.run(request(), n, partial(work, n)) for n in (1, 1, 1, 2, 2, 2))
        return await asyncio.gather(*turns)

    assert asyncio.run(main()) == [1, 1, 1, 2, 2, 2]


def test_work_of_a_client_that_left_is_not_begun() -> None:
    async def main() -> None:
        await HeavyWork(CapacityLimiter(1)).run(request(left=True), 1, lambda: 1 / 0)

    with pytest.raises(ClientDisconnect):
        asyncio.run(main())


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def at_once(running: Service, path: str, count: int) -> list[Response]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: running.client.get(path), range(count)))


@ON_SQLITE
@pytest.mark.parametrize("sketches", [0, explain.SKETCHES])
def test_equal_explanations_at_once_are_derived_once(
    running: Service, monkeypatch: pytest.MonkeyPatch, sketches: int
) -> None:
    """Also refusals, which are kept as derivations are."""
    derived: list[Derivation | str] = []

    def counted(*given: object) -> Derivation:
        derived.append("begun")
        return derive(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(explain, "derive", counted)
    monkeypatch.setattr(explain, "SKETCHES", sketches)
    path = f"/v1/jobs/{running.submit(text=NET)}/explain"
    replies = at_once(running, path, 12)
    assert {reply.status_code for reply in replies} == {200 if sketches else 422}
    assert len({reply.text for reply in replies}) == 1
    assert running.client.get(path).text == replies[0].text
    assert len(derived) == 1


@ON_SQLITE
def test_a_derivation_that_takes_too_long_is_refused_and_kept(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/jobs/{running.submit(text=NET)}/explain"
    monkeypatch.setattr(explain, "DERIVE_S", -1.0)
    refused = running.client.get(path)
    assert refused.status_code == 422
    assert "expected at most 512, derived within" in refused.json()["detail"]
    monkeypatch.undo()
    assert running.client.get(path).text == refused.text


def test_the_oldest_answers_of_each_kind_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "REFUSALS", 2)
    kept, made = explain.KeptAnswers(), []

    def ask(name: str) -> str:
        def derived() -> str:
            made.append(name)
            return name

        return str(kept.get((name,), derived))

    assert [ask(name) for name in "abacab"] == list("abacab")
    assert made == list("abcb")  # when c came, a was newer than b


@ON_SQLITE
def test_waiting_explanations_leave_the_threads_of_other_requests(running: Service) -> None:
    kept = running.client.app.state.dependencies.explain.kept  # type: ignore[attr-defined]
    path = f"/v1/jobs/{running.submit(text=MM)}/explain"
    with ThreadPoolExecutor(2 * THREADS) as pool:
        with kept._lock:  # a derivation that does not end
            waiting = [pool.submit(running.client.get, path) for _ in range(2 * THREADS)]
            assert running.client.get("/v1/jobs").status_code == 200
            assert running.client.post("/v1/jobs", json={"text": MM}).status_code == 202
            assert not any(one.done() for one in waiting)
        assert {one.result().status_code for one in waiting} == {200}
