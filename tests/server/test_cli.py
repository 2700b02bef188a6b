import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import ansorpy.tuner.tune as ansorpy_tune
from ansorpy.artifact.rate import Rate
from ansorpy.codegen.simt.device.present import present_gpu
from ansorpy.events import Finished, Started
from ansorpy.measure.cores import exclusive, lock_folder, slot_cores, usable_cores
from ansorpy.measure.host import local_target
from ansorpy.progress import as_line
from ansorpy.records import target_digest
from ansorpy.server.cli import app
from ansorpy.server.commands.common import pairs, pointed
from ansorpy.server.commands.tune import as_text
from ansorpy.server.doctor.checks import CHECKS, examine
from ansorpy.server.settings import ServiceSettings
from tests.server.process import prepare
from tests.server.test_worker import DERIVED, ROUND, result

HERE = local_target(1)
KNOWN = (
    "because no known target has that name; expected"
    f" {HERE.names[0]}, {HERE.names[1]}, {target_digest(HERE)}, cuda:sm_80 or cuda:sm_90"
)
MALFORMED = "because it is neither KIND[:ARCH] nor a digest of 16 hex digits; expected cpu, "
WHICH_GPU = (
    "ansorpy: cannot use target cuda because no GPU is present; expected cuda:sm_80 or cuda:sm_90\n"
)
NO_GPU = pytest.mark.skipif(present_gpu() is not None, reason="cuda is the GPU of this machine")
MOST = len(usable_cores())
MANY = MOST + 1
TOO_MANY = (
    f"ansorpy: cannot tune for {MANY} cores because this machine has {MOST}; expected 1 to {MOST}\n"
)
MM = "def mm(float(8,9) A, float(9,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mm.te"
    path.write_text(MM)
    (tmp_path / "broken.json").write_text('{"name"')
    return str(path)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"ANSORPY_DATA_DIR": str(tmp_path / "data"), "XDG_DATA_HOME": str(tmp_path / "home")}


def ansorpy(env: dict[str, str], *arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, env=env, input=text)


def test_the_loops_after_a_pass_are_printed(env: dict[str, str], file: str) -> None:
    every = ansorpy(env, "lower", file, "--bind", "N=16", "--print-after", "all")
    assert every.exit_code == 0, every.output
    titles = [line for line in every.stdout.splitlines() if line.startswith("# ")]
    assert (titles[0], titles[-1]) == ("# mm, after plan", "# mm, after prefetch")
    untuned = ansorpy(
        env, "lower", file, "--bind", "N=16", "--untuned", "--print-after", "bind_sizes"
    )
    assert "C[C:i, C:j] += A[C:i, C:k] * B[C:k, C:j]" in untuned.stdout
    wrong = ansorpy(env, "lower", file, "--bind", "N=16", "--print-after", "nope")
    assert wrong.exit_code == 2
    assert (
        "cannot print after 'nope' because no such pass exists; expected all, plan, "
        in wrong.stderr
    )


STAGES = ("dag", "sketch", "plan", "row", "program", "llvm", "numba", "passes")


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_every_stage_of_a_candidate_is_printed(env: dict[str, str], file: str, target: str) -> None:
    given = ("lower", file, "--bind", "N=16", "--cores", "1", "--target", target)
    every = ansorpy(env, *given, "--stage", "all")
    assert every.exit_code == 0, every.output
    titles = tuple(re.findall("^# mm, ([a-z]+)$", every.stdout, re.MULTILINE))
    assert titles == STAGES
    parts = dict(
        zip(titles, re.split("^# mm, [a-z]+\n", every.stdout, flags=re.M)[1:], strict=True)
    )
    assert "sum over k:9 of (A[i, k] * B[k, j])" in parts["dag"]
    assert re.search("size C[.a-z]*.i.1: tile, 1 to 8", parts["plan"])
    assert re.search("^C[.a-z]*.i.1 = [0-9]+$", parts["row"], re.MULTILINE)
    assert "define " in parts["llvm"]
    assert "import" in parts["numba"]
    assert parts["passes"].startswith("# after plan\n")
    single = ansorpy(env, *given, "--stage", "program")
    assert single.stdout == f"# mm, program\n{parts['program']}"


