import re
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy import te
from ansorpy.artifact import unbox, unpack
from ansorpy.artifact.rate import Rate
from ansorpy.codegen.kernel import Kernel
from ansorpy.cost.random import RandomModel
from ansorpy.errors import SpecError
from ansorpy.events import (
    Derived,
    Event,
    Finished,
    Improved,
    RoundDone,
    Started,
    Stopping,
    TaskResult,
)
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.pool import MeasurePool
from ansorpy.records import JsonlStore, MemoryStore, RecordStore
from ansorpy.result import Result
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.ranking import judge
from ansorpy.tuner.requests.request import Request, read_dags
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import run
from tests.fakes import COMPILE_S, FakePool, cost_s, fake_pools, pools_of

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
RELU = "def relu(float(64) A) -> (B) { B(i) = fmax(A(i), 0) }"
TARGET = Target(vector_bits=256, registers=16)


def events(
    text: str = MM,
    store: RecordStore | None = None,
    out: Path | None = None,
    pools: Any = None,
    **options: Any,
) -> Generator[Event, None, Finished]:
    request = Request(parse(text), TARGET, **{"trials": 32, **options})
    return run(
        request,
        find_rules("cpu"),
        MemoryStore() if store is None else store,
        out,
        model=RandomModel(np.random.default_rng(0)),
        pools=pools or fake_pools(),
        clock=lambda: 0.0,
    )


def last(found: Iterator[Event]) -> Finished:
    *_, end = found
    assert isinstance(end, Finished)
    return end


def only(found: Iterator[Event]) -> TaskResult:
    (result,) = last(found).results
    return result


def test_the_events_of_a_tuning(tmp_path: Path) -> None:
    found = list(events(out=tmp_path))
    assert isinstance(found[0], Started)
    assert isinstance(found[1], Derived)
    rounds = [event for event in found if isinstance(event, RoundDone)]
    assert [(r.round, r.trials) for r in rounds] == [(1, 8), (2, 24), (3, 32)]
    bests = [event.best_s for event in found if isinstance(event, Improved)]
    assert bests == sorted(bests, reverse=True)
    end = found[-1]
    assert isinstance(end, Finished)
    assert end.stopped == "trials"
    (result,) = end.results
    assert (result.winner, result.trials, result.verified) == ("tuned", 32, True)
    assert result.best_s == 1.2e-3
    assert result.baseline_s == 3e-3
    assert result.kernel is not None
    assert result.kernel.parent == tmp_path


def test_every_reported_time_was_measured(tmp_path: Path) -> None:
    """Every trial claims that the machine was 1.4 times slower than usual."""

    def slowed(program: Program) -> Measured:
        return Measured((2 * cost_s(program), 3.0), slowdown=1.4)

    store = MemoryStore()
    found = list(events(store=store, out=tmp_path, pools=fake_pools(slowed)))
    times_s = [r.outcome.times_s[0] for r in store.export() if isinstance(r.outcome, Measured)]
    told = [e.best_s for e in found if isinstance(e, RoundDone | Improved)]
    assert told
    assert set(told) <= set(times_s)
    assert told[-1] == min(times_s[:-1])  # the last record is the race
    assert only(iter(found)).best_s == times_s[-1] == 1.2e-3


def test_the_time_of_a_race_replaces_those_of_the_trials_before_it() -> None:
    task = Task.of(parse(MM)[0], TARGET, "rules")
    first, second, third, lost = (Candidate(0, (n,)) for n in range(4))
    task.history.learn([first, second], [Measured((2.1, 2.2), slowdown=1.4), Measured((1.9,))])
    assert (task.best_s, task.history.ranked()) == (1.9, [first, second])
    task.history.note_race(2.0)
    assert task.best_s == 2.0
    task.history.learn([third, lost], [Measured((1.95,)), Failed("wrong", "")])
    assert task.best_s == 2.0
    task.history.learn([lost], [Measured((1.8,))])
    assert task.best_s == 1.8


@pytest.mark.parametrize(("share", "shown"), [(2.0, True), (0.5, False), (0.0, True)])
def test_a_rate_beyond_the_peak_of_the_machine_is_no_figure(
    tmp_path: Path, share: float, shown: bool
) -> None:
    """And stays none when the store answers; 0: the peak could not be measured."""
    flop = 2 * 16 * 24 * 32

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        pool = FakePool(dag, target)
        pool.peak_flop_per_s = share * flop / 1.2e-3
        return pool

    store = MemoryStore()
    for _ in range(2):
        result = only(events(store=store, out=tmp_path, pools=pools_of(open_pool), trials=8))
        known = 1 / share if share else None
        assert result.rate == (Rate(flop / 1.2e-3, False, known) if shown else None)
        assert result.kernel is not None
        manifest = unpack(result.kernel, tmp_path)
        assert manifest["rate"]["flop_per_s"] == (flop / 1.2e-3 if shown else None)
        assert ("GFLOP/s" in (tmp_path / "kernel.py").read_text().split("Schedule:")[0]) is shown
    assert result.from_store


