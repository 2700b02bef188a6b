"""Mode manual: a schedule is compiled, verified, timed and delivered as it is."""

import json
import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from typer.testing import CliRunner

import ansorpy
from ansorpy.errors import SpecError
from ansorpy.events import Derived, Event, Finished
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed
from ansorpy.model.options import ModelOptions
from ansorpy.model.request import ModelRequest
from ansorpy.records import MemoryStore
from ansorpy.schedule import create_schedule
from ansorpy.server.cli import app
from ansorpy.target import Target
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools
from tests.model.test_compile import small_model

TEXT = "def mm(float(24,24) A, float(24,24) B) -> (C) { C(y,x) +=! A(y,k) * B(k,x) }"
(MM,) = parse(TEXT)
TARGET = Target("cpu", vector_bits=256)
STEPS = "yo, yi = C.split(y, inner=[4])\nC.reorder(yo, k, yi, x)\n"


def finish(out: Path, store: MemoryStore, **changes: object) -> tuple[list[Event], Finished]:
    asked = {"mode": "manual", "schedule": STEPS, **changes}
    pools = asked.pop("pools", fake_pools())
    request = Request((MM,), TARGET, **asked)  # type: ignore[arg-type]
    events = list(run(request, store=store, out=out, pools=lambda: pools()))  # type: ignore[operator]
    last = events[-1]
    assert isinstance(last, Finished)
    return events, last


def test_a_schedule_is_one_trial_and_one_record_and_one_zip(tmp_path: Path) -> None:
    store = MemoryStore()
    events, last = finish(tmp_path, store, trials=500)
    (result,) = last.results
    assert (result.trials, result.verified, result.winner) == (1, True, "tuned")
    assert result.kernel is not None
    assert "y.0, y.1" not in result.kernel.read_bytes().decode("latin1")  # it is compressed
    trial, race = store.all(result.key)
    assert json.loads(trial.plan)["steps"][0] == ["SP", "C", "y", 2, []]
    assert trial.row[0] == race.row[0] == 4
    assert trial.rules.startswith("manual@")
    (derived,) = [one for one in events if isinstance(one, Derived)]
    assert "for C:y.0 in 6" in derived.loops


def test_equal_schedules_are_answered_from_the_store_and_others_are_not(tmp_path: Path) -> None:
    store = MemoryStore()
    finish(tmp_path, store)
    assert finish(tmp_path, store)[1].stopped == "store"
    other = STEPS.replace("[4]", "[6]")
    assert finish(tmp_path, store, schedule=other)[1].results[0].trials == 1
    assert finish(tmp_path, store, mode="auto", schedule=None, trials=8)[1].stopped == "trials"


def test_the_schedule_is_delivered_even_if_the_untuned_kernel_is_faster(tmp_path: Path) -> None:
    pools = fake_pools(race_s={"naive": 1e-4, "tuned 0": 2e-3})
    store = MemoryStore()
    (result,) = finish(tmp_path, store, pools=pools)[1].results
    assert (result.winner, result.best_s, result.naive_s) == ("baseline", 2e-3, 1e-4)
    race = store.all(result.key)[-1].race
    assert race is not None
    assert race.delivered == "tuned"


def test_a_schedule_that_fails_delivers_nothing(tmp_path: Path) -> None:
    wrong = Failed("wrong", "C[0] is 1, not 2")
    pools = fake_pools(verdict=lambda program: wrong)
    (result,) = finish(tmp_path, MemoryStore(), pools=pools)[1].results
    assert result.kernel is None
    assert dict(result.failures) == {"wrong": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": None}, "cannot tune with mode manual because there is no schedule; expected"),
        ({"mode": "auto"}, "cannot tune with a schedule in mode auto because"),
        ({"mode": "hand"}, "cannot tune with mode 'hand'; expected auto or template or manual"),
        ({"schedule": "C.frob(y)"}, "cannot read line 1 of the schedule because of 'frob'"),
    ],
)
def test_a_mode_and_its_schedule_belong_together(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Request((MM,), TARGET, **{"mode": "manual", "schedule": STEPS, **changes})  # type: ignore[arg-type]


def test_a_schedule_is_of_one_task_and_of_a_processor(tmp_path: Path) -> None:
    two = (MM, *parse(TEXT.replace("def mm", "def other")))
    with pytest.raises(SpecError, match="cannot tune several tasks with mode manual because"):
        Request(two, TARGET, mode="manual", schedule=STEPS)
    with pytest.raises(SpecError, match="cannot tune with mode manual for cuda because"):
        Request((MM,), ansorpy.target.cuda_target("sm_90"), mode="manual", schedule=STEPS)
    bad = STEPS + "C.split(y, inner=[2])"
    with pytest.raises(SpecError, match=r"cannot apply step 3 .* because no loop 'y'"):
        finish(tmp_path, MemoryStore(), schedule=bad)


def test_a_model_has_no_schedule(tmp_path: Path) -> None:
    options = ModelOptions(mode="manual", schedule=STEPS)
    with pytest.raises(SpecError, match="cannot tune a model with mode manual because a schedule"):
        ModelRequest(small_model(), TARGET, options, tmp_path)


@pytest.mark.slow
def test_a_kernel_of_a_schedule_computes_the_product(tmp_path: Path) -> None:
    s = create_schedule(MM)
    yo, yi = s["C"].split("y", 3)
    s["C"].reorder(yo, "k", yi, "x")
    s["C"].vectorize("x")
    found = ansorpy.tune(MM, mode="manual", schedule=s, store=MemoryStore(), out=tmp_path)
    a, b = (np.random.default_rng(0).random((24, 24), np.float32) for _ in range(2))
    np.testing.assert_allclose(found.kernels["mm"](a, b), a @ b, rtol=1e-5)


def test_the_command_reads_a_file_and_shows_the_loops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSORPY_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "mm.te").write_text(TEXT)
    (tmp_path / "mm.schedule").write_text(STEPS)
    given = [str(tmp_path / "mm.te"), "--schedule", str(tmp_path / "mm.schedule")]
    with patch("ansorpy.tuner.tune.local_pools", lambda request: fake_pools()):
        done = CliRunner().invoke(
            app, ["tune", *given, "--mode", "manual", "--out", str(tmp_path / "out")]
        )
    assert done.exit_code == 0, done.output
    assert "the schedule makes these loops" in done.stderr
    lowered = CliRunner().invoke(app, ["lower", *given])
    assert re.search("for C:y.0 in 6", lowered.stdout)
    (tmp_path / "mm.schedule").write_text("C.reorder(y, x)")
    (tmp_path / "mm.template").write_text(
        'knob t = {"split": "C.y", "num_outputs": 2}\nC.split(y, inner=$t)'
    )
    knobs = ["--mode", "template", "--template", str(tmp_path / "mm.template"), "--tuner", "random"]
    with patch("ansorpy.tuner.tune.local_pools", lambda request: fake_pools()):
        tried = CliRunner().invoke(
            app, ["tune", given[0], *knobs, "--trials", "4", "--out", str(tmp_path / "out")]
        )
    assert tried.exit_code == 0, tried.output
    assert "trials    4" in tried.stdout
    wrong = CliRunner().invoke(app, ["lower", *given])
    assert wrong.exit_code == 2
    assert "cannot apply step 1 (C.reorder(y, x)) because not a permutation" in wrong.stderr
