"""MetaSchedule: rules, modes and components of the user's own."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ansorpy.server.cli import app
from tests.server.service import MM
from tests.systems.stage import Stage
from tests.tuner.test_plugins import install_example, installer


def test_a_rule_file_in_the_folder_is_listed_and_enabled_by_a_job(stage: Stage) -> None:
    """A user sees a dropped file in GET /v1/rules, and its verdicts in a job that allows it."""
    sets = {one["kind"]: one for one in stage.client.get("/v1/rules").json()["sets"]}
    assert [rule["name"] for rule in sets["cpu+mine"]["rules"]] == ["TwoLevels"]
    job = stage.client.post("/v1/jobs", json={"text": MM, "allow": ["mine"]}).json()
    told = stage.client.get(f"/v1/jobs/{job['id']}/explain").json()
    verdicts = {one["rule"]: one["verdict"] for one in told["visits"][0]["verdicts"]}
    assert (told["sketches"], verdicts["TwoLevels"]) == (5, "apply")


@pytest.mark.night
def test_three_modes_at_one_endpoint_give_verified_kernels(stage: Stage) -> None:
    """A user posts mode auto, template or manual, and gets a kernel of the same form."""
    for job, trials in ((stage.auto, 2), (stage.template, 2), (stage.manual, 1)):
        (task,) = job["tasks"]
        assert (task["trials"], task["verified"], task["final"]) == (trials, True, True)
        manifest = stage.client.get(f"/v1/kernels/{task['kernel']}/manifest.json").json()
        assert manifest["best_so_far"] is False


def test_every_component_is_replaced_by_an_entry_point(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user sees a part of a package for each component, and names them in a job or a command."""
    install_example(installer(tmp_path / "site", monkeypatch))
    found = stage.client.get("/v1/plugins").json()["plugins"]
    theirs = {one["option"]: one["name"] for one in found if one["package"] == "example_parts 1.0"}
    assert theirs == {
        "cost_model": "neighbours",
        "search": "annealing",
        "space": "few-steps",
        "measurer": "code-size",
        "store": "shared-folder",
    }
    parts = {option: name for option, name in theirs.items() if option != "store"}
    job = stage.client.post("/v1/jobs", json={"text": MM, **parts}).json()
    assert {option: job[option] for option in parts} == parts
    monkeypatch.setenv("EXAMPLE_PARTS_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("ANSORPY_STORE", theirs["store"])
    told = CliRunner().invoke(app, ["records", "export"])
    assert (told.exit_code, told.stdout, told.stderr) == (0, "", "0 records\n")
