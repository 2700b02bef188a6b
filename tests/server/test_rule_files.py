"""Rules of a folder in commands and in the service: by name only, with their failures named."""

import json
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
from tests.server.service import MM, Service, service
from tests.tuner.test_rule_files import GOOD, RAISES, written

HANGS = "while True:\n    pass\n"
DIES = "import os\nos._exit(7)\n"


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


def test_a_job_uses_a_rule_file_by_name(running: Service, engine: Engine, tmp_path: Path) -> None:
    job = ran(running, engine, tmp_path, allow=["mine"], budget={"trials": 4})
    assert job["state"] == "succeeded", job
    assert job["tasks"][0]["verified"]
    told = running.client.get(f"/v1/jobs/{job['id']}/explain").json()
    verdicts = {one["rule"]: one["verdict"] for one in told["visits"][0]["verdicts"]}
    assert verdicts["TwoLevels"] == "apply"
    assert told["sketches"] == 5, "two more than without the rule"


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


def test_rules_of_a_folder_are_listed_beside_ours(running: Service) -> None:
    sets = {one["kind"]: one for one in running.client.get("/v1/rules").json()["sets"]}
    assert {"cpu", "cpu+winograd2", "cpu+mine", "cpu+raises", "cuda"} <= set(sets)
    assert "cpu+broken" not in sets
    assert [rule["name"] for rule in sets["cpu+mine"]["rules"]] == ["TwoLevels"]


@pytest.mark.parametrize("word", ["../mine", "mine.py", "/etc/passwd", "import os", "", "a" * 41])
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
def test_a_name_without_usable_rules_is_a_422(running: Service, word: str, detail: str) -> None:
    reply = running.client.post("/v1/jobs", json={"text": MM, "allow": [word]})
    assert (reply.status_code, reply.json()["detail"]) == (422, detail)


def test_the_doctor_loads_every_rule_file(folder: Path) -> None:
    sets, *files = machine.rules(ServiceSettings(rules_dir=folder))
    assert sets.text == "cpu 14, cuda 11"
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


def checked(path: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["rule", "check", str(path), *arguments])


def test_a_right_rule_passes_the_command(folder: Path) -> None:
    called = checked(folder / "mine.py", "--operator", "matmul", "--operator", "softmax")
    assert called.exit_code == 0, called.output
    assert called.stdout.splitlines() == [
        "ok   matmul, A[7, 13], B[13, 17]: 3 -> 5 sketches (large: 3 -> 5); of the rules 2, in 4"
        " programs, 2 as machine code",
        "ok   softmax, X[7, 17]: 9 -> 9 sketches (large: 9 -> 9); of the rules 0, in 0 programs, 0"
        " as machine code",
        "passed: TwoLevels: 2 operators, 2 sketches, 4 programs interpreted, 2 run as machine code",
    ]


def test_our_own_set_passes_the_command() -> None:
    called = checked(Path("cpu+winograd2"), "--operator", "conv2d", "--json")
    assert called.exit_code == 0, called.output
    told = json.loads(called.stdout)
    assert (told["passed"], told["rules"], told["counterexample"]) == (True, ["Winograd"], None)
    (one,) = told["checked"]
    assert (one["before"], one["after"], one["states"], one["compiled"]) == (5, 6, 1, 1)


def test_a_registered_set_passes_although_some_rules_find_no_stage() -> None:
    called = checked(Path("cpu"), "--operator", "row_sum")
    assert called.exit_code == 0, called.output
    last = called.stdout.splitlines()[-1]
    assert last.startswith("passed: SplitPhases, ")
    assert "; no stage for SplitPhases, " in last
    assert "AddRfactor" not in last.partition("no stage for")[2]


def test_a_rule_that_applies_nowhere_is_not_proved(folder: Path, tmp_path: Path) -> None:
    called = checked(folder / "mine.py", "--operator", "softmax")
    assert called.exit_code == 3
    assert "not proved: TwoLevels applies to no stage of these operators" in called.stdout
    (tmp_path / "mm.te").write_text(MM)
    called = checked(folder / "mine.py", "--on", str(tmp_path / "mm.te"))
    assert called.exit_code == 0, called.output
    assert called.stdout.startswith("ok   mm, A[4, 5], B[5, 6]: ")


def test_a_wrong_rule_is_refused_by_the_command(tmp_path: Path) -> None:
    text = GOOD.replace('"SRS").state)', '"SRS").state.with_stage(at.stage))')
    called = checked(written(tmp_path / "wrong.py", text), "--operator", "matmul")
    assert called.exit_code == 3
    first, operator, difference, *state = called.stdout.splitlines()
    assert first == "refused: TwoLevels"
    assert operator == "operator: matmul, A[7, 13], B[13, 17], stage C"
    assert difference.startswith("difference: the steps of a successor give another state: C: i.0:")
    assert state[:4] == ["state:", "  A", "  B", "  C: i:7s j:17s k:13r"]


def test_a_file_that_ends_its_process_is_refused(tmp_path: Path) -> None:
    called = checked(written(tmp_path / "dies.py", DIES), "--operator", "matmul")
    assert called.exit_code == 3
    assert "difference: the process of the check ended with status 7" in called.stdout


def test_a_file_that_hangs_is_refused(tmp_path: Path) -> None:
    from ansorpy.tuner.rule_child import RuleReport, RuleRequest, check_in_child

    path = written(tmp_path / "hangs.py", HANGS)
    (report,) = check_in_child(RuleRequest(str(path), operators=("matmul",)), silence_s=2.0)
    assert isinstance(report, RuleReport)
    assert report.counterexample is not None
    assert report.counterexample.difference == "the check takes more than 2 s"


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        ("x = 1", (), "cannot use rule file mine.py because it has no rule; expected a class"),
        (GOOD.replace("TwoLevels", "Tiling"), (), "cannot use two rules named Tiling, of mine.py"),
        (GOOD, ("--operator", "gemm"), "cannot check rules on operator 'gemm' because no such"),
        (GOOD, ("--target", "cuda:sm_90"), "cannot use the rules of mine for cuda because its K"),
        (None, (), "cannot read rule file mine.py because of 'No such file or directory'"),
    ],
)  # fmt: skip
def test_the_command_refuses_wrong_input(
    tmp_path: Path, text: str | None, arguments: tuple[str, ...], told: str
) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        written(path, text)
    called = checked(path, *arguments)
    assert called.exit_code == 2, called.output
    assert called.stderr.startswith(f"ansorpy: {told}")
