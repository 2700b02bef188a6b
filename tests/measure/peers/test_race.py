"""Installed libraries in the final race: timed and told, never delivered."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ansorpy
from ansorpy import te
from ansorpy.events import TaskResult
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.final_race import NO_TIME
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.own_kernel import PEER
from ansorpy.measure.timing.peers import guest
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.records import MemoryStore, RacedOwn, decode, encode
from ansorpy.result import summary
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.tuner.options.tune_options import TuneOptions, later_options
from ansorpy.tuner.race.ranking import NAIVE, rank
from tests.night import night

pytestmark = pytest.mark.usefixtures("few_candidates")

DAG = replace(workloads.matmul(16, 16, 16), name="mm")
ORT = "ONNX Runtime "


def tuned(dag: Dag, out: Path, store: MemoryStore | None = None, **options: Any) -> TaskResult:
    result = ansorpy.tune(dag, trials=2, out=out, store=store or MemoryStore(), **options)
    (task,) = result.tasks
    assert isinstance(task, TaskResult)
    return task


@pytest.mark.slow
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("cores", night([1, 2], [1]))
def test_onnx_runtime_is_timed_in_the_race_and_told(tmp_path: Path, cores: int) -> None:
    store = MemoryStore()
    task = tuned(workloads.softmax(16, 64), tmp_path, store, cores=cores)
    told = {one.name: one for one in task.peers}
    (name,) = (name for name in told if name.startswith(ORT))
    assert told[name].note == ""
    assert told[name].best_s is not None
    assert task.winner in ("tuned", "baseline")
    assert task.kernel is not None
    fields = ansorpy.load(task.kernel).manifest["peers"]
    assert [one["name"] for one in fields] == list(told)
    (record,) = [one for one in store.all(task.key) if one.race is not None]
    assert decode(encode(record)).race == record.race
    assert task.verdict is not None
    assert name in [one.name for one in task.verdict.peers]
    assert str(task.verdict) in summary([task])

    # A stored answer has the times of its race.
    again = tuned(workloads.softmax(16, 64), tmp_path, store, cores=cores)
    assert again.from_store
    assert again.peers == task.peers


@pytest.mark.slow
@pytest.mark.usefixtures("libraries")
def test_a_tuning_without_a_race_of_libraries_has_none(tmp_path: Path) -> None:
    assert tuned(DAG, tmp_path, race=False).peers == ()


@pytest.mark.slow
@pytest.mark.usefixtures("libraries")
def test_a_dag_without_operators_is_told_with_its_node(tmp_path: Path) -> None:
    x = te.placeholder((9,), "x")
    dag = te.dag(te.compute((9,), lambda i: x[8 - i], "turned"), "back")
    task = tuned(dag, tmp_path)
    assert {one.note for one in task.peers} == {"no operator for node 'turned'"}
    assert task.verdict is not None
    notes = {one.note for one in task.verdict.peers if one.seconds is None}
    assert "no operator for node 'turned'" in notes


BAD = {
    "wrong": "def run(a, b):\n    return a + b\n",
    "raises": "def run(a, b):\n    raise ValueError('not today')\n",
    "ends": "import os\ndef run(a, b):\n    os._exit(3)\n",
    "late": "def run(a, b):\n    return a @ b\ndef prepare(a, b):\n    raise ValueError('later')\n",
}


@pytest.mark.slow
def test_libraries_that_fail_are_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for name, text in BAD.items():
        main = tmp_path / f"{name}.py"
        main.write_text(text)
        made.append(
            guest.InstalledLibrary(name, "numpy", ("numpy",), main, lambda graph, constant: {})
        )
    monkeypatch.setattr(guest, "LIBRARIES", tuple(made))
    task = tuned(DAG, tmp_path)
    assert task.kernel is not None
    assert task.verified
    notes = {one.name.split()[0]: one.note for one in task.peers}
    assert sorted(notes) == sorted(BAD)
    assert not any(one.times_s for one in task.peers)
    assert "elements" in notes["wrong"]
    assert "ValueError: not today" in notes["raises"]
    assert "exit code 3" in notes["ends"]
    assert "ValueError: later" in notes["late"]


@pytest.mark.slow
@pytest.mark.usefixtures("libraries")
def test_a_late_race_has_no_time_for_libraries() -> None:
    plan = naive(DAG, target := local_target(1))
    program = bind(plan, plan.smallest_row, target)
    with LocalPool(DAG, target, MeasureSettings(race_visits=3)) as pool:
        found = pool.race({NAIVE: program}, late=lambda: True, peers=True)
    assert isinstance(found[NAIVE], PairedTimes)
    told = {one.message for name, one in found.items() if name.startswith(PEER)
            if isinstance(one, Failed)}  # fmt: skip
    assert told == {NO_TIME}


def test_a_faster_library_wins_nothing() -> None:
    finished = {
        NAIVE: PairedTimes(((4.0,),)),
        "tuned 0": PairedTimes(((2.0,),)),
        f"{PEER}Fast 1": PairedTimes(((1.0,),)),
    }
    ranking = rank(finished, "")
    assert (ranking.winner, ranking.chosen) == ("tuned", "tuned 0")
    assert (ranking.peers, ranking.own) == ((RacedOwn("Fast 1", (1.0,)),), ())


def test_a_request_with_the_default_has_the_digest_of_earlier_versions() -> None:
    assert later_options(TuneOptions()) == {}
    assert later_options(TuneOptions(race=False)) == {"race": False}


def test_libraries_are_found_without_an_import() -> None:
    code = (
        "import sys; from ansorpy.measure.timing.peers.guest import installed;"
        " names = list(installed());"
        " assert not {'onnx', 'onnxruntime', 'torch'} & set(sys.modules);"
        " print(names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ORT in done.stdout
