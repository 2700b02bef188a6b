from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ansorpy.cost.random import RandomModel
from ansorpy.events import Delivered, Derived, Finished, TimeSpent
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.unbound import Unbound
from ansorpy.records import MemoryStore
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu
from ansorpy.tuner import first_answer
from ansorpy.tuner.pools import Pools
from ansorpy.tuner.request import Request
from ansorpy.tuner.rules import find_rules
from ansorpy.tuner.time_budget import (
    DELIVERY_SHARE,
    FINISH_S,
    FIRST_TRIALS,
    HURRIED_S,
    OPENING_S,
    OPENING_TRIALS,
    TimeBudget,
)
from ansorpy.tuner.tune import run
from tests.fakes import FakePool
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


def test_the_time_of_the_end_is_reserved_up_to_half() -> None:
    clock = Clock()
    assert pace(100.0, clock).search_left_s == pytest.approx(100.0 - 4.4)
    assert pace(100.0, clock, tasks=3).search_left_s == pytest.approx(100.0 - 13.2)
    assert pace(4.0, clock).search_left_s == 2.0


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

    class Racing(FakePool):
        def race(self, *arguments: Any, **options: Any) -> dict[str, PairedTimes | Failed]:
            raced.append(list(arguments[0]))
            return super().race(*arguments, **options)

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        return cast(MeasurePool, Racing(dag, target))

    dag = conv2d_bias_relu(1, 4, 8, 8, 8, 3, Window(padding=1))
    request = Request((dag,), TARGET, trials=16, seconds=seconds)
    model = RandomModel(np.random.default_rng(0))
    *_, derived = (
        event
        for event in run(
            request, None, MemoryStore(), tmp_path, model=model, pools=lambda: Pools(open_pool)
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


RACE_S = 6.0


class SlowPool(FakePool):
    """On which a trial takes 0.25 s and a race 6 s, by a made-up clock."""

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
        self.clock.now_s += RACE_S
        self.races.append(self.clock.now_s)
        return super().race(*arguments, **options)


@pytest.mark.parametrize("seconds", [30.0, 60.0])
def test_a_tuning_keeps_to_its_seconds(tmp_path: Path, seconds: float) -> None:
    clock, races = Clock(), list[float]()

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        return cast(MeasurePool, SlowPool(dag, target, clock, races))

    found = run(
        Request(parse(MM), TARGET, trials=100_000, seconds=seconds),
        find_rules("cpu"),
        MemoryStore(),
        tmp_path,
        model=RandomModel(np.random.default_rng(0)),
        pools=lambda: Pools(open_pool),
        clock=clock,
    )
    events = []
    for event in found:
        events.append(event)
        assert not isinstance(event, Delivered) or event.kernel.exists()
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.stopped == "seconds"
    assert list(tmp_path.glob("*.zip")) == [end.results[0].kernel]  # those on the way are gone
    intermediate = [event for event in events if isinstance(event, Delivered)]
    # Time was kept for a last race; where the kernel on the way is still the best, there is none.
    spared_s = RACE_S * (len(intermediate) + 1 - len(races))
    assert 0.95 * seconds < end.seconds + spared_s < 1.05 * seconds
    assert bool(intermediate) is (seconds > 2 * FINISH_S / DELIVERY_SHARE)
