"""The choices of the analytic model: rates that fit times, and the page of the ratios."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.cost.roofline import LONG_VECTORS, CycleRates, RooflineModel
from ansorpy.rules import CPU
from ansorpy.search import Candidate, best_of_plans
from ansorpy.target import Target
from ansorpy.topi import workloads
from ansorpy.tuner.race.first_answer import PLANS, TIMED
from ansorpy.tuner.tasks.task import Task
from benchmarks.models.first_choices import (
    Timed,
    errors,
    fitted,
    page_of,
    random_candidates,
)

TARGET = Target(cores=1, vector_bits=256, registers=16)
TRUE = replace(LONG_VECTORS, latency=9.0, load=2.0, broadcast=1.5, l2_byte=1 / 20)


@pytest.fixture(scope="module")
def task() -> Task:
    made = Task.of(workloads.matmul(96, 96, 96), TARGET, "cpu")
    made.space.explore(CPU, PLANS)
    return made


def timed_by(task: Task, rates: CycleRates, seed: int) -> Timed:
    """Return random candidates whose times are estimates: 1 ns for each cycle."""
    model, rng = RooflineModel(TARGET, rates), np.random.default_rng(seed)
    found = [one for _ in range(4) for one in random_candidates(task, rng)]
    features = {one: task.space.features(one.plan, [one]) for one in found}
    times_s = {one: 1e-9 * float(model.cycles(batch).sum()) for one, batch in features.items()}
    return Timed(times_s, features)


def test_estimates_by_the_rates_of_the_times_have_no_error(task: Task) -> None:
    samples = [timed_by(task, TRUE, 0)]
    assert errors(TRUE, samples, TARGET) == pytest.approx(0.0, abs=1e-9)
    assert errors(LONG_VECTORS, samples, TARGET) > 1e-3


def test_fitted_rates_foretell_other_candidates_better(task: Task) -> None:
    rates = fitted([timed_by(task, TRUE, 0)], TARGET, LONG_VECTORS)
    other = [timed_by(task, TRUE, 1)]
    assert errors(rates, other, TARGET) < 0.5 * errors(LONG_VECTORS, other, TARGET)
    assert rates.multiply_add == LONG_VECTORS.multiply_add


def test_the_first_choice_of_each_plan_is_timed() -> None:
    found = [Candidate(plan, (row,)) for row in range(2) for plan in range(6)]
    assert best_of_plans(found, TIMED) == [Candidate(plan, (0,)) for plan in range(TIMED)]


def test_the_page_has_a_mean_of_each_kind() -> None:
    ratios = {"long_first": 2.0, "long_four": 1.0, "short_first": 1.5, "short_four": 1.25}
    rows = [
        {"model": "gpt2", "task": "t0", "flop": 2e9, "least_s": 1e-2, **ratios},
        {"model": "gpt2", "task": "t1", "flop": 0, "least_s": 1e-3, **ratios, "long_first": 8.0},
    ]
    machine = {"model": "CPU", "vector_bits": 256}
    runs = [None, {"date": "2026-01-01T00:00:00+0000", "commit": "abc", "machine": machine}]
    text = page_of(rows, runs)
    assert "- 2026-01-01, CPU (256 bits), commit abc" in text
    assert "2 tasks: long vectors, first 4.000; long vectors, of four 1.000;" in text
    assert "| gpt2 | t0 | 200.0 | 2.00 | 1.00 | 1.50 | 1.25 |" in text
