import os
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ansorpy.artifact import unbox
from ansorpy.cost.random import RandomModel
from ansorpy.events import (
    Delivered,
    Derived,
    Finished,
    NoTrials,
    Racing,
    RoundDone,
    TaskDone,
    TimeSpent,
    TooShort,
)
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.unbound import Unbound
from ansorpy.progress import as_line
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu
from ansorpy.tuner.process_age import process_begin_s
from ansorpy.tuner.race import first_answer
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import (
    ANSWERS_S,
    DELIVERY_SHARE,
    DOUBT,
    FEW_PLANS_S,
    FINISH_S,
    FIRST_TRIALS,
    HURRIED_S,
    OPENING_S,
    OPENING_SHARE,
    OPENING_TRIALS,
    START_S,
    TOLD_TRIALS,
    UNTUNED_S,
    Answer,
    TimeBudget,
    least_s,
    usual_finish_s,
)
from ansorpy.tuner.tune import run
from tests.fakes import FakePool, fake_pools, pools_of
from tests.tuner.test_checkpoint import MM, TARGET

pytestmark = pytest.mark.usefixtures("few_candidates")


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def pace(seconds: float | None, clock: Clock, tasks: int = 1) -> TimeBudget:
    return TimeBudget(seconds, clock(), tasks, clock, finish_s=4.0)


def test_without_seconds_everything_fits() -> None:
    clock = Clock()
    free = pace(None, clock)
    clock.now_s += 1e6
    assert (free.fitting(64), free.late(), free.search_left_s, free.left_s) == (64, False, inf, inf)


def test_the_time_of_the_end_is_reserved() -> None:
    clock = Clock()
    assert pace(100.0, clock).search_left_s == pytest.approx(100.0 - 4.4)
    assert pace(100.0, clock, tasks=3).search_left_s == pytest.approx(100.0 - 13.2)
    assert pace(4.0, clock).search_left_s == pytest.approx(-0.4)
    assert pace(4.0, clock).fitting(8) == FIRST_TRIALS


def test_a_round_is_cut_to_the_trials_that_fit() -> None:
    clock = Clock()
    told = pace(100.0, clock)
    told.note_round(10, TimeSpent(propose_s=1.0, measure_s=5.0, train_s=0.6))
    clock.now_s += 90.0  # 5.6 s left: 1.6 s of it to propose and learn, half a second per trial
    assert told.fitting(64) == 7
    assert told.fitting(3) == 3
    clock.now_s += 4.0
    assert told.fitting(64) == 0
    assert not told.late()
    clock.now_s += 2.0
    assert told.late()


def test_the_first_round_is_never_empty_and_never_cut_short() -> None:
    clock = Clock()
    told = pace(1.0, clock)
    clock.now_s += 50.0
    assert told.fitting(64) == FIRST_TRIALS
    assert not told.late()


def test_the_first_round_may_be_cut_if_every_task_has_a_first_answer() -> None:
    clock = Clock()
    told = pace(1.0, clock, tasks=2)
    clock.now_s += 50.0
    told.note_answer("one")
    assert told.fitting(64) == FIRST_TRIALS
    told.note_answer("other")
    assert told.fitting(64) == 0
    assert told.late()


def test_the_first_round_of_a_slow_task_that_people_wait_for_is_short() -> None:
    told = pace(None, Clock())
    told.note_answer("quick", OPENING_S / 100)
    told.note_answer("slow", OPENING_S / 4)
    told.note_answer("slowest", 2 * OPENING_S)
    told.note_answer("alone")
    assert [told.opening(name, 8) for name in ("quick", "slow", "alone")] == [8, 4, 8]
    assert told.opening("slowest", 8) == OPENING_TRIALS
    assert told.opening("slowest", 1) == 1


def test_few_seconds_per_task_count_as_a_hurry() -> None:
    clock = Clock()
    assert not pace(None, clock).hurried
    assert not pace(HURRIED_S, clock).hurried
    assert pace(HURRIED_S, clock, tasks=2).hurried


@pytest.mark.parametrize(("seconds", "all_plans"), [(HURRIED_S - 1, False), (None, True)])
def test_a_hurry_opens_promising_plans_and_races_one_finalist(
    tmp_path: Path, seconds: float | None, all_plans: bool
) -> None:
    raced: list[list[str]] = []

    class RacePool(FakePool):
        def race(self, *arguments: Any, **options: Any) -> dict[str, PairedTimes | Failed]:
            raced.append(list(arguments[0]))
            return super().race(*arguments, **options)

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        return RacePool(dag, target)

    dag = conv2d_bias_relu(1, 4, 8, 8, 8, 3, Window(padding=1))
    request = Request((dag,), TARGET, trials=16, seconds=seconds)
    model = RandomModel(np.random.default_rng(0))
    *_, derived = (
        event
        for event in run(
            request, None, MemoryStore(), tmp_path, model=model, pools=pools_of(open_pool)
        )
        if isinstance(event, Derived)
    )
    assert (derived.plans > 2 * first_answer.PLANS) is all_plans
    finalists = ["tuned 0", "tuned 1", "tuned 2"]
    assert raced == [["naive", *(finalists if all_plans else finalists[:1])]]


