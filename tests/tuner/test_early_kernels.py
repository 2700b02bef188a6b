"""Kernels and the baseline of an early tuning, before its first trial and before its first race."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ansorpy
from ansorpy.artifact import unbox
from ansorpy.cost.roofline import RooflineModel
from ansorpy.events import BaselineTimed, Delivered, Derived, Event, FirstAnswer, RoundDone
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.progress import as_line
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.topi import workloads
from ansorpy.tuner.delivery.deliveries import Deliveries
from ansorpy.tuner.race import first_answer
from ansorpy.tuner.race.cpu_form import CpuForm
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rounds.setup import local_pools
from ansorpy.tuner.tasks.checkpoint import StoreJournal
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import DELIVERY_SHARE, FINISH_S, LIBRARY_S, TimeBudget
from ansorpy.tuner.tune import run

pytestmark = pytest.mark.usefixtures("few_candidates")

DAG = replace(workloads.matmul(48, 48, 48), name="mm")
OTHER = replace(workloads.softmax(17, 33), name="sm")
(SIZED,) = parse("def sized(float(4, N in 1..40) A) -> (B) { B(i) +=! A(i,j) }")


def manifest(kernel: Path) -> Any:
    return unbox(kernel.read_bytes(), "package").manifest


def test_answers_come_before_the_baseline_and_both_before_the_first_trial(tmp_path: Path) -> None:
    dags = DAG, OTHER, SIZED
    request = Request(dags, local_target(1), trials=6, early=True)
    events: list[Event] = []
    told: list[Any] = []
    for event in run(request, CPU, MemoryStore(), tmp_path):
        events.append(event)
        if isinstance(event, FirstAnswer):
            told.append(manifest(event.kernel))
    first = [one for one in events if isinstance(one, Derived | FirstAnswer | BaselineTimed)]
    begun = [(type(one), one.task) for one in first if not isinstance(one, Derived)]
    assert begun == [(kind, dag.name) for kind in (FirstAnswer, BaselineTimed) for dag in dags]
    kinds = [type(event) for event in events]
    assert max(n for n, kind in enumerate(kinds) if kind is BaselineTimed) < kinds.index(RoundDone)
    for one in told:
        assert one["verification"]["cases"] == ["all"]
        assert one["best_so_far"] is True
    for timed in (one for one in events if isinstance(one, BaselineTimed)):
        assert timed.naive_s is not None
        assert timed.numpy_s is not None
        assert timed.baseline_s == min(timed.naive_s, timed.numpy_s)
        assert as_line(timed).startswith(
            f"{timed.task}: the faster of the untuned kernel and NumPy"
        )
    for result in events[-1].results:  # type: ignore[union-attr]
        assert result.kernel is not None
        assert manifest(result.kernel)["best_so_far"] is False
        assert "kernel.py" in manifest(result.kernel)["files"]


def test_commands_time_no_baseline_before_their_race(tmp_path: Path) -> None:
    events: list[Event] = []
    store = MemoryStore()
    ansorpy.tune(DAG, trials=2, store=store, out=tmp_path, on_event=events.append)
    (answer,) = [event for event in events if isinstance(event, FirstAnswer)]
    assert answer.cases == first_answer.CASES
    assert not [event for event in events if isinstance(event, BaselineTimed)]


@pytest.mark.parametrize("early", [True, False])
def test_a_new_leader_is_a_library_until_the_first_race(tmp_path: Path, early: bool) -> None:
    target = local_target(1)
    task = Task.of(DAG, target, rules_name("cpu", CPU))
    task.space.explore(CPU, first_answer.PLANS)
    leader, second = first_answer.choose(task, RooflineModel(target), 0)[:2]
    task.history.costs_s.update({leader: 1.0, second: 2.0})
    now_s = [0.0]
    budget = TimeBudget(None, 0.0, 1, lambda: now_s[0])
    with closing(local_pools(Request((DAG,), target, trials=2))()) as pools:
        journal = StoreJournal(MemoryStore())
        made = Deliveries(CpuForm(), pools, journal, "request", tmp_path, budget, early=early)
        assert not list(made.intermediate(task)), "it is too soon"
        now_s[0] = LIBRARY_S / DELIVERY_SHARE + 1.0
        assert now_s[0] < FINISH_S / DELIVERY_SHARE, "a race is not yet due"
        told = list(made.intermediate(task))
        now_s[0] *= 2
        assert not list(made.intermediate(task)), "the leader is the same"
    if not early:
        assert told == []
        return
    (event,) = told
    assert isinstance(event, Delivered)
    facts = manifest(event.kernel)
    assert (facts["best_so_far"], facts["verification"]["cases"]) == (True, ["all"])
    assert "kernel.py" not in facts["files"]
