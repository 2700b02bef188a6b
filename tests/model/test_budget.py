"""The seconds of a model: arithmetic with a made-up clock, and a bundle of untuned kernels."""

from pathlib import Path

import numpy as np
import pytest

from ansorpy.bundle.load import load_model
from ansorpy.events import FirstAnswer, RoundDone, TimeSpent, TooShort
from ansorpy.graph.interp import run
from ansorpy.measure.host import local_target
from ansorpy.model.budget import ANSWER_S, EXIT_S, SEARCHED_S, WRITE_S, ModelBudget
from ansorpy.model.check_inputs import random_inputs
from ansorpy.model.compile import compiled
from ansorpy.model.events import BundleWritten
from ansorpy.model.options import ModelOptions
from ansorpy.model.progress import ModelTally
from ansorpy.model.request import ModelRequest
from ansorpy.model.verify import reference_of
from ansorpy.progress import as_line
from ansorpy.records import MemoryStore
from ansorpy.tuner.tasks.time_budget import (
    FEW_PLANS_S,
    HURRIED_FINISH_S,
    LIBRARY_END_S,
    MARGIN,
    UNTUNED_S,
    TimeBudget,
)
from tests.model.test_compile import play, small_model
from tests.tuner.test_time_budget import Clock, overspent

pytestmark = pytest.mark.usefixtures("few_candidates")


def test_without_seconds_there_is_no_limit() -> None:
    free = ModelBudget(None, 0.0, lambda: 1e9)
    assert not free.limited
    assert (free.answers_s(), free.cuts_s(), free.search_s()) == (None, None, None)
    assert free.searched(7) == 7
    assert free.oracle_s(60.0) == 60.0
    assert free.raised_to_least(80) is None


def test_a_race_at_the_end_has_its_seconds() -> None:
    clock = Clock()
    plain, raced = (ModelBudget(60.0, clock(), clock, race_s=s) for s in (0.0, 8.0))
    assert plain.tuning_left_s - raced.tuning_left_s == 8.0
    assert plain.check_left_s - raced.check_left_s == 8.0
    assert plain.searched(100) - raced.searched(100) == int(8.0 / SEARCHED_S)


@pytest.mark.parametrize("seconds", [5.0, 12.0, 20.0, 30.0, 60.0])
@pytest.mark.parametrize("tasks", [1, 5, 18, 40, 80])
@pytest.mark.parametrize("slow", [0.5, 1.0, 2.0, 3.0])
def test_answers_check_and_search_fit_into_the_seconds(
    seconds: float, tasks: int, slow: float
) -> None:
    """First answers may take several times as long as expected."""
    clock = Clock()
    budget = ModelBudget(seconds, clock(), clock)
    clock.now_s += 3.0  # to read and to divide the model, and the oracle
    least_s = budget.raised_to_least(tasks)
    answers = TimeBudget(budget.answers_s(), clock(), tasks, clock, libraries=True, sure=True)
    for _ in range(tasks):
        kind = answers.answer()
        took_s = {"several": 2.0 * slow, "one": FEW_PLANS_S * slow, "none": UNTUNED_S}[kind]
        clock.now_s += took_s
        answers.note_opened(kind, took_s)
    clock.now_s += WRITE_S
    budget.note_written(WRITE_S)
    searched = budget.searched(tasks)
    if searched:
        search = TimeBudget(
            budget.search_s(), clock(), searched, clock, LIBRARY_END_S, libraries=True, sure=True
        )
        clock.now_s += 1.0  # to start processes
        turn = 0
        while count := search.fitting(16):
            spent = TimeSpent(0.5, 0.2 * count, 0.3)
            clock.now_s += spent.total_s
            search.note_round(count, spent, str(turn % searched))
            turn += 1
        clock.now_s += LIBRARY_END_S * min(turn, searched)
        clock.now_s += WRITE_S
    assert not overspent(least_s or seconds, budget.spent_s)


def test_the_least_seconds_of_a_bundle_count_if_the_request_has_fewer() -> None:
    clock = Clock()
    budget = ModelBudget(5.0, clock(), clock, race_s=2.0)
    clock.now_s += 4.0
    least_s = 4.0 + MARGIN * (18 * UNTUNED_S + WRITE_S) + 2.0 + EXIT_S
    assert budget.raised_to_least(18) == pytest.approx(least_s)
    assert budget.left_s == pytest.approx(least_s - 4.0)
    assert budget.raised_to_least(18) is None
    assert HURRIED_FINISH_S > UNTUNED_S, "a bundle races none of its kernels"


def test_the_least_seconds_are_a_line() -> None:
    told = TooShort(12.0, 21.4, 18, "a bundle of untuned kernels")
    line = (
        "12 s are too few: a bundle of untuned kernels of 18 tasks takes about 21 s, which count in"
        " their place"
    )
    assert as_line(told) == line
    assert ModelTally(0.0).take(told, painted=False) == line


def test_hard_inputs_without_time_are_left_out_of_the_check() -> None:
    whole = reference_of(small_model(), None, 0)
    assert whole.within(float("inf"), 0.1) == whole.within(100.0, 0.0) == whole
    some = whole.within(0.35, 0.1)
    assert [case.name for case in some.cases] == [case.name for case in whole.cases[:2]]
    assert f"{whole.cases[2].name} (no time left)" in some.told
    assert not whole.within(-1.0, 0.1).cases


def test_a_model_without_time_has_untuned_kernels_and_says_so(tmp_path: Path) -> None:
    """Each call of the clock is a second, so that there is time for nothing."""
    ticks = iter(range(10**6))
    out = tmp_path / "small.zip"
    asked = ModelRequest(small_model(), local_target(1), ModelOptions(trials=64, seconds=1.0), out)
    events, result = play(compiled(asked, MemoryStore(), clock=lambda: float(next(ticks))))
    (told,) = [one for one in events if isinstance(one, TooShort)]
    assert (told.asked_s, told.tasks, told.ends) == (1.0, 3, "a bundle of untuned kernels")
    assert not any(isinstance(one, RoundDone) for one in events)
    assert sum(isinstance(one, FirstAnswer) for one in events) == 3
    assert sum(isinstance(one, BundleWritten) for one in events) == 1
    assert result.untuned == 3
    assert "3 of 3 tasks have untuned kernels" in str(result)
    inputs = random_inputs(small_model(), np.random.default_rng(7))
    expected = run(small_model(), inputs)
    with load_model(out) as model:
        for array, wanted in zip(model(**inputs), expected.values(), strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


def test_answers_in_place_of_untuned_kernels_take_the_seconds_of_the_race() -> None:
    clock = Clock()
    budget = ModelBudget(30.0, clock(), clock, race_s=5.0)
    assert budget.late_answers_s() == pytest.approx(budget.tuning_left_s + 5.0)
    clock.now_s += 20.0
    assert budget.answered() == int((10.0 - MARGIN * WRITE_S - EXIT_S) / ANSWER_S)
    clock.now_s += 20.0
    assert budget.answered() == 0
    assert ModelBudget(None, clock(), clock).answered() == 0, "there are no untuned kernels"
