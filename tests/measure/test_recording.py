"""Features of plans are the same whoever records them."""

import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from ansorpy.features import extract, prepare
from ansorpy.measure import recording
from ansorpy.measure.crew import Settings
from ansorpy.measure.pool import MeasurePool
from ansorpy.plan.choices import all_plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.sketch import derive
from ansorpy.target import Target
from rules import CPU
from tests.measure.fake import BACKEND, matmul

TARGET = Target(cores=1)
SETTINGS = Settings(backend=BACKEND, builders=2)


def plans() -> list[Plan]:
    """Return six plans that nothing is known of: new objects."""
    return list(all_plans(derive(matmul(), TARGET, CPU).sketches, TARGET))[:6]


def features(plan: Plan) -> np.ndarray[Any, Any]:
    return extract(plan, sample(plan, 5, np.random.default_rng(0)), TARGET)


def started(pool: MeasurePool) -> None:
    """Wait until every builder is idle."""
    end_s = time.monotonic() + 60
    while not all(worker.idle for worker in pool.crew.builders):
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Note what is recorded in this process; let it have two helpers on any machine."""
    found: list[Plan] = []
    before = recording.record_here

    def here(plan: Plan, target: Target) -> None:
        found.append(plan)
        before(plan, target)

    monkeypatch.setattr(recording, "usable_cores", lambda: (0, 1, 2))
    monkeypatch.setattr(recording, "record_here", here)
    return found


def test_builders_record_what_the_caller_would(own: list[Plan]) -> None:
    told, known = plans(), plans()
    with MeasurePool(matmul(), TARGET, SETTINGS) as pool:
        started(pool)
        pool.record(told)
        assert own == told[:2]  # two for each of the builders
        assert all(TARGET in prepare(plan) for plan in told)
        pool.record(told)
        assert len(own) == 2  # each once
    for one, other in zip(told, known, strict=True):
        np.testing.assert_array_equal(features(one), features(other))


def test_who_is_at_work_is_not_waited_for(own: list[Plan]) -> None:
    with MeasurePool(matmul(), TARGET, SETTINGS) as pool:
        started(pool)
        for worker in pool.crew.builders:
            worker.begin("time:sleep", 1.0, 60.0)
        begin_s = time.monotonic()
        pool.record(told := plans())
        assert own == told
        assert all(worker.busy for worker in pool.crew.builders) or time.monotonic() > begin_s + 1


def test_what_a_builder_cannot_do_is_done_when_it_is_needed(
    own: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "RECORD", "tests.measure.fake:build")
    with MeasurePool(matmul(), TARGET, SETTINGS) as pool:
        started(pool)
        pool.record(told := plans())
        assert len(own) == 2
        assert [TARGET in prepare(plan) for plan in told] == [True] * 2 + [False] * 4
    for one, other in zip(told, plans(), strict=True):
        np.testing.assert_array_equal(features(one), features(other))


def test_a_builder_that_is_killed_is_replaced(own: list[Plan]) -> None:
    with MeasurePool(matmul(), TARGET, SETTINGS) as pool:
        started(pool)
        for worker in pool.crew.builders:
            assert worker._process is not None
            os.kill(worker._process.pid, signal.SIGKILL)
        pool.record(told := plans())
        assert all(TARGET in prepare(plan) for plan in told)
