import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy.errors import SpecError
from ansorpy.events import Derived, Event, Finished, RoundDone
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Measured
from ansorpy.records import MemoryStore, Record, decode, encode
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu
from ansorpy.tuner.race.first_answer import PLANS
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rounds.search_state import StopCriteria
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.checkpoint import Checkpoint, StoredSearch, set_state, state_of
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.trust import versions
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = "def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
RELU = "def relu(float(64) A) -> (B) { B(i) = fmax(A(i), 0) }"
CONV = conv2d_bias_relu(1, 4, 8, 8, 8, 3, Window(padding=1))  # more plans than promising ones
TARGET = Target(vector_bits=256, registers=16)


class Killed(BaseException):
    pass


class Ledger:
    """A journal like a database: its content has been JSON, and a call may be killed."""

    def __init__(self) -> None:
        self.rounds: list[tuple[str, list[str]]] = []
        self.checkpoint = ""
        self.races: dict[str, str] = {}
        self.calls_left = 10**9

    def stored(self) -> StoredSearch:
        found = json.loads(self.checkpoint) if self.checkpoint else None
        return StoredSearch(
            None if found is None else Checkpoint(**found),
            tuple((task, tuple(map(decode, lines))) for task, lines in self.rounds),
            {task: decode(line) for task, line in self.races.items()},
        )

    def append_round(self, done: RoundDone, records: Sequence[Record], after: Checkpoint) -> None:
        self._live()
        self.rounds.append((done.task, [encode(record) for record in records]))
        self.checkpoint = json.dumps(asdict(after), allow_nan=False)
        self._live()

    def append_race(self, task: str, record: Record) -> None:
        self._live()
        self.races[task] = encode(record)
        self._live()

    def _live(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise Killed

    def trials(self) -> list[tuple[str, str, tuple[int, ...]]]:
        records = [(task, decode(line)) for task, lines in self.rounds for line in lines]
        return [(task, record.plan, record.row) for task, record in records]


def events(
    ledger: Ledger, out: Path, what: str | Dag, store: MemoryStore | None = None, **options: Any
) -> Iterator[Event]:
    dags = (what,) if isinstance(what, Dag) else parse(what)
    request = Request(dags, TARGET, **{"trials": 96, **options})
    ticks = iter(range(10**9))
    return run(
        request, find_rules("cpu"), store or MemoryStore(), out, pools=fake_pools(),
        clock=lambda: next(ticks) * 1e-3, journal=ledger,
    )  # fmt: skip


def last(found: Iterator[Event]) -> Finished:
    *_, end = found
    assert isinstance(end, Finished)
    return end


@pytest.mark.parametrize(
    ("what", "trials", "all_lives"),  # calls that an attempt survives; even: the round is not kept
    [(MM, 96, (5,)), (MM + RELU, 32, (2,)), (CONV, 24, (3,))],
    ids=["one", "two", "opened-after-a-round"],
)
def test_a_tuning_killed_anywhere_resumes_to_the_same_result(
    tmp_path: Path, what: str | Dag, trials: int, all_lives: tuple[int, ...]
) -> None:
    whole = Ledger()
    expected = last(events(whole, tmp_path / "whole", what, trials=trials))
    calls = 10**9 - whole.calls_left
    for lives in all_lives:
        ledger, attempts = Ledger(), 0
        while True:
            ledger.calls_left = lives
            attempts += 1
            try:
                end = last(events(ledger, tmp_path / f"{lives}", what, trials=trials))
                break
            except Killed:
                continue
        assert attempts >= calls // (lives + 1)
        assert ledger.trials() == whole.trials()
        assert [r.trials for r in end.results] == [r.trials for r in expected.results]
        assert [r.best_s for r in end.results] == [r.best_s for r in expected.results]
        assert end.stopped == expected.stopped
        assert all(result.kernel is not None for result in end.results)


def test_records_from_before_the_job_are_loaded_again(tmp_path: Path) -> None:
    store = MemoryStore()
    first = Request(parse(MM), TARGET, trials=16)
    last(run(first, find_rules("cpu"), store, tmp_path, pools=fake_pools()))
    whole, broken = Ledger(), Ledger()
    last(events(whole, tmp_path / "a", MM, store, seed=5, trials=48))
    broken.calls_left = 3
    with pytest.raises(Killed):
        last(events(broken, tmp_path / "b", MM, store, seed=5, trials=48))
    broken.calls_left = 10**9
    last(events(broken, tmp_path / "c", MM, store, seed=5, trials=48))
    assert broken.trials() == whole.trials()
    seen = {(record.plan, record.row) for record in store.all(next(store.export()).key)}
    assert not seen & {(plan, row) for _, plan, row in whole.trials()}


def test_a_kept_race_of_another_code_generator_is_raced_again(tmp_path: Path) -> None:
    ledger = Ledger()
    last(events(ledger, tmp_path, MM, trials=16))
    kept = ledger.races["mm"]
    last(events(ledger, tmp_path, MM, trials=16))
    assert ledger.races["mm"] == kept
    old = replace(decode(kept), versions=(("codegen", "0"),))
    ledger.races["mm"] = encode(old)
    last(events(ledger, tmp_path, MM, trials=16))
    assert dict(decode(ledger.races["mm"]).versions) == dict(versions(parse(MM)[0]))


def test_the_time_of_an_earlier_attempt_counts(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.calls_left = 2
    with pytest.raises(Killed):
        last(events(ledger, tmp_path, MM, trials=32))
    before_s = json.loads(ledger.checkpoint)["seconds"]
    ledger.calls_left = 10**9
    assert last(events(ledger, tmp_path, MM, trials=32)).seconds > before_s > 0


def test_a_latency_that_is_good_enough_ends_the_search(tmp_path: Path) -> None:
    end = last(events(Ledger(), tmp_path, MM, target_latency_s=1.9e-3))
    assert (end.stopped, end.results[0].trials) == ("target", 8)


def test_a_search_that_gains_no_more_ends(tmp_path: Path) -> None:
    end = last(events(Ledger(), tmp_path, MM, trials=100_000, stop_if_gain_below=0.2))
    assert end.stopped == "gain"
    assert 64 < end.results[0].trials < 1000


@pytest.mark.parametrize(
    "options", [{"target_latency_s": 0.0}, {"stop_if_gain_below": 0.0}, {"stop_if_gain_below": 1.0}]
)
def test_an_invalid_goal_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(SpecError):
        Request(parse(MM), TARGET, **options)  # type: ignore[arg-type]


def task_with(best_s: float | None, name: str = "mm", trials: int = 0) -> Task:
    task = Task.of(parse(MM.replace("mm", name))[0], TARGET, "rules")
    if best_s is not None:
        task.history.learn([Candidate(0, (trials,))], [Measured((best_s,))])
    task.history.trials = trials
    return task


def test_a_goal_weighs_the_tasks_and_waits_for_all_of_them() -> None:
    goal = StopCriteria({"a": 2.0}, target_s=5.0, rest_s=1.0)
    fast, slow, none = task_with(1.0, "a"), task_with(2.0, "b"), task_with(None, "c")
    assert goal.latency_s([fast, slow]) == 1.0 + 2.0 + 2.0
    assert goal.latency_s([fast, none]) is None
    goal.note([fast, none])
    assert not goal.reached
    goal.note([fast, slow])
    assert goal.reached


@pytest.mark.parametrize(
    ("latencies", "stale"),
    [
        ([], False),
        ([(16, 1.0)], False),
        ([(16, 1.0), (64, 1.0)], False),  # 64 trials have not passed since 16
        ([(16, 1.0), (80, 1.0)], True),
        ([(16, 1.0), (80, 0.95)], True),
        ([(16, 1.0), (80, 0.9)], False),
        ([(100, 1.0), (700, 0.9), (800, 0.9)], False),  # a quarter of 800 is 200
        ([(100, 1.0), (600, 0.9), (800, 0.9)], True),
    ],
)
def test_a_search_is_stale_when_a_window_gained_too_little(
    latencies: list[tuple[int, float]], stale: bool
) -> None:
    goal = StopCriteria({}, min_gain=0.1)
    goal.latencies = latencies
    assert goal.stale is stale


def test_random_states_are_json() -> None:
    rng = np.random.default_rng(3)
    rng.random(10)
    saved = json.loads(json.dumps(state_of(rng)))
    expected = rng.random(5).tolist()
    other = np.random.default_rng(9)
    set_state(other, saved)
    assert other.random(5).tolist() == expected


def test_the_other_plans_are_opened_after_the_first_round(tmp_path: Path) -> None:
    found = list(events(Ledger(), tmp_path, CONV, trials=24))
    told = [type(e) for e in found if isinstance(e, Derived | RoundDone)]
    assert told == [Derived, RoundDone, Derived, RoundDone]
    few, every = (e.plans for e in found if isinstance(e, Derived))
    assert few <= 2 * PLANS < every