def test_a_wrong_stage_is_named(env: dict[str, str], file: str) -> None:
    wrong = ansorpy(env, "lower", file, "--bind", "N=16", "--stage", "nope")
    assert wrong.exit_code == 2
    listed = ", ".join(STAGES)
    message = f"cannot print stage 'nope' because no such stage exists; expected all, {listed}"
    assert message in wrong.stderr
    both = ansorpy(env, "lower", file, "--stage", "dag", "--print-after", "all")
    assert "cannot use --stage with --print-after; expected one of the two" in both.stderr


def test_sketches_are_counted_and_printed(env: dict[str, str], file: str) -> None:
    found = ansorpy(env, "sketches", file, "--bind", "N=16", "--json")
    answer = json.loads(found.stdout)
    assert answer["count"] == len(answer["sketches"]) > 0
    assert answer["tasks"][0]["name"] == "mm"
    assert "C" in answer["sketches"][0]
    plain = ansorpy(env, "sketches", file, "--bind", "N=16")
    assert f"# mm, sketch 0 of {answer['count']}" in plain.stdout


def test_cuda_has_sketches_of_its_own(env: dict[str, str], file: str) -> None:
    cpu = ansorpy(env, "sketches", file, "--bind", "N=16")
    cuda = ansorpy(env, "sketches", file, "--bind", "N=16", "--target", "cuda:sm_90")
    assert cuda.exit_code == 0
    assert cuda.stdout != cpu.stdout


@pytest.mark.parametrize("name", [*HERE.names, target_digest(HERE)])
def test_a_target_has_three_names(env: dict[str, str], file: str, name: str) -> None:
    plain = ansorpy(env, "sketches", file, "--bind", "N=16", "--target", "cpu")
    named = ansorpy(env, "sketches", file, "--bind", "N=16", "--target", name)
    assert (named.exit_code, named.stdout) == (0, plain.stdout)


def test_sketches_of_a_larger_machine_are_derived(env: dict[str, str], file: str) -> None:
    found = ansorpy(env, "sketches", file, "--bind", "N=16", "--cores", str(MANY))
    assert found.exit_code == 0


def test_explain_shows_rules_and_reasons(env: dict[str, str], file: str) -> None:
    found = ansorpy(env, "explain", file, "--bind", "N=16")
    assert found.stdout.startswith("mm: ")
    assert "apply" in found.stdout


def test_explain_tells_the_ranges_of_sizes_and_where_they_are_timed(env: dict[str, str]) -> None:
    def told(sizes: str, *more: str) -> str:
        rows = f"def f(float({sizes}, 4) A) -> (B) {{ B(i,j) = A(i,j) + 1 }}"
        return str(ansorpy(env, "explain", "-", *more, text=rows).stdout)

    ranged = "N in 1..40 @ 1..8: 0.9 + 40: 0.1"
    assert told(ranged).splitlines()[:3] == [
        "f: kernel for N in 1..1, timed at N = 1",
        "f: kernel for N in 2..8, timed at N = 2; N = 3; N = 4; N = 6; N = 8",
        "f: kernel for N in 9..40, timed at N = 40",
    ]
    (task,) = json.loads(told(ranged, "--json"))["tasks"]
    assert task["ranges"][0] == {"range": "N in 1..1", "sizes": "N = 1"}
    assert "kernel for" not in told("4")


def test_a_file_is_read_from_standard_input(env: dict[str, str]) -> None:
    assert ansorpy(env, "explain", "-", "--bind", "N=16", text=MM).exit_code == 0


def test_the_loops_of_sketches_have_a_legend(env: dict[str, str], file: str) -> None:
    lines = ansorpy(env, "sketches", file, "--bind", "N=16").stdout.splitlines()
    assert lines[0].startswith("# A line per stage: its loops, the outermost first, AXIS.PART:")
    assert lines[3] == "# mm, sketch 0 of 3"