def test_every_trial_and_the_race_are_recorded(tmp_path: Path) -> None:
    store = MemoryStore()
    last(events(store=store, out=tmp_path))
    records = list(store.export())
    assert len(records) == 33
    assert [r.race is not None for r in records] == [False] * 32 + [True]
    assert len({(r.plan, r.row) for r in records[:32]}) == 32


def test_the_same_seed_measures_the_same_candidates(tmp_path: Path) -> None:
    one, two, other = MemoryStore(), MemoryStore(), MemoryStore()
    for store, seed in ((one, 7), (two, 7), (other, 8)):
        last(events(store=store, out=tmp_path, seed=seed))
    rows = [[(r.plan, r.row) for r in store.export()] for store in (one, two, other)]
    assert rows[0] == rows[1]
    assert rows[0] != rows[2]


def test_a_second_identical_tuning_answers_from_the_store(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    first = only(events(store=JsonlStore(path), out=tmp_path / "a"))
    found = list(events(store=JsonlStore(path), out=tmp_path / "b", pools=None))
    assert [type(event) for event in found] == [Started, Finished]
    end = found[-1]
    assert isinstance(end, Finished)
    assert end.stopped == "store"
    (second,) = end.results
    assert second.from_store
    assert second.trials == 0
    assert second.best_s == first.best_s
    assert first.kernel is not None
    assert second.kernel is not None
    assert first.kernel.read_bytes() == second.kernel.read_bytes()


def test_a_smaller_request_is_answered_and_a_larger_one_started_from_the_store(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    last(events(store=store, out=tmp_path))
    assert only(events(store=store, out=tmp_path, trials=16, seed=3)).from_store
    more = only(events(store=store, out=tmp_path, trials=48))
    assert not more.from_store
    assert more.trials == 48
    trials = [r for r in store.export() if r.race is None]
    assert len({(r.plan, r.row) for r in trials}) == len(trials) == 80


def test_fresh_ignores_earlier_records(tmp_path: Path) -> None:
    store = MemoryStore()
    last(events(store=store, out=tmp_path, trials=8))
    assert only(events(store=store, out=tmp_path, trials=8)).from_store
    assert not only(events(store=store, out=tmp_path, trials=8, fresh=True)).from_store


def test_a_race_that_the_untuned_kernel_wins_delivers_it(tmp_path: Path) -> None:
    result = only(events(out=tmp_path, pools=fake_pools(race_s={"naive": 1e-3}), trials=8))
    assert result.winner == "baseline"
    assert result.best_s == result.baseline_s == 1e-3


@pytest.mark.parametrize(
    ("times_s", "verdict"),
    [
        ({"t": 1.0, "naive": 2.0, "numpy": 3.0}, ("tuned", "t")),
        ({"t": 1.0, "naive": 2.0, "numpy": 0.5}, ("baseline", "t")),
        ({"t": 2.0, "naive": 1.0, "numpy": 0.5}, ("baseline", "naive")),
        ({"t": 2.0, "naive": 1.0, "numpy": 3.0}, ("baseline", "naive")),
        ({"t": 2.0, "naive": 1.0}, ("baseline", "naive")),
        ({"t": 2.0, "naive": 2.0}, ("tuned", "t")),
        ({"t": 2.0, "numpy": 1.0}, ("baseline", "t")),
        ({"t": 2.0}, ("tuned", "t")),
    ],
)
def test_the_faster_of_our_kernels_is_delivered_for_any_winner(
    times_s: dict[str, float], verdict: tuple[str, str]
) -> None:
    assert judge("t", times_s) == verdict


def test_without_any_candidate_the_baseline_is_delivered(tmp_path: Path) -> None:
    pools = fake_pools(verdict=lambda program: Failed("crash", "signal 11"))
    store = MemoryStore()
    result = only(events(store=store, out=tmp_path, pools=pools))
    assert result.winner == "baseline"
    assert result.failures == {"crash": 24}
    assert result.examples == {"crash": "signal 11"}


def test_a_failed_numpy_baseline_is_named_in_result_record_and_manifest(tmp_path: Path) -> None:
    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        pool = FakePool(dag, target)
        pool.numpy_failed = Failed("memory", "in the NumPy baseline: 9 GB")
        return pool

    store = MemoryStore()
    result = only(events(store=store, out=tmp_path, pools=pools_of(open_pool), trials=8))
    assert (result.winner, result.verified, result.numpy_s) == ("tuned", True, None)
    assert result.baseline_s == result.naive_s
    assert result.numpy_note == "in the NumPy baseline: 9 GB"
    assert result.failures == {}
    assert result.kernel is not None
    assert unbox(result.kernel.read_bytes(), "zip").manifest["numpy_note"] == result.numpy_note
    again = only(events(store=store, out=tmp_path, trials=8))
    assert again.from_store
    assert again.numpy_note == result.numpy_note


def test_the_time_of_compilation_is_kept_with_the_race_and_in_no_latency(tmp_path: Path) -> None:
    store = MemoryStore()
    result = only(events(store=store, out=tmp_path, trials=8))
    (raced,) = [one for one in store.all(result.key) if one.race is not None]
    assert (result.compile_s, raced.compile_s) == (COMPILE_S, COMPILE_S)
    assert raced.race is not None
    assert COMPILE_S not in (*raced.race.tuned_s, *raced.race.naive_s, *raced.race.numpy_s)
    assert result.kernel is not None
    assert unbox(result.kernel.read_bytes(), "zip").manifest["compile_s"] == COMPILE_S
    again = only(events(store=store, out=tmp_path, trials=8))
    assert (again.from_store, again.compile_s) == (True, COMPILE_S)


def test_without_a_survivor_the_result_has_the_reasons_and_no_kernel(tmp_path: Path) -> None:
    class Failing(FakePool):
        def verify(self, kernel: Program | Kernel) -> Failed | None:
            """Let the preflight pass."""
            return None

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        crash = Failed("crash", "signal 11")
        return Failing(dag, target, lambda program: crash, fails=True)

    result = only(events(out=tmp_path, pools=pools_of(open_pool)))
    assert (result.best_s, result.kernel, result.verified, result.winner) == (
        None,
        None,
        False,
        None,
    )
    assert set(result.examples) == {"crash", "wrong"}


def test_an_interrupt_while_measuring_keeps_the_best_so_far(tmp_path: Path) -> None:
    seen: list[Program] = []

    def verdict(program: Program) -> Outcome:
        seen.append(program)
        if len(seen) == 20:
            raise KeyboardInterrupt
        return Measured((cost_s(program),))

    end = last(events(out=tmp_path, pools=fake_pools(verdict=verdict)))
    assert end.stopped == "interrupted"
    assert end.results[0].kernel is not None
    assert end.results[0].trials == 8


def test_an_interrupt_before_the_first_survivor_ends_the_tuning(tmp_path: Path) -> None:
    def verdict(program: Program) -> Outcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        last(events(out=tmp_path, pools=fake_pools(verdict=verdict)))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_thrown_in_keeps_the_best_so_far(tmp_path: Path) -> None:
    found = events(out=tmp_path)
    while not isinstance(next(found), RoundDone):
        pass
    assert found.throw(KeyboardInterrupt()) == Stopping()
    event = last(found)
    assert event.stopped == "interrupted"
    assert event.results[0].kernel is not None


def test_several_tasks_share_the_trials(tmp_path: Path) -> None:
    end = last(events(f"{MM}\n{RELU}", out=tmp_path, weights={"relu": 3.0}))
    assert [result.name for result in end.results] == ["mm", "relu"]
    assert 0 < sum(result.trials for result in end.results) <= 32
    assert all(result.kernel is not None for result in end.results)


def test_no_task_has_more_trials_than_the_most_of_a_task(tmp_path: Path) -> None:
    two = MM + "\ndef mv(float(24,24) A, float(24) B) -> (C) { C(i) +=! A(i,k) * B(k) }"
    end = last(events(two, out=tmp_path, trials=256, max_trials_per_task=12))
    assert end.stopped == "trials"
    assert [result.trials for result in end.results] == [12, 12]


def test_patience_ends_a_search_that_gains_nothing(tmp_path: Path) -> None:
    pools = fake_pools(verdict=lambda program: Measured((1e-3,)))
    end = last(events(out=tmp_path, pools=pools, trials=256, patience=16))
    assert end.stopped == "converged"
    assert end.results[0].trials == 24


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": {"nothing": 2.0}}, "cannot weight nothing because it is no task; expected mm"),
        ({"weights": {"mm": 0.0}}, "cannot tune with weights mm=0.0; expected above 0"),
        ({"weights": {"mm": float("nan")}}, "cannot tune with weights mm=nan; expected above 0"),
        ({"trials": -1}, "cannot tune with trials -1; expected at least 0 and at most 1000000"),
        ({"trials": 10**9}, "cannot tune with trials 1000000000; expected at least 0 and at most"),
        ({"seconds": -1.0}, "cannot tune with seconds -1.0; expected above 0"),
        ({"seed": -1}, "cannot tune with seed -1; expected at least 0"),
    ],
)
def test_the_error_of_a_wrong_request_names_the_reason(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        last(events(**options))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("A", "cannot tune A because a tensor alone is no Dag; expected te.dag(A)"),
        ("AB", "cannot tune A, B because a tensor alone is no Dag; expected te.dag([A, B])"),
    ],
)
def test_tensors_are_refused_with_the_call_that_makes_a_dag(names: str, message: str) -> None:
    tensors: Any = [te.placeholder((8, 8), name) for name in names]
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        ansorpy.tune(tensors if len(tensors) > 1 else tensors[0])


