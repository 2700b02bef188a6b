"""Costs of several slots as multiples of the same kernels."""

import pytest

from ansorpy.cluster.scale import Marks, drift, marks_of, scaled
from ansorpy.measure.outcome import Estimated, Failed, Measured, Outcome

FAILED = Failed("wrong", "0 of 4")


def timed(*costs_s: float) -> list[Outcome]:
    return [Measured((cost_s,)) for cost_s in costs_s]


def test_marks_are_the_fastest_the_median_and_the_slowest_kernel() -> None:
    outcomes = [FAILED, *timed(5.0, 1.0, 3.0, 2.0, 4.0)]
    assert marks_of(outcomes) == {2: 1.0, 3: 3.0, 1: 5.0}
    assert marks_of(timed(2.0, 1.0)) == {1: 1.0, 0: 2.0}
    assert marks_of([FAILED]) == {}
    assert marks_of([Measured((9.0,), aborted=True), *timed(1.0)]) == {1: 1.0}


def test_a_factor_is_the_mean_ratio_of_kernels_that_agree_within_5_percent() -> None:
    marks = Marks((1.0, 2.0, 4.0))
    assert marks.factor(timed(2.0, 4.0, 8.0)) == pytest.approx(2.0)
    assert marks.factor(timed(1.0, 2.04, 4.0)) == pytest.approx(1.02 ** (1 / 3))
    assert marks.factor(timed(1.0, 2.2, 4.0)) is None
    assert marks.factor([*timed(1.0, 2.0), FAILED]) is None
    assert marks.rough_factor([*timed(1.0, 8.0), FAILED]) == pytest.approx(2.0)
    assert marks.rough_factor([FAILED] * 3) == 1.0


def test_a_scaled_outcome_keeps_its_times() -> None:
    (one,) = timed(3.0)
    found = scaled(one, 1.5)
    assert isinstance(found, Measured)
    assert (found.times_s, found.cost_s) == ((3.0,), 2.0)
    assert scaled(FAILED, 1.5) is FAILED
    assert scaled(Estimated(1.0), 1.5) == Estimated(1.0)


def test_drift_is_the_median_slowdown_of_timed_candidates() -> None:
    outcomes: list[Outcome] = [FAILED]
    outcomes += [Measured((1.0,), slowdown=one) for one in (1.0, 1.3, 1.2)]
    assert drift(outcomes) == 1.2
    assert drift([FAILED]) == 1.0