def test_a_derivation_is_one_object(env: dict[str, str], file: str) -> None:
    found = ansorpy(env, "explain", file, "--bind", "N=16", "--json")
    (task,) = json.loads(found.stdout)["tasks"]
    assert (task["name"], len(task["sketches"])) == ("mm", 3)
    assert {visit["sketch"] for visit in task["visits"]} == {None, 0, 1, 2}
    assert task["visits"][0]["verdicts"][0]["rule"]
    refused = ansorpy(env, "explain", "model.onnx", "--json")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "ansorpy: cannot explain model.onnx as JSON because its explanation is a text; expected a"
        " file of tasks\n",
    )


def test_an_error_in_a_text_shows_its_line(env: dict[str, str]) -> None:
    text = "def mm(float(8) A) -> (C) {\n\tC(i) = D(i)\n}\n"
    found = ansorpy(env, "sketches", "-", text=text)
    assert found.stderr.splitlines() == [
        "ansorpy: -:2:9: 'D' is not a tensor, a function or a dtype",
        "   C(i) = D(i)",
        "          ^",
    ]
    assert pointed("x.te:9:1: no such line", "one line") == "x.te:9:1: no such line"
    message = pointed("x.te:1:201: wrong", "a" * 200 + "!" + "b" * 200)
    assert message.splitlines()[1:] == [f"  {'a' * 70}!{'b' * 69}", f"  {' ' * 70}^"]


def test_a_file_that_is_no_zip_is_no_bundle(env: dict[str, str], file: str) -> None:
    found = ansorpy(env, "run", file)
    assert (found.exit_code, found.stderr) == (2, "ansorpy: mm.te: not a bundle: it is no zip\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tune", "nowhere.te"), "nowhere.te"),
        (("tune", "{file}"), "N"),
        (
            ("tune", "{file}", "--bind", "N"),
            "cannot read --bind N because of its form; expected NAME=512, NAME=1..512,",
        ),
        (
            ("tune", "{file}", "--bind", "N=x"),
            "cannot bind 'N' to 'x' because of its form; expected a number, or a range",
        ),
        (("tune", "{file}", "--bind", "N=0"), "N"),
        (("tune", "{file}", "--bind", "N=4", "--bind", "K=4"), "K"),
        (
            ("tune", "{file}", "--bind", "N=4", "--weight", "mm"),
            "cannot read --weight mm because of its form; expected NAME=float",
        ),
        (
            ("tune", "{file}", "--bind", "N=4", "--weight", "x=2"),
            "cannot weight x because it is no task; expected mm",
        ),
        (
            ("tune", "{file}", "--bind", "N=4", "--seconds", "0"),
            "cannot tune with seconds 0.0; expected above 0",
        ),
        pytest.param(
            ("tune", "{file}", "--bind", "N=4", "--target", "cuda"), WHICH_GPU, marks=NO_GPU
        ),
        (
            ("tune", "{file}", "--bind", "N=4", "--target", "cuda:sm_75"),
            "cannot use target cuda:sm_75 because sm_75 has no preset; expected cuda:sm_80 or",
        ),
        (
            ("tune", "model.onnx", "--target", "cuda:sm_90"),
            "cannot tune a model for cuda because a bundle holds libraries of a CPU; expected",
        ),
        (("tune", "{file}", "--bind", "N=4", "--target", "cpu:i286"), f"tune for cpu:i286 {KNOWN}"),
        (("tune", "{file}", "--bind", "N=4", "--target", "0" * 16), f"tune for {'0' * 16} {KNOWN}"),
        (("tune", "{file}", "--bind", "N=4", "--target", "a b"), f"target 'a b' {MALFORMED}"),
        pytest.param(
            ("sketches", "{file}", "--bind", "N=4", "--target", "cuda"), WHICH_GPU, marks=NO_GPU
        ),
        (
            ("sketches", "{file}", "--bind", "N=4", "--target", "tpu"),
            f"cannot tune for tpu {KNOWN}",
        ),
        (("tune", "{file}", "--bind", "N=4", "--cores", str(MANY)), TOO_MANY),
        (("sketches", "{json}"), "broken.json: spec: not JSON"),
        (("tune", "{file}", "--trials", "-1"), "trials"),
        (("tune", "{file}", "--cores", "0"), "cores"),
        (("serve", "--host", "0.0.0.0"), "loopback"),
        (("serve", "--port", "99999"), "port"),
        (
            ("tune", "{file}", "--bind", "N=4", "--weight", "mm=-1"),
            "cannot tune with weights mm=-1.0; expected above 0",
        ),
        (("tune", "{file}", "--bind", "N=4", "--out", "{file}"), "File exists"),
        (("nonsense",), "nonsense"),
    ],
)
def test_invalid_input_is_one_message_and_exit_code_2(
    env: dict[str, str], file: str, arguments: tuple[str, ...], message: str
) -> None:
    json_file = str(Path(file).parent / "broken.json")
    found = ansorpy(env, *(part.format(file=file, json=json_file) for part in arguments))
    assert found.exit_code == 2
    assert message in found.stderr
    assert found.stdout == ""
    assert "Traceback" not in found.stderr