def test_two_dags_of_one_name_are_refused() -> None:
    dags = [*parse(MM), *parse(MM.replace("24,32", "24,40"))]
    message = "cannot take 2 tasks of the name 'mm' because names identify tasks; expected 1"
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        ansorpy.tune(dags)


def test_a_request_of_another_type_is_refused() -> None:
    message = (
        "cannot tune int '3'; expected a Dag, several Dags, a text, a file, a graph or a module of"
        " PyTorch"
    )
    what: Any = 3
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        ansorpy.tune(what)


def test_a_kernel_has_at_least_one_thread() -> None:
    with pytest.raises(SpecError, match="cannot tune for 0 cores; expected 1 to 256"):
        Request(parse(MM), replace(TARGET, cores=0))


def test_a_kind_without_a_back_end_is_refused() -> None:
    what: Any = "tpu"
    with pytest.raises(SpecError, match="cannot tune for tpu because tpu has no back end; expect"):
        ansorpy.tune(MM, Target(what), store=MemoryStore())


def test_a_gpu_without_its_facts_is_refused() -> None:
    message = (
        "cannot tune for cuda because the facts of its GPU are missing; expected cuda:sm_80 or"
        " cuda:sm_90"
    )
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        ansorpy.tune(MM, Target("cuda"), store=MemoryStore())


