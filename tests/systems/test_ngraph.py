"""nGraph: the objective is latency or throughput."""

import json
import zipfile
from pathlib import Path

import pytest

from ansorpy.measure.cores import usable_cores
from tests.server.service import MM
from tests.systems.stage import Stage

BUDGET = {"trials": 2, "objective": "throughput"}


@pytest.mark.night
@pytest.mark.skipif(len(usable_cores()) < 2, reason="two copies need two cores")
def test_a_job_for_throughput_tells_items_per_second(stage: Stage, tmp_path: Path) -> None:
    """A user asks for throughput; the job, its page and the manifest tell items and copies."""
    job = stage.tuned(text=MM, cores=2, budget=BUDGET)
    (task,) = job["tasks"]
    assert job["budget"]["objective"] == "throughput"
    assert task["copies"] == 2
    assert task["items_per_s"] == pytest.approx(2 / task["best_s"])
    with zipfile.ZipFile(stage.package(job, tmp_path)) as package:
        manifest = json.loads(package.read("manifest.json"))
    assert manifest["throughput"] == {
        "copies": 2,
        "items_per_s": pytest.approx(2 / manifest["latency_s"]["min"]),
    }
    assert manifest["target"]["threads"] == 1
    assert "items/s in 2 copies" in stage.client.get(f"/jobs/{job['id']}").text
    assert {one["key"].rpartition("/")[2] for one in stage.records(job)} == {"copies2"}
    other = stage.client.post("/v1/jobs", json={"text": MM, "cores": 2, "budget": {"trials": 2}})
    assert other.json()["how"] != "answered"


def test_throughput_of_one_core_is_refused(stage: Stage) -> None:
    """A user who gives one core reads that this is the latency of one copy."""
    reply = stage.client.post("/v1/jobs", json={"text": MM, "cores": 1, "budget": BUDGET})
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["place"] == "budget.objective"
    assert "which is its latency; expected cores from 2" in reply.text