def test_an_intermediate_kernel_takes_a_tenth_of_the_time() -> None:
    clock = Clock()
    told = pace(100.0, clock)
    assert not told.delivery_is_due()
    clock.now_s += 41.0
    assert told.delivery_is_due()
    told.note_finish(2.0)
    assert not told.delivery_is_due()
    clock.now_s += 21.0
    assert told.delivery_is_due()
    clock.now_s += 21.0
    assert not told.delivery_is_due()  # the time left is less than the pause after a delivery


def race_s(contestants: int) -> float:
    """Return the seconds of a made-up race: 4 with one finalist and 6 with three."""
    return 2.0 + contestants


class SlowPool(FakePool):
    """On which a trial takes 0.25 s and a race some seconds, by a made-up clock."""

    def __init__(self, dag: Dag, target: Target, clock: Clock, races: list[float]) -> None:
        super().__init__(dag, target)
        self.clock, self.races = clock, races

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        outcomes: list[Outcome | None] = []
        for one in candidates:
            (outcome,) = super().measure([one], best_s, late)
            outcomes.append(outcome)
            self.clock.now_s += 0.25 if outcome is not None else 0.0
        return outcomes

    def race(self, *arguments: Any, **options: Any) -> dict[str, PairedTimes | Failed]:
        self.clock.now_s += race_s(len(arguments[0]))
        self.races.append(self.clock.now_s)
        return super().race(*arguments, **options)


@pytest.mark.parametrize("seconds", [5.0, 12.0, 20.0, 30.0, 60.0])
def test_a_tuning_keeps_to_its_seconds(tmp_path: Path, seconds: float) -> None:
    clock, races = Clock(), list[float]()

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        return SlowPool(dag, target, clock, races)

    found = run(
        Request(parse(MM), TARGET, trials=100_000, seconds=seconds),
        find_rules("cpu"),
        MemoryStore(),
        tmp_path,
        model=RandomModel(np.random.default_rng(0)),
        pools=pools_of(open_pool),
        clock=clock,
    )
    events = []
    for event in found:
        events.append(event)
        assert not isinstance(event, Delivered) or event.kernel.exists()
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.stopped == "seconds"
    kernel = end.results[0].kernel
    assert list(tmp_path.glob("*.zip")) == [kernel]  # those on the way are gone
    assert kernel is not None
    assert "kernel.py" in unbox(kernel.read_bytes(), "package").files
    intermediate = [event for event in events if isinstance(event, Delivered)]
    # Time was kept for a last race; where the kernel on the way is still the best, there is none.
    spared_s = race_s(4) * (len(intermediate) + 1 - len(races))
    limit_s = max(seconds, least_s(1, 1))
    assert any(isinstance(event, TooShort) for event in events) is (limit_s > seconds)
    assert end.seconds <= limit_s + max(0.1 * limit_s, 1.5)
    if seconds > 5.0:
        assert end.results[0].trials > 0
        assert end.seconds + spared_s > 0.8 * seconds
    assert bool(intermediate) is (seconds > 2 * FINISH_S / DELIVERY_SHARE)


def test_a_search_without_trials_races_the_choice_and_tells_the_seconds(tmp_path: Path) -> None:
    clock, races = Clock(), list[float]()

    class Busy(SlowPool):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.clock.now_s += 4.0  # the start of the processes of a busy machine

        def race(self, *arguments: Any, **options: Any) -> dict[str, PairedTimes | Failed]:
            raced.append(list(arguments[0]))
            return super().race(*arguments, **options)

    raced: list[list[str]] = []

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        return Busy(dag, target, clock, races)

    events = list(
        run(
            Request(parse(MM), TARGET, trials=64, seconds=8.0),
            find_rules("cpu"),
            MemoryStore(),
            tmp_path,
            model=RandomModel(np.random.default_rng(0)),
            pools=pools_of(open_pool),
            clock=clock,
        )
    )
    (told,) = [event for event in events if isinstance(event, NoTrials)]
    assert (told.seconds, told.enough_s, told.trials) == (8.0, 30.0, TOLD_TRIALS)
    assert as_line(told) == "8 s were enough for no trial: 30 s give about 30"
    (end,) = [event for event in events if isinstance(event, Finished)]
    assert raced == [["naive", "tuned 0"]]
    assert end.results[0].winner == "tuned"
    kinds = [type(event) for event in events]
    assert kinds.index(NoTrials) < kinds.index(Racing) < kinds.index(Finished)


def test_the_end_of_a_search_is_a_race_and_no_delivery_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeBudget, "delivery_is_due", lambda self: True)
    clock, races = Clock(), list[float]()

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        return SlowPool(dag, target, clock, races)

    events = list(
        run(
            Request(parse(MM), TARGET, trials=16),
            find_rules("cpu"),
            MemoryStore(),
            tmp_path,
            model=RandomModel(np.random.default_rng(0)),
            pools=pools_of(open_pool),
            clock=clock,
        )
    )
    kinds = [type(event) for event in events]
    last = len(kinds) - 1 - kinds[::-1].index(RoundDone)
    assert kinds[last:] == [RoundDone, Racing, TaskDone, Finished]


