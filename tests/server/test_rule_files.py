"""Rules of a folder in commands and in the service: by name only, with their failures named."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ansorpy.server.cli import app
from ansorpy.server.doctor import machine
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.tuner_main import load_engine, run_job
from tests.server.databases import ON_SQLITE
from tests.server.service import MM, Service, service
from tests.tuner.test_rule_files import GOOD, RAISES, written

pytestmark = pytest.mark.usefixtures("few_candidates")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "rules"
    made.mkdir(mode=0o755)
    written(made / "mine.py", GOOD)
    written(made / "raises.py", RAISES)
    written(made / "broken.py", "1 / 0")
    return made


@pytest.fixture
def running(url: str, folder: Path) -> Iterator[Service]:
    with service(url, rules_dir=folder) as found:
        yield found


def ran(running: Service, engine: Engine, folder: Path, **body: Any) -> Mapping[str, Any]:
    """Submit a job, and run it with the engine of a worker."""
    settings = ServiceSettings(
        data_dir=folder, database_url=str(engine.url), rules_dir=folder / "rules"
    )
    job_id = running.submit(**body)
    run_job(
        settings, engine, running.claim(), folder, load_engine(settings), lambda what, **told: None
    )
    job: Mapping[str, Any] = running.client.get(f"/v1/jobs/{job_id}").json()
    return job


@ON_SQLITE
def test_a_job_uses_a_rule_file_by_name(running: Service, engine: Engine, tmp_path: Path) -> None:
    job = ran(running, engine, tmp_path, allow=["mine"], budget={"trials": 4})
    assert job["state"] == "succeeded", job
    assert job["tasks"][0]["verified"]
    told = running.client.get(f"/v1/jobs/{job['id']}/explain").json()
    verdicts = {one["rule"]: one["verdict"] for one in told["visits"][0]["verdicts"]}
    assert verdicts["TwoLevels"] == "apply"
    assert told["sketches"] == 5, "two more than without the rule"


@ON_SQLITE
def test_a_rule_that_raises_fails_its_job_with_its_stage(
    running: Service, engine: Engine, tmp_path: Path
) -> None:
    job = ran(running, engine, tmp_path, allow=["raises"], budget={"trials": 4})
    reason = (
        "cannot derive 'mm' because rule Raises raised ZeroDivisionError in rewrite at stage 'C':"
        " division by zero; expected a rule without errors, or a request without the rule"
    )
    assert (job["state"], job["reason"]) == ("failed", reason)
    reply = running.client.get(f"/v1/jobs/{job['id']}/explain")
    assert (reply.status_code, reply.json()["detail"]) == (422, reason)
    page = running.client.get(f"/jobs/{job['id']}/explain").text
    assert "because rule Raises raised ZeroDivisionError" in page


@ON_SQLITE
def test_rules_of_a_folder_are_listed_beside_ours(running: Service) -> None:
    sets = {one["kind"]: one for one in running.client.get("/v1/rules").json()["sets"]}
    assert {"cpu", "cpu+winograd2", "cpu+mine", "cpu+raises", "cuda"} <= set(sets)
    assert "cpu+broken" not in sets
    assert [rule["name"] for rule in sets["cpu+mine"]["rules"]] == ["TwoLevels"]


@pytest.mark.parametrize("word", ["../mine", "mine.py", "/etc/passwd", "import os", "", "a" * 41])
@ON_SQLITE
def test_a_request_names_rules_and_never_a_path_or_code(running: Service, word: str) -> None:
    reply = running.client.post("/v1/jobs", json={"text": MM, "allow": [word]})
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith("cannot take allow.0 because its value does not fit;")


@pytest.mark.parametrize(
    ("word", "detail"),
    [
        ("fastest", "cannot allow '(...)' because no rules for cpu have this name; expected broken,"
         " mine, raises, winograd2, winograd4"),
        ("broken", "cannot load rule file (...).py because line 1 raised ZeroDivisionError:"
         " division by zero; expected a Python file that defines rules"),
    ],
)  # fmt: skip
@ON_SQLITE
def test_a_name_without_usable_rules_is_a_422(running: Service, word: str, detail: str) -> None:
    reply = running.client.post("/v1/jobs", json={"text": MM, "allow": [word]})
    assert (reply.status_code, reply.json()["detail"]) == (422, detail)


def test_the_doctor_loads_every_rule_file(folder: Path) -> None:
    sets, *files = machine.rules(ServiceSettings(rules_dir=folder))
    assert sets.text == "cpu 15, cuda 12"
    assert [(one.state, one.text.partition(";")[0]) for one in files] == [
        ("bad", "cannot load rule file broken.py because line 1 raised ZeroDivisionError: division"
         " by zero"),
        ("ok", "mine: TwoLevels, for cpu"),
        ("ok", "raises: Raises, for cpu"),
    ]  # fmt: skip


def test_an_empty_variable_names_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSORPY_RULES_DIR", "")
    assert ServiceSettings().rules_dir is None


def test_commands_take_rules_of_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mm.te").write_text(MM)
    env = {"ANSORPY_RULES_DIR": str(folder), "ANSORPY_DATA_DIR": str(tmp_path / "data")}

    def counted(*arguments: str) -> int:
        called = CliRunner(env=env).invoke(app, ["sketches", str(tmp_path / "mm.te"), *arguments])
        assert called.exit_code == 0, called.output
        return called.output.count("# mm, sketch")

    assert (counted(), counted("--allow", "mine")) == (3, 5)
    assert counted("--without", "AddCacheWrite") == 1
    called = CliRunner(env=env).invoke(
        app, ["explain", str(tmp_path / "mm.te"), "--allow", "raises"]
    )
    assert called.exit_code == 2
    assert "ansorpy: cannot derive 'mm' because rule Raises raised" in called.stderr
    called = CliRunner(env=env).invoke(
        app,
        ["tune", str(tmp_path / "mm.te"), "--allow", "raises", "--trials", "2"],
    )
    assert called.exit_code == 2, called.output
    assert "because rule Raises raised ZeroDivisionError in rewrite at stage 'C'" in called.stderr
