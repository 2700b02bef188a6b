import os
import signal
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from ansorpy.errors import SpecError
from ansorpy.events import Derived, Event, Finished, RoundDone, TaskResult, TimeSpent
from ansorpy.te.text import parse
from server.app import create_app
from server.db.engine import transaction
from server.db.models import JobRow
from server.db.upgrade import open_database
from server.jobs import lease, queries
from server.jobs.submission import Submission
from server.settings import Settings
from server.worker import Tune, Worker

MM = "def mm(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
DERIVED = Derived("mm", 3, 9, 0.1)
ROUND = RoundDone("mm", 1, 16, 1e-3, {"wrong": 1}, {}, TimeSpent())


def result(kernel: Path | None) -> TaskResult:
    won = kernel is not None
    return TaskResult(
        "mm", "key", 1e-3 if won else None, 2e-3 if won else None, 16, 1.0, won,
        "tuned" if won else None, kernel, 240, failures={"wrong": 1},
        examples={"wrong": "C[0] is 1, not 2"},
    )  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, heartbeat_s=0.05, lease_s=30.0)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    engine = open_database(settings.url)
    yield engine
    engine.dispose()


@pytest.fixture
def job_id(engine: Engine) -> str:
    with transaction(engine) as tx:
        return queries.submit(tx, 1, Submission(parse(MM)), 0.0).job.id


def job(engine: Engine, job_id: str) -> JobRow:
    with transaction(engine) as tx:
        return queries.find(tx, 1, job_id)


@pytest.fixture
def worker(settings: Settings, engine: Engine) -> Callable[[Tune], Worker]:
    return lambda tune: Worker(settings, engine, "w", tune, threading.Event())


def good(_request: Submission, _store: object, out: Path) -> Iterator[Event]:
    yield DERIVED
    yield ROUND
    path = out / "mm.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("manifest.json", "{}")
    yield Finished((result(path),), 1.0, "trials")


def test_a_job_is_run_and_its_kernel_kept(
    worker: Callable[[Tune], Worker], engine: Engine, job_id: str
) -> None:
    assert worker(good).run_one()
    row = job(engine, job_id)
    assert (row.state, row.trials_done) == ("succeeded", 16)
    with transaction(engine) as tx:
        (kernel,) = queries.kernels_of(tx, 1, job_id)
        package = queries.package(tx, 1, kernel.sha256)
        assert (kernel.task, package.manifest, package.content[:2]) == ("mm", "{}", b"PK")


def test_without_a_job_there_is_nothing_to_do(worker: Callable[[Tune], Worker]) -> None:
    assert not worker(good).run_one()


def test_a_job_without_survivors_fails_with_the_reasons(
    worker: Callable[[Tune], Worker], engine: Engine, job_id: str
) -> None:
    def hopeless(_request: Submission, _store: object, _out: Path) -> Iterator[Event]:
        yield Finished((result(None),), 1.0, "trials")

    worker(hopeless).run_one()
    row = job(engine, job_id)
    assert (row.state, row.reason) == (
        "failed",
        "no candidate survived: wrong: C[0] is 1, not 2",
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SpecError("more than 2048 sketches"), "more than 2048 sketches"),
        (ZeroDivisionError("oh"), "internal error: ZeroDivisionError: oh"),
    ],
)
def test_an_error_fails_the_job_and_not_the_worker(
    worker: Callable[[Tune], Worker], engine: Engine, job_id: str, error: Exception, message: str
) -> None:
    def broken(_request: Submission, _store: object, _out: Path) -> Iterator[Event]:
        yield DERIVED
        raise error

    assert worker(broken).run_one()
    assert (job(engine, job_id).state, job(engine, job_id).reason) == ("failed", message)


def test_a_worker_that_is_asked_to_stop_gives_the_job_back(
    settings: Settings, engine: Engine, job_id: str
) -> None:
    stop = threading.Event()

    def stopping(_request: Submission, _store: object, _out: Path) -> Iterator[Event]:
        yield DERIVED
        stop.set()
        yield ROUND

    Worker(settings, engine, "w", stopping, stop).run_one()
    assert (job(engine, job_id).state, job(engine, job_id).lost) == ("queued", 0)


def test_a_worker_that_lost_its_lease_writes_nothing(
    worker: Callable[[Tune], Worker], engine: Engine, job_id: str
) -> None:
    def robbed(_request: Submission, _store: object, out: Path) -> Iterator[Event]:
        with transaction(engine) as tx:
            assert lease.recover(tx, time.time(), 3, "w") == 1
        yield from good(_request, _store, out)

    worker(robbed).run_one()
    row = job(engine, job_id)
    assert (row.state, row.progress, row.results) == ("queued", "{}", "[]")


def test_the_lease_is_kept_while_a_round_takes_long(
    worker: Callable[[Tune], Worker], engine: Engine, job_id: str
) -> None:
    leases: list[float] = []

    def slow(_request: Submission, _store: object, out: Path) -> Iterator[Event]:
        leases.append(job(engine, job_id).lease_until_s)
        for _ in range(100):
            time.sleep(0.02)
            leases.append(job(engine, job_id).lease_until_s)
            if leases[-1] > leases[0]:
                break
        yield from good(_request, _store, out)

    worker(slow).run_one()
    assert leases[-1] > leases[0]


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_job_fails_after_three(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, poll_s=0.05)
    app = create_app(settings)
    killed: set[int] = set()
    with TestClient(app) as client:
        # A budget that no test waits for: every worker that takes the job is killed in it.
        body = {"text": MM, "seconds": 3600.0, "trials": 100_000}
        job_id = client.post("/v1/jobs", json=body).json()["id"]
        end_s = time.monotonic() + 120
        while time.monotonic() < end_s:
            state = client.get(f"/v1/jobs/{job_id}").json()
            if state["state"] == "failed":
                break
            pid = client.get("/healthz").json().get("pid")
            if state["state"] == "running" and pid not in killed and pid is not None:
                killed.add(int(pid))
                os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)
    assert state["state"] == "failed"
    assert "lost 3 times" in state["error"]
    assert len(killed) == 3


@pytest.mark.slow
@pytest.mark.measure
def test_the_service_tunes_with_its_own_worker(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, poll_s=0.05)
    with TestClient(create_app(settings)) as client:
        job_id = client.post("/v1/jobs", json={"text": MM, "trials": 2}).json()["id"]
        end_s = time.monotonic() + 120
        state = client.get(f"/v1/jobs/{job_id}").json()
        while state["state"] in ("queued", "running") and time.monotonic() < end_s:
            time.sleep(0.1)
            state = client.get(f"/v1/jobs/{job_id}").json()
        assert state["state"] == "succeeded", state
        (task,) = state["tasks"]
        assert task["verified"]
        zipped = client.get(task["kernel"])
        assert zipped.content[:2] == b"PK"