def overspent(seconds: float, taken_s: float) -> bool:
    return taken_s > seconds + max(0.1 * seconds, 1.5)


SECONDS = [5.0, 12.0, 20.0, 30.0, 60.0]


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("tasks", [1, 2, 3, 10, 80])
@pytest.mark.parametrize("slow", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("threads", [1, 2])
def test_first_answers_and_races_fit_into_the_seconds(
    seconds: float, tasks: int, slow: float, threads: int
) -> None:
    """First answers may take several times as long as expected."""
    clock = Clock()
    limit_s = max(seconds, least_s(tasks, 1, threads=threads))
    told = TimeBudget(limit_s, clock(), tasks, clock, sure=True, threads=threads)
    clock.now_s += START_S
    for number in range(tasks):
        begin_s, kind = clock(), told.answer()
        clock.now_s += 0.5 if kind == "none" else 1.5 * slow
        if kind != "none":
            told.note_answer(str(number))
        told.note_opened(kind, clock() - begin_s)
    turn = 0
    while count := told.fitting(16):
        spent = TimeSpent(0.5, 0.2 * count, 0.3)
        clock.now_s += spent.total_s
        told.note_round(count, spent, str(turn % tasks))
        turn += 1
    for _ in range(tasks):
        clock.now_s += usual_finish_s(threads, told.hurried)
        told.note_end()
    assert not overspent(limit_s, told.spent_s)


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("tasks", [1, 3, 18, 40, 80])
@pytest.mark.parametrize("slow", [0.5, 1.0, 2.0, 3.0])
def test_tasks_without_time_for_an_answer_get_untuned_kernels(
    seconds: float, tasks: int, slow: float
) -> None:
    clock = Clock()
    limit_s = max(seconds, least_s(tasks, 0))
    told = TimeBudget(limit_s, clock(), tasks, clock, libraries=True, sure=True)
    clock.now_s += START_S
    kinds: list[str] = []
    for number in range(tasks):
        kinds.append(told.answer())
        took_s = {"several": 2.0 * slow, "one": FEW_PLANS_S * slow, "none": UNTUNED_S}[kinds[-1]]
        clock.now_s += took_s
        told.note_opened(told_kind(kinds[-1]), took_s)
        told.note_answer(str(number))
    for _ in range(tasks):
        told.note_end()
    assert not overspent(limit_s, told.spent_s)
    if seconds >= START_S + ANSWERS_S["several"] * DOUBT * max(1.0, slow) * tasks:
        assert set(kinds) == {"several"}
    if seconds > 1.5 * least_s(tasks, 0) + 3.0 * slow:
        assert kinds[0] != "none", "the first task, the largest one, has an answer"
    if "none" in kinds and tasks > 1:
        spare_s = limit_s - told.spent_s
        assert spare_s < 1.5 * DOUBT * max(1.0, slow) + 0.5 * tasks, "no time is left unused"


def told_kind(kind: str) -> Answer:
    return cast(Answer, kind)


def test_plans_are_opened_for_a_share_of_the_time_left() -> None:
    clock = Clock()
    late = pace(104.4, clock).opening_late()
    assert late is not None
    clock.now_s += OPENING_SHARE * 100.0 - 0.1
    assert not late()
    clock.now_s += 0.2
    assert late()
    assert pace(None, clock).opening_late() is None


def test_a_late_opening_keeps_the_promising_plans() -> None:
    task = Task.of(conv2d_bias_relu(1, 4, 8, 8, 8, 3, Window(padding=1)), TARGET, "cpu@1")
    task.space.explore(CPU, first_answer.PLANS)
    promising = list(task.space.texts)
    task.space.lower(late=lambda: True)
    assert task.space.texts == promising
    task.space.lower()
    assert len(task.space.texts) > len(promising)


def test_the_start_of_a_process_counts(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    ticks = os.sysconf("SC_CLK_TCK")
    fields = " ".join(["0"] * 18)
    stat.write_text(f"12 (odd) name) S {fields} {997 * ticks} 0")
    assert process_begin_s(lambda: 50.0, lambda: 1000.0, stat) == pytest.approx(47.0)
    assert process_begin_s(lambda: 50.0, lambda: 2000.0, stat) == 50.0  # started for other work
    assert process_begin_s(lambda: 50.0, lambda: 1000.0, tmp_path / "none") == 50.0


def test_seconds_count_from_the_begin_of_the_command(tmp_path: Path) -> None:
    clock = Clock()
    request = Request(parse(MM), TARGET, trials=4)
    *_, end = run(
        request, CPU, MemoryStore(), tmp_path, model=RandomModel(np.random.default_rng(0)),
        pools=fake_pools(), clock=clock, begin_s=clock() - 3.0,
    )  # fmt: skip
    assert isinstance(end, Finished)
    assert end.seconds == 3.0
