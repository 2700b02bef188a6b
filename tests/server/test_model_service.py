"""Jobs of models with a real worker, tuner process and measuring processes.

`make test-all` kills at four moments.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from ansorpy.bundle.load import load_model
from ansorpy.server.app import create_app
from ansorpy.server.db.engine import reading
from ansorpy.server.db.models import RecordRow
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.tuner_process import children
from tests.server.onnx_models import small
from tests.server.service import Service
from tests.server.test_service import ENDED, lease_owner, wait_for

LIMIT_S = 400.0

# Properties of a job whose tuner process is killed once it has them.
STARTED, ANSWERED, BUNDLED, TRIED = (
    lambda _job: True,
    lambda job: bool(job["model"]["answered"]),
    lambda job: bool(job["model"]["bundle"]),
    lambda job: bool(job["trials"]),
)
MOMENTS: tuple[Callable[[Any], bool], ...] = (STARTED, ANSWERED, BUNDLED, TRIED)
TRIALS = 48


def until(running: Service, job_id: str, holds: Callable[[Any], bool]) -> Any:
    """Wait until a running job has a property; return the job."""
    end_s = time.monotonic() + LIMIT_S
    while True:
        job = running.client.get(f"/v1/jobs/{job_id}").json()
        if holds(job):
            return job
        assert job["state"] not in ENDED, job["reason"]
        assert time.monotonic() < end_s, job
        time.sleep(0.1)


def tuner_of(settings: ServiceSettings, job_id: str) -> int:
    """Return the tuner process of the worker that holds a job."""
    owner = ProcessIdentity.of(lease_owner(settings, job_id))
    assert owner is not None
    (tuner,) = children(owner.pid)
    return tuner


@pytest.mark.night
def test_a_model_job_survives_kills_at_any_time(tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path, poll_s=0.05, max_attempts=1000)
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        running = Service(client, open_database(settings.url))
        asked = {
            "model": running.put_model(small(tmp_path / "small.onnx").read_bytes()),
            "bind": {"batch": 2},
            "budget": {"trials": TRIALS},
        }
        job_id = client.post("/v1/jobs", json=asked).json()["id"]
        seen = 0
        for attempt, moment in enumerate(MOMENTS, 1):

            def due(job: Any, attempt: int = attempt, moment: Any = moment) -> bool:
                held = job["state"] == "running" and job["attempts"] == attempt
                return bool(held and moment(job))

            job = until(running, job_id, due)
            assert job["trials"] >= seen
            seen = job["trials"]
            victim = tuner_of(settings, job_id)
            os.kill(victim, signal.SIGKILL)
        job = wait_for(client, job_id, *ENDED, limit_s=LIMIT_S)
        assert job["state"] == "succeeded", job["reason"]
        assert 0 < seen <= job["trials"] <= TRIALS
        with reading(running.engine) as tx:
            stored = select(func.count()).where(RecordRow.job_id == job_id, RecordRow.round > 0)
            assert tx.scalar(stored) == job["trials"]
        bundle = tmp_path / "bundle.zip"
        bundle.write_bytes(client.get(f"/v1/jobs/{job_id}/model").content)
        image = np.random.default_rng(0).normal(size=(2, 3, 12, 12)).astype(np.float32)
        with load_model(bundle) as model:
            scores = model(x=image)
        assert np.shape(scores) == (2, 5)
        running.engine.dispose()
