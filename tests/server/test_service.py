"""The service with its worker, tuner process and measuring processes."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import ansorpy
from ansorpy.measure.cores import slot_cores, usable_cores
from ansorpy.server.app import create_app
from ansorpy.server.db.engine import reading
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.jobs import queries
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.tuner_process import children
from tests.server.onnx_models import small
from tests.server.process import process

MM = "def mm(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
OTHER = "def mv(float(7,8) A, float(8) B) -> (C) { C(i) +=! A(i,k) * B(k) }"
POLL_S = 0.2  # a poll takes milliseconds of the processor that the job needs
ENDED = ("succeeded", "failed", "cancelled")


def polled(client: TestClient, job_id: str, holds: Callable[[Any], bool], limit_s: float) -> Any:
    """Return a job once a condition holds for it, or as it is when the time is up."""
    end_s = time.monotonic() + limit_s
    while True:
        job = client.get(f"/v1/jobs/{job_id}").json()
        if holds(job) or time.monotonic() > end_s:
            return job
        time.sleep(POLL_S)


def wait_for(client: TestClient, job_id: str, *states: str, limit_s: float = 240.0) -> Any:
    return polled(client, job_id, lambda job: job["state"] in states, limit_s)


def lease_owner(settings: ServiceSettings, job_id: str) -> str:
    engine = open_database(settings.url)
    with reading(engine) as tx:
        owner = queries.find(tx, 1, job_id).lease_owner
    engine.dispose()
    return owner


@pytest.mark.night
def test_a_killed_worker_is_replaced_and_its_job_is_poison_after_three(tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path, poll_s=0.05)
    killed: set[int] = set()
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        # A large budget: every worker of the job is killed before its end.
        body = {"text": MM, "budget": {"seconds": 3600.0, "trials": 100_000}}
        job_id = client.post("/v1/jobs", json=body).json()["id"]
        end_s = time.monotonic() + 800
        while (job := wait_for(client, job_id, "running", "failed"))["state"] == "running":
            assert time.monotonic() < end_s
            owner = ProcessIdentity.of(lease_owner(settings, job_id))
            if owner is not None and owner.pid not in killed:
                killed.add(owner.pid)
                os.kill(owner.pid, signal.SIGKILL)
            time.sleep(POLL_S)
    assert "poison: the worker was lost 3 times" in job["reason"]
    assert len(killed) == 3


@pytest.mark.night
@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core is everybody's")
def test_the_api_avoids_the_measuring_core(
    tmp_path: Path,
) -> None:
    with process(f"sqlite:///{tmp_path}/cores.db", ANSORPY_EMBEDDED_WORKER="1") as live:
        end_s = time.monotonic() + 60.0
        while not live.get("/v1/workers").json()["workers"]:
            assert time.monotonic() < end_s
            time.sleep(0.05)
        (worker,) = children(live.pid)
        assert os.sched_getaffinity(worker) == set(usable_cores())
        assert not os.sched_getaffinity(live.pid) & slot_cores(1)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service whose worker runs the jobs of several tests."""
    settings = ServiceSettings(data_dir=tmp_path_factory.mktemp("service"), poll_s=0.05)
    with TestClient(create_app(settings), base_url="http://localhost") as made:
        yield made


@pytest.mark.slow
def test_a_running_job_offers_kernels_and_a_cancelled_one_leaves_its_best(
    client: TestClient, tmp_path: Path
) -> None:
    job_id = client.post("/v1/jobs", json={"text": MM, "budget": {"trials": 512}}).json()["id"]
    job = polled(client, job_id, lambda job: bool(job["tasks"][0]["trials"]), 240.0)
    task = job["tasks"][0]
    assert task["trials"]
    assert (task["final"], task["winner"]) == (False, None)
    assert task["baseline_s"] == min(task["naive_s"], task["numpy_s"])
    a, b = np.random.default_rng(0).random((4, 5), np.float32), np.ones((5, 6), np.float32)
    check_kernel(client, job_id, tmp_path / "running.zip", a, b, best_so_far=True)
    assert client.post(f"/v1/jobs/{job_id}/cancel").json()["state"] == "cancelled"
    check_kernel(client, job_id, tmp_path / "cancelled.zip", a, b, best_so_far=True)
    lines = client.get(f"/v1/jobs/{job_id}/events?format=jsonl").text.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds.index("kernel") < kinds.index("baseline") < kinds.index("round")


@pytest.mark.slow
def test_a_job_without_trials_is_its_first_answer(client: TestClient, tmp_path: Path) -> None:
    job_id = client.post("/v1/jobs", json={"text": OTHER, "budget": {"trials": 0}}).json()["id"]
    job = wait_for(client, job_id, *ENDED)
    assert (job["state"], job["trials"]) == ("succeeded", 0), job
    assert (job["tasks"][0]["final"], job["tasks"][0]["verified"]) == (True, True)
    a, b = np.random.default_rng(0).random((7, 8), np.float32), np.ones(8, np.float32)
    check_kernel(client, job_id, tmp_path / "first.zip", a, b, best_so_far=False)
    again = client.post("/v1/jobs", json={"text": OTHER, "budget": {"trials": 0}}).json()
    assert (again["how"], again["id"]) == ("answered", job_id)
    page = client.get("/jobs").text
    assert "0 / 0" in page


def check_kernel(
    client: TestClient, job_id: str, path: Path, a: Any, b: Any, *, best_so_far: bool
) -> None:
    name = client.get(f"/v1/jobs/{job_id}").json()["tasks"][0]["name"]
    path.write_bytes(client.get(f"/v1/jobs/{job_id}/kernels/{name}").content)
    kernel = ansorpy.load(path)
    assert kernel.manifest["best_so_far"] is best_so_far
    assert np.allclose(kernel(a, b), a.astype(np.float64) @ b, rtol=1e-5)


@pytest.mark.slow
def test_the_service_tunes_with_its_own_worker(client: TestClient) -> None:
    job_id = client.post("/v1/jobs", json={"text": MM, "budget": {"trials": 2}}).json()["id"]
    job = wait_for(client, job_id, *ENDED)
    assert (job["state"], job["trials"]) == ("succeeded", 2), job
    (task,) = job["tasks"]
    assert task["verified"]
    zipped = client.get(f"/v1/jobs/{job_id}/kernels/mm")
    assert zipped.content[:2] == b"PK"


@pytest.mark.slow
def test_a_model_that_cannot_be_compiled_fails_with_its_node(
    client: TestClient, tmp_path: Path
) -> None:
    reasons = []
    for number, (node, bind) in enumerate((("NonZero", {"batch": 1}), ("Relu", {}))):
        content = small(tmp_path / f"{number}.onnx", node).read_bytes()
        digest = sha256(content).hexdigest()
        assert client.put(f"/v1/models/{digest}", content=content).status_code == 201
        reply = client.post("/v1/jobs", json={"model": digest, "bind": bind})
        if reply.status_code == 422:
            reasons.append(reply.json()["detail"])
            continue
        job = wait_for(client, reply.json()["id"], *ENDED)
        assert job["state"] == "failed"
        reasons.append(job["reason"])
    assert "NonZero" in reasons[0]
    assert "batch" in reasons[1]