def test_more_cores_than_the_machine_has_are_refused(tmp_path: Path) -> None:
    most = len(usable_cores())
    message = f"cannot tune for {most + 1} cores because this machine has {most}; expected 1 to"
    with pytest.raises(SpecError, match=re.escape(message)):
        ansorpy.tune(MM, cores=most + 1, store=MemoryStore(), out=tmp_path)


def test_a_folder_that_cannot_be_written_is_reported_before_the_search(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    with pytest.raises(
        SpecError, match=r"cannot write kernels to .*taken because of 'File exists'"
    ):
        next(events(out=taken))


def test_nothing_to_tune_is_an_error() -> None:
    with pytest.raises(SpecError, match="nothing to tune"):
        read_dags((), {})


def test_an_unknown_target_kind_has_no_rules() -> None:
    known = (
        "no rule set for target 'tpu'; there are cpu, cpu+winograd2, cpu+winograd4, cuda, cuda+tf32"
    )
    with pytest.raises(SpecError, match=re.escape(known)):
        find_rules("tpu")


IN_PART = """
def rows(float(32,64) Q, float(128,64) K) -> (S) { S(i,j) +=! Q(i,d) * K(j,d) where j in 0:64 }
def prefix(float(32,64) A, float(48,16) B) -> (S) { S(i,j) +=! A(i,k) * B(k,j) where k in 0:48 }
def longer(float(40,16) A, float(32,16) B) -> (C) { C(i,j) = A(i,j) + B(i,j) where i in 0:32 }
def most(float(16,128) A) -> (C) { C(i) +=! A(i,k) where k in 0:100 }
"""
NAN = "def gaps(float(16,16) A) -> (C) { C(i,j) = A(i,j) > 0.5 ? nan : A(i,j) }"


@pytest.mark.slow
def test_tensors_read_in_part_and_a_nan_literal_are_tuned_and_raced(tmp_path: Path) -> None:
    """One tuning of all: its processes start once."""
    result = ansorpy.tune(IN_PART + NAN, trials=10, store=MemoryStore(), out=tmp_path)
    assert [task.name for task in result.tasks] == ["rows", "prefix", "longer", "most", "gaps"]
    for task in result.tasks:
        assert task.failures == {}, task.name
        assert task.verified, task.name
        assert result.kernels[task.name].selftest() == []
    for task in result.tasks[:-1]:
        assert task.numpy_s is not None, task.name
        assert task.numpy_note == "", task.name
    a = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    found = result.kernels["gaps"](a)
    assert np.array_equal(found, np.where(a > 0.5, np.float32("nan"), a), equal_nan=True)


@pytest.mark.slow
def test_a_text_is_tuned_to_a_verified_kernel(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "records.jsonl")
    result: Result = ansorpy.tune(MM, trials=4, store=store, out=tmp_path)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((16, 24)).astype(np.float32)
    b = rng.standard_normal((24, 32)).astype(np.float32)
    kernel = result.kernels["mm"]
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5, atol=1e-5)
    assert kernel.selftest() == []
    (task,) = result.tasks
    assert task.verified
    assert task.best_s is not None
    assert task.best_s > 0
