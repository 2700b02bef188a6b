"""Parts of other packages in commands and in the service: by name only, with errors named."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from ansorpy.server.cli import app
from ansorpy.tuner.options.plugins import MEASURERS, SEARCHES, SPACES
from ansorpy.tuner.rule_sets.sets import registered
from tests.night import night
from tests.server.databases import ON_SQLITE
from tests.server.service import MM, Service, service
from tests.server.test_rule_files import ran
from tests.tuner.test_plugins import (
    HANGS,
    PROPOSES,
    TIMES,
    Install,
    install_example,
    installer,
)

pytestmark = pytest.mark.usefixtures("few_candidates")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path / "site", monkeypatch)


@pytest.fixture
def running(url: str, tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "rules").mkdir(mode=0o755)
    with service(url) as found:
        yield found


def listed(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, bool]]:
    return [(one["option"], one["name"], one["package"], one["default"]) for one in found]


@ON_SQLITE
def test_the_service_lists_the_parts_of_a_job(running: Service, install: Install) -> None:
    install_example(install)
    whole = listed(running.client.get("/v1/plugins").json()["plugins"])
    found = [one for one in whole if one[0] != "allow"]
    assert found == [
        ("cost_model", "trees", "ansorpy", True),
        ("cost_model", "analytic", "ansorpy", False),
        ("cost_model", "neighbours", "example_parts 1.0", False),
        ("search", "evolution", "ansorpy", True),
        ("search", "random", "ansorpy", False),
        ("search", "annealing", "example_parts 1.0", False),
        ("space", "rules", "ansorpy", True),
        ("space", "few-steps", "example_parts 1.0", False),
        ("measurer", "auto", "ansorpy", True),
        ("measurer", "estimates", "ansorpy", False),
        ("measurer", "code-size", "example_parts 1.0", False),
        ("store", "database", "ansorpy", True),
        ("store", "file", "ansorpy", False),
        ("store", "memory", "ansorpy", False),
        ("store", "shared-folder", "example_parts 1.0", False),
    ]
    assert [one for one in whole if one not in found] == [
        ("allow", word, "ansorpy", False)
        for word in sorted({name.partition("+")[2] for name in registered() if "+" in name})
    ]
    lines = CliRunner().invoke(app, ["plugins"]).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["--" + option.replace("_", "-"), name] for option, name, *_ in whole
    ]


@ON_SQLITE
def test_a_job_uses_the_parts_that_it_names(
    running: Service, engine: Engine, install: Install, tmp_path: Path
) -> None:
    install_example(install)
    parts = {
        "cost_model": "neighbours", "search": "annealing", "space": "few-steps",
        "measurer": "code-size",
    }  # fmt: skip
    job = ran(running, engine, tmp_path, **parts, budget={"trials": 2})
    assert job["state"] == "succeeded", job
    assert job["tasks"][0]["verified"]
    assert {name: job[name] for name in parts} == parts
    page = running.client.get(f"/jobs/{job['id']}?tab=request").text
    assert "<dt>Cost model</dt><dd>neighbours</dd>" in page
    assert "<dt>Search</dt><dd>annealing</dd>" in page
    assert "<dt>Space</dt><dd>few-steps</dd>" in page
    assert "<dt>Measured by</dt><dd>code-size</dd>" in page
    refused = running.client.get(f"/v1/jobs/{job['id']}/explain")
    assert refused.status_code == 422
    assert "because a space generator of another package" in refused.json()["detail"]
    other = running.submit(search="random", budget={"trials": 2})
    assert other != job["id"], "a job with other parts is another job"


@pytest.mark.parametrize(
    ("field", "kind", "known"),
    [
        ("cost_model", "cost model", "trees, analytic"),
        ("search", "search strategy", "evolution, random"),
        ("space", "space generator", "rules"),
        ("measurer", "measuring back end", "auto, estimates"),
    ],
)
@ON_SQLITE
def test_an_unknown_name_is_a_422_with_the_known_ones(
    running: Service, field: str, kind: str, known: str
) -> None:
    reply = running.client.post("/v1/jobs", json={"text": MM, field: "fastest"})
    assert (reply.status_code, reply.json()["detail"]) == (
        422,
        f"cannot tune with {field} '(...)' because no {kind} of this name is installed;"
        f" expected {known}",
    )
    assert reply.json()["errors"][0]["place"] == field


@ON_SQLITE
def test_a_measuring_back_end_that_does_not_fit_the_target_is_a_422(
    running: Service, install: Install
) -> None:
    install_example(install)
    for target, measurer in (("cuda:sm_90", "code-size"), ("cpu", "estimates")):
        body = {"text": MM, "target": target, "measurer": measurer}
        reply = running.client.post("/v1/jobs", json=body)
        assert reply.status_code == 422
        assert reply.json()["detail"].startswith("cannot tune with measurer ")
        assert reply.json()["errors"][0]["place"] == "target"


@pytest.mark.parametrize("name", ["os:system", "../parts", "a.b", "", "x" * 41, "a\n"])
@ON_SQLITE
def test_a_name_is_never_a_path_or_code(running: Service, name: str) -> None:
    reply = running.client.post("/v1/jobs", json={"text": MM, "search": name})
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith("cannot take search because")


RAISING = (
    (SPACES, "1 / 0", "its import raised ZeroDivisionError: division by zero"),
    (SEARCHES, PROPOSES + "raise SystemExit(3)", "propose raised SystemExit: 3"),
    (MEASURERS, TIMES + "raise OSError('board off')", "measure raised OSError: board off"),
    (MEASURERS, TIMES + HANGS, "measure gave no answer in 0.2 s"),
)


@ON_SQLITE
@pytest.mark.parametrize("most", night((1, len(RAISING)), [1]))
def test_a_part_that_raises_or_hangs_fails_its_job_and_no_other(
    running: Service, engine: Engine, install: Install, tmp_path: Path, most: int
) -> None:
    for number, (group, code, why) in enumerate(RAISING[-most:]):
        name = f"raising_{number}_{group.option}"
        install(name, f"[{group.points}]\nbad{number} = {name}:Mine\n", code)
        job = ran(running, engine, tmp_path, **{group.option: f"bad{number}"}, budget={"trials": 2})
        assert (job["state"], job["reason"]) == (
            "failed",
            f"cannot tune with {group.kind} bad{number} of {name} 1.0 because {why}; expected a"
            f" plug-in without errors, or {group.option} {group.default}",
        )
    after = ran(running, engine, tmp_path, budget={"trials": 2})
    assert after["state"] == "succeeded", after


def test_a_command_names_a_part_that_raises(install: Install, tmp_path: Path) -> None:
    install("raising_part", "[ansorpy.cost_models]\nmine = raising_part:Mine\n", "1 / 0")
    (tmp_path / "mm.te").write_text(MM)
    arguments = ["tune", str(tmp_path / "mm.te"), "--cost-model", "mine", "--trials", "2"]
    env = {"ANSORPY_DATA_DIR": str(tmp_path / "data")}
    called = CliRunner(env=env).invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert called.exit_code == 2
    assert (
        "ansorpy: cannot tune with cost model mine of raising_part 1.0 because its import raised"
        " ZeroDivisionError: division by zero"
    ) in called.stderr


def test_a_job_chooses_no_store(running: Service) -> None:
    reply = running.client.post("/v1/jobs", json={"text": MM, "store": "memory"})
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["place"] == "?"  # an unknown field of the body


@pytest.mark.slow
def test_commands_keep_records_in_the_store_that_they_name(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_example(install)
    (tmp_path / "mm.te").write_text(MM)
    env = {
        "ANSORPY_DATA_DIR": str(tmp_path / "data"),
        "EXAMPLE_PARTS_RECORDS": str(tmp_path / "shared"),
    }
    arguments = ["tune", str(tmp_path / "mm.te"), "--trials", "2", "--store", "shared-folder"]
    called = CliRunner(env=env).invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert called.exit_code == 0, called.stderr
    assert not (tmp_path / "data" / "ansorpy.db").exists(), "no database is opened"
    shared = CliRunner(env={**env, "ANSORPY_STORE": "shared-folder"})
    lines = shared.invoke(app, ["records", "export"]).stdout.splitlines()
    assert len(lines) == 3, "two trials and the race"
    assert CliRunner(env=env).invoke(app, ["records", "export"]).stdout == ""
