"""The time of a job is equal in list, API, page, curve and manifest."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from ansorpy.artifact.package import unbox
from ansorpy.cost.random import RandomModel
from ansorpy.events import Delivered, Event
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Measured
from ansorpy.server.db.engine import transaction
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.web.filters import latency
from ansorpy.server.worker.journal import JobJournal
from ansorpy.server.worker.tuner_main import run_job
from ansorpy.target import Target
from ansorpy.tuner.request import Request
from ansorpy.tuner.time_budget import TimeBudget
from ansorpy.tuner.tune import run
from tests.fakes import cost_s, fake_pools
from tests.server.service import MM, Service, service

pytestmark = pytest.mark.usefixtures("few_candidates")

TWO = MM + "\ndef relu(float(64) A) -> (B) { B(i) = fmax(A(i), 0) }"
RACE_S = 2.5e-3  # slower than the fastest trial; the race counts


def slowed(program: Program) -> Measured:
    """Return a trial of a busy machine, with a slowdown of 1.4."""
    return Measured((cost_s(program), 1.0), slowdown=1.4)


def tuned(submission: Submission, journal: JobJournal, out: Path) -> Iterator[Event]:
    request = Request(
        submission.dags, Target(vector_bits=256, registers=16), trials=submission.trials,
        weights=submission.weights, first_answer=False,
    )  # fmt: skip
    return run(
        request,
        store=journal,
        out=out,
        model=RandomModel(np.random.default_rng(0)),
        pools=fake_pools(slowed, {f"tuned {place}": RACE_S for place in range(3)}),
        journal=journal,
    )


def finished(running: Service, folder: Path, engine: Engine, tune: Any = tuned) -> None:
    """Run the queued job in this process, with the journal of a worker."""
    settings = ServiceSettings(data_dir=folder, database_url=str(engine.url))
    run_job(settings, engine, running.claim(), folder, tune, lambda what, **told: None)


def walk(running: Service, job_id: str) -> Mapping[str, Any]:
    """Return the time of a job, or the times of its tasks, per place."""
    client = running.client
    (line,) = (one for one in client.get("/v1/jobs").json()["jobs"] if one["id"] == job_id)
    job = client.get(f"/v1/jobs/{job_id}").json()
    tasks = {task["name"]: task for task in job["tasks"]}
    page = re.search(r'id="best">([^<]+)<', client.get(f"/jobs/{job_id}").text)
    listed = re.search(rf'/jobs/{job_id}".*?</tr>', client.get("/jobs").text, re.DOTALL)
    curve = client.get(f"/jobs/{job_id}/charts/latency.jsonl").text.splitlines()
    last = {row["task"]: row for row in map(json.loads, curve)}
    other = client.get(f"/compare?a={job_id}&b={job_id}").text
    kernels = {name: client.get(f"/v1/jobs/{job_id}/kernels/{name}").content for name in tasks}
    manifests = {
        name: json.loads(unbox(content, name).files["manifest.json"])
        for name, content in kernels.items()
    }
    assert page is not None
    assert listed is not None
    assert f">{latency(job['best_s'])}<" in listed[0]
    assert f">{latency(job['best_s'])}<" in other
    return {
        "list": line["best_s"],
        "job": job["best_s"],
        "page": page[1],
        "curve": json.loads(curve[-1])["latency_s"],
        "tasks": {name: task["best_s"] for name, task in tasks.items()},
        "curves": {name: last[name]["best_s"] for name in tasks},
        "manifests": {name: one["latency_s"]["min"] for name, one in manifests.items()},
    }


@pytest.mark.parametrize("weights", [{}, {"mm": 3.0}])
def test_a_finished_job_has_one_time_everywhere(
    url: str, engine: Engine, tmp_path: Path, weights: Mapping[str, float]
) -> None:
    with service(url) as running:
        for text in (MM, TWO):
            job_id = running.submit(text, budget={"trials": 16}, weights=weights)
            finished(running, tmp_path, engine)
            found = walk(running, job_id)
            each = dict.fromkeys(found["tasks"], RACE_S)
            total_s = sum(weights.get(name, 1.0) * RACE_S for name in each)
            assert found["tasks"] == found["curves"] == found["manifests"] == each
            assert found["list"] == found["job"] == found["curve"] == pytest.approx(total_s)
            assert found["page"] == latency(found["job"])


def test_every_intermediate_time_was_measured(url: str, engine: Engine, tmp_path: Path) -> None:
    with service(url) as running:
        job_id = running.submit(budget={"trials": 16})
        finished(running, tmp_path, engine)
        with transaction(engine) as tx:
            told = [json.loads(e.body) for e in queries.events_after(tx, 1, job_id, 0)]
            bodies = queries.records_after(tx, 1, job_id=job_id)
        outcomes = [json.loads(row.body)["outcome"] for row in bodies]
        measured = {one["times_s"][0] for one in outcomes}
        shown = [body["best_s"] for body in told if "best_s" in body]
        assert len(shown) >= 3  # improved, round, kernel
        assert set(shown) <= measured


def test_a_job_cancelled_after_a_delivery_shows_the_race_of_its_kernel(
    url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeBudget, "delivery_is_due", lambda self: True)
    with service(url) as running:
        job_id = running.submit(budget={"trials": 64})

        def cancelled(*given: Any) -> Iterator[Event]:
            for event in tuned(*given):
                yield event
                if isinstance(event, Delivered):
                    running.client.post(f"/v1/jobs/{job_id}/cancel")

        finished(running, tmp_path, engine, cancelled)
        found = walk(running, job_id)
        assert found["list"] == found["job"] == found["curve"] == RACE_S
        assert found["tasks"] == found["curves"] == found["manifests"] == {"mm": RACE_S}
