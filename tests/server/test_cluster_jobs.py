"""Jobs of a worker with ANSORPY_CLUSTER: slots measure, and the job tells which."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from ansorpy.cluster.share import JOB, PRIORITY, TENANT, own_share
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.tuner_main import load_engine, run_job
from tests.server.databases import ON_SQLITE
from tests.server.service import service

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_candidates")]


@ON_SQLITE
def test_slots_measure_the_trials_of_a_job(
    url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSORPY_CLUSTER", "here:1")
    for name in (TENANT, PRIORITY, JOB):
        monkeypatch.setenv(name, "")
    settings = ServiceSettings(data_dir=tmp_path, database_url=str(engine.url))
    with service(url) as running:
        job_id = running.submit(budget={"trials": 4}, priority=7)
        claim = running.claim()
        run_job(settings, engine, claim, tmp_path, load_engine(settings), lambda *_, **__: None)
        job = running.client.get(f"/v1/jobs/{job_id}").json()
        events = running.client.get(f"/v1/jobs/{job_id}/events?format=jsonl").text
    assert job["state"] == "succeeded", job
    assert job["tasks"][0]["verified"]
    assert '"kind":"slots"' in events
    assert "slots of kind " in events or "1 slot of kind " in events
    share = own_share()
    assert (share.tenant, share.priority, share.job) == (str(claim.tenant_id), 7, job_id)