def test_without_a_survivor_the_reasons_are_printed(
    env: dict[str, str], file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> Generator[Finished, None, Finished]:
        end = Finished((result(None),), 1.0, "trials")
        yield end
        return end

    monkeypatch.setattr(ansorpy_tune, "run", run)
    arguments = ("tune", file, "--bind", "N=4", "--out", str(tmp_path), "--json")
    found = ansorpy(env, *arguments)
    (task,) = json.loads(found.stdout)["tasks"]
    assert found.exit_code == 3
    assert (task["best_s"], task["kernel"]) == (None, None)
    assert task["failures"] == {"wrong": {"count": 1, "example": "C[0] is 1, not 2"}}


@pytest.mark.parametrize("command", [("tune", "-"), ("serve",)], ids=lambda c: c[0])
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"ANSORPY_PORT": "abc"}, "ANSORPY_PORT: "),
        (
            {"ANSORPY_DATA_DIR": "/proc/nowhere"},
            "expected a usable ANSORPY_DATA_DIR (/proc/nowhere)",
        ),
        (
            {"ANSORPY_DATABASE_URL": "nonsense"},
            "cannot open the database because of Could not parse",
        ),
    ],
    ids=lambda value: str(value),
)
def test_an_invalid_setting_is_one_message_and_exit_code_2(
    env: dict[str, str], setting: dict[str, str], message: str, command: tuple[str, ...]
) -> None:
    found = ansorpy({**env, **setting}, *command, text=MM.replace("N", "4"))
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.slow
def test_doctor_builds_checks_and_calls_a_kernel(env: dict[str, str]) -> None:
    found = ansorpy(env, "doctor")
    assert found.exit_code == 0, found.stdout
    lines = [line.split(maxsplit=2) for line in found.stdout.splitlines()]
    told = {name.rstrip(":"): (state, text) for state, name, text in lines}
    assert set(told) == {
        "python", "packages", "target", "load", "instructions", "rules", "openmp", "linker", "data",
        "database", "private", "sandbox", "isolation", "kernel", "nvptx", "ptxas", "gpu",
        "emulator",
    }  # fmt: skip
    assert "packed, loaded and called" in told["kernel"][1]
    assert "gains no privileges" in told["isolation"][1]


