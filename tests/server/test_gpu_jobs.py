"""Jobs for a GPU on a worker without one: claimed, estimated, emulated, delivered, shown."""

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from ansorpy.codegen.simt.device.facts import facts_of
from ansorpy.server.db.models import WorkerRow
from ansorpy.server.jobs.machines import _machine
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.description import describe
from ansorpy.server.worker.tuner_main import load_engine, run_job
from ansorpy.target import GPU_NAMES
from tests.emulation import device as emulated
from tests.server.databases import ON_SQLITE
from tests.server.service import MM, Service, service

pytestmark = pytest.mark.usefixtures("few_candidates")

TARGET = "cuda:sm_90"
SPEED = re.compile(r"\d ?(ms|µs|us|ns)\b|\d(\.\d+)?×(?!\d)")  # noqa: RUF001 - as the pages write it


def tuned(running: Service, engine: Engine, folder: Path, job_id: str) -> Mapping[str, Any]:
    """Run a queued job for a GPU with the engine of a worker; return its reply."""
    settings = ServiceSettings(data_dir=folder, database_url=str(engine.url))
    claim = running.claim(target="5f2b" * 4, names=("cpu",), estimates=GPU_NAMES)
    assert claim.job_id == job_id
    run_job(settings, engine, claim, folder, load_engine(settings), lambda what, **told: None)
    job: Mapping[str, Any] = running.client.get(f"/v1/jobs/{job_id}").json()
    return job


@ON_SQLITE
def test_a_job_for_a_gpu_ends_with_a_zip_and_shows_no_time(
    url: str, engine: Engine, tmp_path: Path
) -> None:
    with service(url) as running:
        client = running.client
        body = {"text": MM, "target": TARGET, "budget": {"trials": 2}}
        job_id = client.post("/v1/jobs", json=body).json()["id"]
        job = tuned(running, engine, tmp_path, job_id)
        (task,) = job["tasks"]
        assert (job["state"], job["target"], job["estimated"]) == ("succeeded", TARGET, True), job
        assert (task["estimated"], task["verified"], task["final"]) == (True, True, True)
        for name in ("best_s", "baseline_s", "naive_s", "numpy_s", "flop_per_s", "winner"):
            assert task[name] is None, name
        assert job["best_s"] is None
        (line,) = client.get("/v1/jobs").json()["jobs"]
        assert (line["estimated"], line["best_s"]) == (True, None)

        content = client.get(f"/v1/jobs/{job_id}/kernels/mm").content
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            manifest = json.loads(package.read("manifest.json"))
            assert "kernel.ptx" in package.namelist()
        assert (manifest["verified"], manifest["timed"]) == ("emulated", False)
        ptx = client.get(f"/v1/kernels/{task['kernel']}/kernel.ptx")
        assert ".target sm_90" in ptx.text

        page = client.get(f"/jobs/{job_id}").text
        assert 'id="best">estimated<' in page
        assert "Verified under emulation, not timed" in page
        assert "There is no curve" in page
        assert "Estimate, not a measurement" in page
        assert "python driver.py --selftest --bench" in page
        events = client.get(f"/v1/jobs/{job_id}/events?format=jsonl").text.splitlines()
        rounds = [one for one in map(json.loads, events) if one["kind"] == "round"]
        assert rounds
        assert all(one["estimated"] and one["best_s"] is None for one in rounds)
        assert not [one for one in map(json.loads, events) if one["kind"] == "improved"]
        for place in (f"/jobs/{job_id}", "/jobs", f"/compare?a={job_id}&b={job_id}"):
            shown = client.get(place)
            assert shown.status_code == 200
            assert "estimated" in shown.text
            told = re.sub(r'(?s)<script.*?</script>|<div id="estimate".*?</div>', "", shown.text)
            assert not SPEED.search(told), place
        assert client.get(f"/jobs/{job_id}/explain").status_code == 200
        rows = client.get(f"/jobs/{job_id}/charts/latency.jsonl").text.splitlines()
        assert all(json.loads(row)["best_s"] is None for row in rows)


def test_a_job_for_a_gpu_answers_no_job_for_a_cpu(url: str, engine: Engine, tmp_path: Path) -> None:
    with service(url) as running:
        client = running.client
        body: dict[str, Any] = {"text": MM, "budget": {"trials": 2}}
        job_id = client.post("/v1/jobs", json={**body, "target": TARGET}).json()["id"]
        assert tuned(running, engine, tmp_path, job_id)["state"] == "succeeded"
        for other in ({}, {"target": "cpu"}, {"target": "cuda:sm_80"}):
            reply = client.post("/v1/jobs", json={**body, **other}).json()
            assert (reply["how"], reply["id"] == job_id) == ("created", False)
        again = client.post("/v1/jobs", json={**body, "target": TARGET}).json()
        assert (again["how"], again["id"]) == ("answered", job_id)


def test_a_worker_tells_the_gpus_that_it_estimates() -> None:
    own = describe(gpus=())
    assert own.estimates == GPU_NAMES
    assert json.loads(own.facts)["estimates"] == list(GPU_NAMES)
    assert json.loads(own.facts)["gpus"] == []


def test_a_worker_with_a_gpu_tells_it_and_takes_plain_cuda() -> None:
    gpu = facts_of(emulated.driver(), 0)
    own = describe(gpus=(gpu,))
    assert own.estimates == (*GPU_NAMES, "cuda")
    (told,) = json.loads(own.facts)["gpus"]
    assert told == {"name": "Emulated GPU", "arch": "sm_90", "memory_bytes": 1 << 30}
    for one, has in ((own, True), (describe(gpus=()), False)):
        assert _machine(WorkerRow(target=one.target, facts=one.facts)).has("cuda") == has


@ON_SQLITE
def test_a_job_for_a_gpu_waits_for_a_worker_that_estimates(url: str) -> None:
    with service(url) as running:
        body = {"text": MM, "target": TARGET}
        reply = running.client.post("/v1/jobs", json=body)
        assert (reply.status_code, reply.json()["waiting_for"]) == (
            202, f"no live worker for {TARGET}",
        )  # fmt: skip
