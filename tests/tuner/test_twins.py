"""Equal tasks under several names are tuned once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorpy.artifact import load, unbox
from ansorpy.cost.random import RandomModel
from ansorpy.events import Event, Finished, FirstAnswer, RoundDone, Started, TaskDone
from ansorpy.expr.expr import Const
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.records import MemoryStore, RecordStore
from ansorpy.rules import CPU
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.identity import Identity
from ansorpy.tuner.tasks.search_space import SearchSpace
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.twins import (
    each_told,
    leaders,
    renamed,
    summed,
    twin_names,
    with_twins,
    zips,
)
from ansorpy.tuner.tune import run
from tests.artifact.test_pack import TARGET
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

TEXT = """
def first(float(16,24) A, float(24,32) B, float(32) b) -> (D) {
  C(i,j) +=! A(i,k) * B(k,j)
  D(i,j) = max(C(i,j) + b(j), 0.0)
}
def other(float(64) A) -> (B) { B(i) = fmax(A(i), 0) }
def second(float(16,24) C, float(24,32) A, float(32) D) -> (out) {
  T(m,n) +=! C(m,r) * A(r,n)
  out(m,n) = max(T(m,n) + D(n), 0.0)
}
"""
DAGS = parse(TEXT)


def twin_task() -> Task:
    first, _, second = DAGS
    return Task(Identity(first, TARGET, "cpu@1", twins=(second,)), SearchSpace(first, TARGET))


def events(out: Path, store: RecordStore | None = None, trials: int = 32) -> Iterator[Event]:
    request = Request(DAGS, TARGET, trials=trials, weights={"first": 2.0, "second": 5.0})
    model = RandomModel(np.random.default_rng(0))
    return run(
        request, CPU, store or MemoryStore(), out, model, fake_pools(), clock=lambda: 0.0
    )  # fmt: skip


def test_equal_dags_are_one_task_with_the_sum_of_the_weights() -> None:
    first, other, second = DAGS
    assert with_twins(DAGS) == [(first, (second,)), (other, ())]
    firsts = leaders(DAGS)
    assert firsts == {"first": "first", "other": "other", "second": "first"}
    assert twin_names(firsts) == {"second": "first"}
    assert summed(firsts, {"first": 2.0, "second": 5.0, "other": 1.0}) == {
        "first": 7.0,
        "other": 1.0,
    }


def test_equal_tasks_share_their_trials_and_both_are_delivered(tmp_path: Path) -> None:
    store = MemoryStore()
    found = list(events(tmp_path / "a", store))
    assert isinstance(found[0], Started)
    assert (found[0].tasks, found[0].twins) == (("first", "other"), {"second": "first"})
    rounds = [event for event in found if isinstance(event, RoundDone)]
    assert {event.task for event in rounds} == {"first", "other"}
    end = found[-1]
    assert isinstance(end, Finished)
    first, other, second = end.results
    ended = [event.result.name for event in found if isinstance(event, TaskDone)]
    assert ended == ["first", "second", "other"]
    assert {one.kernel for one in end.results} == set((tmp_path / "a").glob("*.zip"))
    assert [one.name for one in end.results] == ["first", "other", "second"]
    assert first.trials + other.trials == 32 == sum(r.race is None for r in store.export())
    assert (second.trials, second.seconds, second.failures) == (0, 0.0, {})
    assert (second.same_as, first.same_as, other.same_as) == ("first", "", "")
    assert (second.best_s, second.winner, second.verified) == (first.best_s, "tuned", True)
    again = list(events(tmp_path / "b", store))[-1]
    assert isinstance(again, Finished)
    assert again.stopped == "store"
    for one, two in zip(end.results, again.results, strict=True):
        assert one.kernel is not None
        assert two.kernel is not None
        assert one.kernel.read_bytes() == two.kernel.read_bytes()


@pytest.mark.slow
def test_each_name_gets_a_kernel_with_its_own_names(tmp_path: Path) -> None:
    *_, end = events(tmp_path, trials=16)
    assert isinstance(end, Finished)
    kernels = {one.name: one.kernel for one in end.results}
    manifests = {
        name: unbox(path.read_bytes(), name).manifest
        for name, path in kernels.items()
        if path is not None
    }
    assert [one["name"] for one in manifests["second"]["inputs"]] == ["C", "A", "D"]
    assert [one["name"] for one in manifests["second"]["outputs"]] == ["out"]
    assert manifests["first"]["record"] == manifests["second"]["record"]
    assert kernels["second"] is not None
    kernel = load(kernels["second"])
    assert kernel.selftest() == []
    with pytest.raises(ValueError, match=r"D has shape \(31,\); expected \(32,\)"):
        kernel(*(np.ones(shape, np.float32) for shape in ((16, 24), (24, 32), (31,))))


def test_an_intermediate_delivery_is_reported_for_every_name(tmp_path: Path) -> None:
    task = twin_task()
    event = FirstAnswer("first", tmp_path / "first-first-12.zip", 1.0, 2.0, ("random",))
    assert list(each_told(task, event)) == [
        event, replace(event, task="second", kernel=tmp_path / "second-first-12.zip"),
    ]  # fmt: skip
    assert list(zips(event.kernel, task)) == [
        tmp_path / "first-first-12.zip", tmp_path / "second-first-12.zip",
    ]  # fmt: skip


def test_buffers_get_the_names_of_the_twin_and_stay_apart() -> None:
    task = twin_task()
    named = [
        Buffer(name, "float32", (Const(4),), scope)
        for name, scope in (
            ("A", Scope.INPUT), ("C", Scope.GLOBAL), ("C.B.pack", Scope.GLOBAL),
            ("D", Scope.OUTPUT), ("D.1", Scope.OUTPUT), ("out", Scope.GLOBAL),
            ("T.pack", Scope.GLOBAL), (".workspace", Scope.GLOBAL),
        )
    ]  # fmt: skip
    found = [buffer.name for buffer in renamed(named, task, task.identity.twins[0])]
    assert found == [
        "C", "T", "T.B.pack", "out", "out.1", "out_", "T.pack_", ".workspace",
    ]  # fmt: skip
    assert renamed(named, task, task.dag) == tuple(named)
