"""Removed options are refused by name, and stored jobs of earlier versions that have them run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

import ansorpy
from ansorpy.errors import SpecError
from ansorpy.server.cli import app
from ansorpy.server.db.engine import transaction
from ansorpy.server.jobs import queries
from ansorpy.tuner.options.removed import REMOVED
from tests.server.onnx_models import small
from tests.server.service import MM, Service, service
from tests.server.test_model_jobs import ask, work
from tests.server.test_one_latency import finished

pytestmark = pytest.mark.usefixtures("few_candidates")

TRANSFER = f"transfer because {REMOVED['transfer']}; expected no transfer"


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def test_python_refuses_a_removed_option_by_name() -> None:
    functions: tuple[Any, ...] = (ansorpy.tune, ansorpy.compile, ansorpy.Client.submit)
    for function in functions:
        with pytest.raises(SpecError) as caught:
            function(MM, transfer=True)
        assert str(caught.value) == f"cannot tune with {TRANSFER}"


@pytest.mark.parametrize("command", ["tune", "submit"])
@pytest.mark.parametrize("given", ["--transfer", "--no-transfer"])
def test_commands_refuse_a_removed_option_by_name(command: str, given: str) -> None:
    done = CliRunner().invoke(app, [command, "mm.te", given])
    assert done.exit_code == 2
    assert f"cannot tune with {TRANSFER}" in done.stderr
    assert "transfer" not in CliRunner().invoke(app, [command, "--help-all"]).stdout


def test_a_request_with_a_removed_option_names_it(running: Service) -> None:
    for body, place in (
        ({"transfer": True}, "transfer"),
        ({"budget": {"transfer": True}}, "budget.transfer"),
    ):
        reply = running.client.post("/v1/jobs", json={"text": MM, **body})
        told = reply.json()
        assert (reply.status_code, told["code"]) == (422, "shape")
        assert told["detail"] == f"cannot take {place.replace('transfer', TRANSFER)}"
        assert told["errors"][0]["place"] == place
        assert told["errors"][0]["expected"] == "no transfer"


def test_a_stored_job_with_a_removed_option_is_shown_and_runs(
    running: Service, engine: Engine, tmp_path: Path
) -> None:
    job_id = running.submit(budget={"trials": 16})
    with transaction(running.engine) as tx:
        row = queries.find(tx, 1, job_id)
        row.request = json.dumps({**json.loads(row.request), "transfer": True})
    assert running.client.get(f"/v1/jobs/{job_id}").json()["state"] == "queued"
    finished(running, tmp_path, engine)
    assert running.client.get(f"/v1/jobs/{job_id}").json()["state"] == "succeeded"
    assert running.client.get(f"/jobs/{job_id}").status_code == 200


def test_stored_results_with_a_forecast_are_shown_without_it(running: Service) -> None:
    forecast = {"trials": 64, "gain": 0.03, "upper": 0.1, "error": 0.02, "jobs": 12}
    job_id, _ = running.succeed()
    with transaction(running.engine) as tx:
        row = queries.find(tx, 1, job_id)
        (result,) = json.loads(row.results)
        row.results = json.dumps([{**result, "forecast": forecast}])
    (task,) = running.client.get(f"/v1/jobs/{job_id}").json()["tasks"]
    assert "forecast" not in task
    assert "forecast" not in running.client.get(f"/v1/jobs/{job_id}/explain").json()
    assert running.client.get(f"/jobs/{job_id}").status_code == 200


def test_stored_facts_of_a_model_with_a_forecast_are_shown_without_it(
    running: Service, tmp_path: Path
) -> None:
    digest = running.put_model(small(tmp_path / "small.onnx").read_bytes())
    job_id = ask(running, digest).json()["id"]
    work(running, tmp_path)
    forecast = {"trials": 32, "gain": 0.02, "upper": None, "error": 0.01, "jobs": 12}
    with transaction(running.engine) as tx:
        row = queries.find(tx, 1, job_id)
        row.model_facts = json.dumps({**json.loads(row.model_facts), "forecast": forecast})
    model = running.client.get(f"/v1/jobs/{job_id}").json()["model"]
    assert "forecast" not in model
    assert model["estimate_s"] == 2e-3
    assert running.client.get(f"/jobs/{job_id}").status_code == 200