def test_doctor_reports_a_problem_and_continues(env: dict[str, str]) -> None:
    ansorpy(env, "db", "upgrade")
    with sqlite3.connect(Path(env["ANSORPY_DATA_DIR"]) / "ansorpy.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    settings = ServiceSettings(data_dir=Path(env["ANSORPY_DATA_DIR"]))
    checks = [check for check in CHECKS if check[0] in ("database", "data")]
    found = {finding.name: finding for finding in examine(settings, checks)}
    assert found["database"].state == "bad"
    assert "schema 9999" in found["database"].text
    assert found["data"].state == "ok"


def test_the_database_is_upgraded_once(env: dict[str, str]) -> None:
    first, second = ansorpy(env, "db", "upgrade"), ansorpy(env, "db", "upgrade")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "empty -> " in first.stdout
    assert "already" in second.stdout


def test_a_database_of_another_version_is_invalid_input(env: dict[str, str]) -> None:
    ansorpy(env, "db", "upgrade")
    with sqlite3.connect(Path(env["ANSORPY_DATA_DIR"]) / "ansorpy.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    for command in (("db", "upgrade"), ("serve",)):
        found = ansorpy(env, *command)
        assert found.exit_code == 2
        assert "schema 9999" in found.stderr


def test_pairs_keep_their_type() -> None:
    assert pairs(["a=2", "b=3"], "--bind", int) == {"a": 2, "b": 3}
    assert pairs(None, "--bind", int) == {}


def test_progress_is_one_line_per_event() -> None:
    assert as_line(DERIVED) == "mm: 3 sketches, 9 plans"
    assert as_line(ROUND).startswith("mm: round 1, 2 trials, best 1 ms, 1 failed")


def test_the_summary_ends_with_the_next_command() -> None:
    won, lost = result(Path("mm.zip")), result(None)
    lines = as_text(Finished((won, lost), 1.0, "trials")).splitlines()
    assert lines[0] == "mm: 1 ms per call, not raced, verified against float64 loops"
    for rate, told in ((Rate(2.5e9, False), "2.5 GFLOP/s"), (Rate(9e9, True), "9.0 effective")):
        rated = as_text(Finished((replace(won, rate=rate),), 1.0, "trials"))
        assert f"  latency   1 ms, {told}" in rated
    assert "  failures  wrong: C[0] is 1, not 2" in lines
    assert [line for line in lines if line.startswith("next: ")] == lines[-1:]
    assert """import ansorpy; k = ansorpy.load("mm.zip"); print(k)""" in lines[-1]


def test_the_version_is_printed(env: dict[str, str]) -> None:
    assert ansorpy(env, "--version").stdout == f"ansorpy {version('ansorpy')}\n"


def test_help_lists_tune_first_and_shows_an_example(env: dict[str, str]) -> None:
    told = ansorpy({**env, "COLUMNS": "120"}, "--help").stdout
    places = [told.index(f"\n  {name} ") for name in ("tune", "sketches", "serve", "submit", "db")]
    assert places == sorted(places)
    shown = ansorpy(env, "tune", "--help").stdout
    (example,) = re.findall(r"ansorpy (tune examples/.*\S)", shown)
    command = typer.main.get_command(app).loaded("tune")  # type: ignore[attr-defined]
    asked = command.make_context("tune", example.split()[1:]).params  # as a user runs it
    assert Path(asked["file"]).exists()
    assert asked["trials"] == 128


@pytest.mark.parametrize("command", [("run",), ("bench",), ("join",), ("kernels", "pull")])
def test_help_says_that_a_package_is_code_of_its_author(
    env: dict[str, str], command: tuple[str, ...]
) -> None:
    told = " ".join(ansorpy({**env, "COLUMNS": "200"}, *command, "--help").stdout.split())
    assert re.search("code of (its author|the author of the bundle)", told)
    assert "that you trust" in told


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("ansorpy tu", ["tune"]),
        ("ansorpy kernels p", ["pull"]),
        ("ansorpy bench --help-all --ag", ["--against"]),
    ],
)
def test_shells_can_complete_commands(
    env: dict[str, str], words: str, completions: list[str]
) -> None:
    at = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    asked = {"_ANSORPY_COMPLETE": "complete_bash", **at}
    found = subprocess.run(
        [Path(sys.executable).with_name("ansorpy")], env={**os.environ, **env, **asked},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert found.stdout.split() == completions


def test_equal_tasks_are_reported_before_and_after() -> None:
    twin = replace(result(Path("mm.zip")), name="twin", same_as="mm", trials=0, failures={})
    lines = as_text(Finished((twin,), 1.0, "trials")).splitlines()
    assert "  trials    0, tuned as mm, which is equal" in lines
    started = as_line(Started(("mm",), (0,), 8, None, {"twin": "mm"}))
    assert started == "tuning mm: 8 trials, 0 records known; twin equals mm"


def command(env: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    prepare(f"sqlite:///{env['ANSORPY_DATA_DIR']}/ansorpy.db")
    return subprocess.Popen(
        [sys.executable, "-m", "ansorpy", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )


@pytest.mark.slow
def test_tune_prints_one_object_and_answers_the_same_request_from_the_store(
    env: dict[str, str], file: str, tmp_path: Path
) -> None:
    """On a terminal one line shows the search and then the final race."""
    ours, theirs = pty.openpty()
    arguments = (
        "tune", file, "--bind", "N=16", "--trials", "4", "--cores", "1", "--out", str(tmp_path),
        "--json",
    )  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "ansorpy", *arguments], stdout=subprocess.PIPE, stderr=theirs,
        env={**os.environ, **env}, text=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        told = b""
        with (
            suppress(OSError),
            os.fdopen(ours, "rb", buffering=0) as terminal,
        ):  # EIO: the terminal is closed
            while part := terminal.read(4096):
                told += part
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, told
    painted = [line.strip() for line in told.decode().split("\r")]
    search, race = (
        next(at for at, line in enumerate(painted) if re.search(sign, line))
        for sign in (r"^mm: \[-{20}\] 0/4 trials, best \d", r"^mm: final race .*, best \d")
    )
    assert search < race
    assert "\x1b" not in told.decode()
    again = ansorpy(env, *arguments)
    assert again.exit_code == 0, again.stderr
    first, second = (json.loads(text)["tasks"][0] for text in (out, again.stdout))
    assert {"name", "best_s", "baseline_s", "trials", "seconds", "verified", "kernel"} <= set(first)
    assert (first["name"], first["trials"], first["verified"]) == ("mm", 4, True)
    assert Path(first["kernel"]).exists()
    assert (second["from_store"], second["best_s"]) == (True, first["best_s"])


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_so_far(env: dict[str, str], file: str, tmp_path: Path) -> None:
    process = command(
        env, "tune", file, "--bind", "N=8", "--trials", "100000", "--out", str(tmp_path), "--json"
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "round 1" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=120)
    assert process.returncode == 130
    ends = [line.split(":")[0] for line in told.splitlines() if "another job" not in line]
    assert ends[-3:-1] == ["stopping", "mm"]
    answer = json.loads(out)
    assert answer["stopped"] == "interrupted"
    assert answer["tasks"][0]["verified"]
    assert list(tmp_path.glob("*.zip")) == [Path(answer["tasks"][0]["kernel"])]


@pytest.mark.night
def test_a_second_ctrl_c_names_the_written_files(
    env: dict[str, str], file: str, tmp_path: Path
) -> None:
    process = command(
        env, "tune", file, "--bind", "N=64", "--trials", "100000", "--out", str(tmp_path)
    )
    assert process.stderr is not None
    for mark in ("round 1", "final race"):
        for line in process.stderr:
            if mark in line:
                break
        process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=120)
    (written,) = tmp_path.glob("*.zip")
    assert (process.returncode, out) == (130, "")
    assert told.splitlines()[-1] == f"ansorpy: interrupted; written before: {written}"


@pytest.mark.slow
def test_ctrl_c_ends_a_wait_for_a_core(
    env: dict[str, str], file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # private lock files
    with exclusive(slot_cores(1), lock_folder()):
        process = command(
            {**env, "TMPDIR": str(tmp_path)},
            "tune", file, "--bind", "N=64", "--out", str(tmp_path), "--json",
        )  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if "another job of this machine is timing on it; waiting" in line:
                break
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert told.splitlines()[-1] == "ansorpy: interrupted before a kernel could be written"
    assert "Traceback" not in told


@pytest.mark.slow
def test_a_worker_ends_on_sigterm(env: dict[str, str]) -> None:
    process = command({**env, "ANSORPY_LOG_FORMAT": "json"}, "worker")
    assert process.stderr is not None
    first = json.loads(process.stderr.readline())
    assert (first["message"], first["from"]) == ("worker started", "ansorpy.server.worker.main")
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(rest.splitlines()[-1])["message"] == "worker stopped"
