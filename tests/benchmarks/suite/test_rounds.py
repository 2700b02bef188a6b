"""Contests with real processes: turns, resumption, crashes, contestants that are not there."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy.measure.host import local_target
from benchmarks.common import Results
from benchmarks.suite import rounds
from benchmarks.suite.contest import Terms, hold, party, reference_file
from benchmarks.suite.contestants import BASE, CONTESTANTS, OWN, TVM, Contestant
from benchmarks.suite.environments import make, pythons
from benchmarks.suite.guest import Guest, versions_of
from benchmarks.suite.rounds import KEYS, Plan, play, warm

NUMPY = CONTESTANTS["numpy"]
HERE = {OWN: Path(sys.executable), BASE: Path(sys.executable)}
BRIEF = Terms(visits=1, visit_s=0.01, warm_s=0.001, retries=0)
CASE = "nrm_256"  # the smallest of the suite
CORES = tuple(sorted(os.sched_getaffinity(0)))[:1]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rounds, "FOLDER", tmp_path)
    return tmp_path


def plan(cases: tuple[str, ...], count: int = 1, **kernels: Path) -> Plan:
    players = {(case, name, 1): path for case in cases for name, path in kernels.items()}
    return Plan(cases, (1,), count, (NUMPY,), BRIEF, players)


def results(path: Path) -> Results:
    return Results(path / "rounds.json", KEYS, {}, fresh=False)


@pytest.mark.night
def test_a_contest_has_a_figure_an_error_and_the_limits_of_the_machine(tmp_path: Path) -> None:
    with party(HERE, 1, CORES, tmp_path / "log") as guests:
        row = hold(CASE, {}, [NUMPY], guests, local_target(1), BRIEF, tmp_path)
    found = row["contestants"]["numpy"]
    assert 0 < found["least_s"] <= found["median_s"] < 1
    assert found["away"] < 1e-5
    assert row["fma_flop_per_s"] > 1e8
    assert row["copy_bytes_per_s"] > 1e7


@pytest.mark.night
def test_a_result_that_is_wrong_is_a_failure_and_is_not_timed(tmp_path: Path) -> None:
    path = reference_file(tmp_path / "references", CASE, 0)
    np.save(path, np.load(path) * 1.01)
    with party(HERE, 1, CORES, tmp_path / "log") as guests:
        row = hold(CASE, {}, [NUMPY], guests, local_target(1), BRIEF, tmp_path)
    assert row["contestants"]["numpy"]["failed"].startswith("wrong: 0.0099")
    assert "median_s" not in row["contestants"]["numpy"]


@pytest.mark.night
def test_an_operator_that_a_peer_lacks_is_no_failure(tmp_path: Path) -> None:
    with party(HERE, 1, CORES, tmp_path / "log") as guests:
        row = hold("c1d", {}, [NUMPY], guests, local_target(1), BRIEF, tmp_path)
    assert row["contestants"] == {"numpy": {"unfit": "not natural in NumPy"}}


def test_a_crashed_process_is_reported_and_replaced(tmp_path: Path) -> None:
    with party(HERE, 1, CORES, tmp_path / "log") as guests:
        first = guests.guest(NUMPY)
        assert first.ask({"do": "drop"}, 30.0) == {}
        os.kill(first.pid, signal.SIGKILL)
        answer = first.ask({"do": "drop"}, 30.0)
        assert answer == {"failed": "exit code -9"}
        second = guests.guest(NUMPY)
        assert second is not first
        assert second.ask({"do": "drop"}, 30.0) == {}


def test_a_process_is_stopped_between_its_turns(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log, Guest(NUMPY, HERE[BASE], 1, CORES, log) as guest:
        assert versions_of(guest, 30.0) == {"numpy": np.__version__}
        guest.pause()
        guest.send({"do": "nonsense"})  # resumes
        assert guest.receive(30.0) == {"failed": "no question 'nonsense'"}


def test_a_hung_process_is_killed(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log, Guest(NUMPY, HERE[BASE], 1, CORES, log) as guest:
        assert guest.receive(0.1) == {"failed": "no answer within 0 s"}
        assert not guest.alive


@pytest.mark.night
def test_an_interrupted_run_resumes_after_its_last_row(tmp_path: Path) -> None:
    assert play(plan((CASE,), 1), HERE, results(tmp_path), float("inf"))
    before = json.loads((tmp_path / "rounds.json").read_text())["rows"]
    assert play(plan((CASE, "tbg"), 1), HERE, results(tmp_path), float("inf"))
    after = json.loads((tmp_path / "rounds.json").read_text())["rows"]
    assert after[0] == before[0]
    assert [row["case"] for row in after] == [CASE, "tbg"]


@pytest.mark.night
def test_a_new_kernel_repeats_the_contest(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.zip"
    kernel.write_bytes(b"old")

    def times() -> Any:
        assert play(plan((CASE,), numpy=kernel), HERE, results(tmp_path), float("inf"))
        (row,) = json.loads((tmp_path / "rounds.json").read_text())["rows"]
        return row["contestants"]["numpy"]["median_s"], row["kernels"]

    first = times()
    assert times() == first
    kernel.write_bytes(b"new")
    assert times()[1] != first[1]


def test_warming_prepares_and_checks_but_times_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = reference_file(tmp_path / "references", CASE, 0)
    np.save(path, np.load(path) * 1.01)
    warm(plan((CASE,)), HERE)
    assert "wrong: 0.0099" in capsys.readouterr().err
    assert not (tmp_path / "rounds.json").exists()


def test_no_contest_begins_after_the_deadline(tmp_path: Path) -> None:
    assert not play(plan((CASE,)), HERE, results(tmp_path), 0.0)
    assert not (tmp_path / "rounds.json").exists()


def test_a_missing_environment_is_left_out(tmp_path: Path) -> None:
    assert pythons(tmp_path) == {OWN: Path(sys.executable)}
    with pytest.raises(SystemExit, match="want NAME=FOLDER"):
        pythons(tmp_path, [f"{TVM}={tmp_path}"])


def test_an_environment_elsewhere_is_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert pythons(tmp_path / "none", [f"{TVM}={tmp_path}"])[TVM] == tmp_path / "bin" / "python"


def test_an_existing_environment_is_kept(tmp_path: Path) -> None:
    wanted = (Path(rounds.__file__).parent / "requirements" / "halide.txt").read_text()
    (tmp_path / "halide").mkdir()
    (tmp_path / "halide" / "requirements.ok").write_text(wanted)
    assert make("halide", tmp_path)
    assert not (tmp_path / "halide" / "bin").exists()


def test_packages_that_are_not_installed_have_no_version(tmp_path: Path) -> None:
    nobody = Contestant("nobody", "nobody", BASE, "numpy_peer", ("no-such-package-here",))
    with (tmp_path / "log").open("wb") as log, Guest(nobody, HERE[BASE], 1, CORES, log) as guest:
        assert versions_of(guest, 30.0) == {}
