"""The first answer: chosen by the model, built, checked, and measured first."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ansorpy
from ansorpy.artifact import unbox
from ansorpy.codegen.exported_types import Export
from ansorpy.cost.roofline import RooflineModel
from ansorpy.events import Event, Finished, FirstAnswer, RoundDone, Stopping
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.libraries import Exported
from ansorpy.population import sample
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.search import Candidate
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.tuner.race import first_answer
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools


def matmul(n: int = 48) -> Dag:
    return replace(workloads.matmul(n, n, n), name="mm")


@pytest.mark.parametrize("cores", [1, 2])
def test_without_trials_a_correct_library_is_delivered(tmp_path: Path, cores: int) -> None:
    events: list[Event] = []
    store = MemoryStore()
    result = ansorpy.tune(
        matmul(), trials=0, cores=cores, store=store, out=tmp_path, on_event=events.append
    )
    (task,) = result.tasks
    assert task.verified
    assert task.trials == 0
    assert result.stopped == "trials"
    (told,) = [event for event in events if isinstance(event, FirstAnswer)]
    assert told.kernel == task.kernel
    assert told.best_s == task.best_s
    assert store.count() == 0  # it was no trial
    a, b = np.random.default_rng(0).random((2, 48, 48), np.float32)
    kernel = result.kernels["mm"]
    assert np.allclose(kernel(a, b), a.astype(np.float64) @ b, rtol=1e-5)
    assert kernel.manifest["verification"]["cases"] == ["random"]
    assert "kernel.py" not in kernel.manifest["files"]


def test_the_choice_is_the_best_by_the_model_and_deterministic() -> None:
    target = local_target(1)
    model = RooflineModel(target)

    def chosen() -> tuple[str, tuple[int, ...], float]:
        task = Task.of(matmul(96), target, rules_name("cpu", CPU))
        task.space.explore(CPU, first_answer.PLANS)
        best, *others = first_answer.choose(task, model, seed=3)
        features = [task.space.features(one.plan, [one]) for one in (best, *others)]
        scores = [float(model.predict([one])[0][0]) for one in features]
        assert scores == sorted(scores, reverse=True)
        return task.space.texts[best.plan], best.row, scores[0]

    again = chosen()
    assert chosen() == again
    task = Task.of(matmul(96), target, rules_name("cpu", CPU))
    task.space.explore(CPU)
    rng = np.random.default_rng(5)
    rows = [sample(plan, 16, rng) for plan in task.space.plans]
    batches = [
        task.space.features(i, [Candidate(i, tuple(row)) for row in found.tolist()])
        for i, found in enumerate(rows)
    ]
    typical = np.median(np.concatenate(model.predict(batches)))
    assert again[2] > 2 * typical


@pytest.mark.parametrize("trials", [0, 8])
def test_best_choices_of_plans_are_timed_together_if_no_trial_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: int
) -> None:
    told: list[tuple[str, ...]] = []
    export = LocalPool.export

    def noted(pool: LocalPool, *exports: Export, first_only: bool = False) -> Exported | Failed:
        told.append(tuple(one.prefix for one in exports))
        return export(pool, *exports, first_only=first_only)

    monkeypatch.setattr(LocalPool, "export", noted)
    events = run(Request((matmul(),), local_target(1), trials=trials), CPU, MemoryStore(), tmp_path)
    answer = next(event for event in events if isinstance(event, FirstAnswer))
    assert len(told) == 1
    assert len(set(told[0])) == (1 if trials else first_answer.TIMED)
    assert answer.library is not None
    assert answer.library.prefix in told[0]


def test_if_no_choice_passes_the_next_ones_are_tried_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    export = LocalPool.export

    def refused(pool: LocalPool, *exports: Export, first_only: bool = False) -> Exported | Failed:
        told.append(len(exports))
        if len(told) < 3:
            return Failed("wrong", "C[0] is 1, not 2")
        return export(pool, *exports, first_only=first_only)

    monkeypatch.setattr(LocalPool, "export", refused)
    request = Request((matmul(),), local_target(1), trials=0)
    events = list(run(request, CPU, MemoryStore(), tmp_path))
    assert [event for event in events if isinstance(event, FirstAnswer)]
    assert told == [first_answer.TIMED, 1, 1]
    (ended,) = [event for event in events if isinstance(event, Finished)]
    (task,) = ended.results
    assert dict(task.failures) == {"wrong": 2}  # told, though a later choice was right


def test_measured_candidates_come_before_predicted_ones() -> None:
    task = Task.of(matmul(), local_target(1), rules_name("cpu", CPU))
    task.space.explore(CPU, first_answer.PLANS)
    rows = sample(task.space.plans[2], 3, np.random.default_rng(0))
    slow, fast, lost = (Candidate(2, tuple(row)) for row in rows.tolist())
    task.history.costs_s |= {slow: 2.0, fast: 1.0, lost: float("inf")}
    assert first_answer.choose(task, RooflineModel(task.target), 0) == [fast, slow]


def test_the_search_measures_the_first_answer_first(tmp_path: Path) -> None:
    store = MemoryStore()
    events: list[Event] = []
    request = Request((matmul(),), local_target(1), trials=8, seed=1)
    zips: list[list[Path]] = []
    for event in run(request, CPU, store, tmp_path):
        events.append(event)
        zips.append(sorted(tmp_path.glob("*.zip")))
    kinds = [type(event) for event in events]
    assert kinds.index(FirstAnswer) < kinds.index(RoundDone)
    task = Task.of(matmul(), request.target, rules_name("cpu", CPU))
    task.space.explore(CPU, first_answer.PLANS)
    best = first_answer.choose(task, RooflineModel(request.target), request.seed)[0]
    trial = next(iter(store.export()))
    assert (trial.plan, trial.row) == (task.space.texts[best.plan], best.row)
    assert isinstance(trial.outcome, Measured)
    assert sum(record.race is None for record in store.export()) == 8
    # The first zip stays until the final one is there, and is announced.
    final = events[-1].results[0].kernel  # type: ignore[union-attr]
    assert {len(some) for some in zips[kinds.index(FirstAnswer) : -2]} == {1}
    assert len(zips[-2]) == 2
    assert zips[-1] == [final]


def test_an_interrupt_before_the_first_trial_keeps_the_first_answer(tmp_path: Path) -> None:
    events = run(Request((matmul(),), local_target(1), trials=8), CPU, MemoryStore(), tmp_path)
    assert isinstance(events, Generator)
    told = next(event for event in events if isinstance(event, FirstAnswer))
    assert events.throw(KeyboardInterrupt()) == Stopping()
    *_, last = events
    assert isinstance(last, Finished)
    assert last.stopped == "interrupted"
    kernel = last.results[0].kernel
    assert kernel is not None
    assert kernel.name == told.kernel.name.replace("-first", "")
    assert list(tmp_path.glob("*.zip")) == [kernel]
    assert unbox(kernel.read_bytes(), "package").manifest["best_so_far"] is False


def test_without_a_library_a_race_decides(tmp_path: Path) -> None:
    request = Request((matmul(),), local_target(1), trials=0)
    *events, last = run(request, CPU, MemoryStore(), tmp_path, pools=fake_pools())
    assert not [event for event in events if isinstance(event, FirstAnswer)]
    assert last.results[0].kernel is not None  # type: ignore[union-attr]


@pytest.mark.usefixtures("few_candidates")
def test_a_dag_with_edges_and_functions_has_a_first_answer(tmp_path: Path) -> None:
    result = ansorpy.tune(workloads.softmax(17, 33), trials=0, store=MemoryStore(), out=tmp_path)
    x = np.random.default_rng(0).normal(size=(17, 33)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    (kernel,) = result.kernels.values()
    assert np.allclose(kernel(x), e / e.sum(1, keepdims=True), atol=1e-6)
