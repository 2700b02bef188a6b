import numpy as np
import pytest

from ansorpy.cost.quality import (
    assess,
    average_peak,
    kendall,
    spearman,
    throughputs,
    top_k_recall,
)

UP = np.arange(6.0)


def test_perfect_and_reversed_orders_have_correlation_one_and_minus_one() -> None:
    for measure in (kendall, spearman):
        assert measure(UP, UP * 10 + 3) == pytest.approx(1)
        assert measure(UP, -UP) == pytest.approx(-1)
        assert measure(UP, np.ones(6)) == 0
        assert measure(UP[:0], UP[:0]) == 0
        assert measure(UP[:1], UP[:1]) == 0


def test_ties_and_textbook_values_of_the_rank_correlation_are_exact() -> None:
    # Five pairs, one discordant: tau = (9 - 1) / 10; d^2 sum 2: rho = 1 - 6 * 2 / (5 * 24).
    a, b = np.array([1.0, 2, 3, 4, 5]), np.array([1.0, 3, 2, 4, 5])
    assert kendall(a, b) == pytest.approx(0.8)
    assert spearman(a, b) == pytest.approx(0.9)
    # Ties: tau-b = 5 / sqrt(5 * 6); ranks 1.5, 1.5, 3, 4 against 1..4.
    tied = np.array([1.0, 1, 2, 3])
    assert kendall(tied, UP[:4]) == pytest.approx(5 / np.sqrt(30))
    assert spearman(tied, UP[:4]) == pytest.approx(4.5 / np.sqrt(4.5 * 5))


def test_throughputs_count_failures_as_nothing() -> None:
    np.testing.assert_array_equal(throughputs(np.array([2.0, 1.0, np.inf])), [0.5, 1, 0])
    np.testing.assert_array_equal(throughputs(np.array([np.inf, np.inf])), [0, 0])


def test_top_k_recall_is_the_share_of_the_fastest_among_the_first() -> None:
    truth = np.array([0.1, 1.0, 0.9, 0.2])
    assert top_k_recall(truth, truth, 2) == 1
    assert top_k_recall(np.array([9.0, 8, 0, 1]), truth, 2) == 0.5
    assert top_k_recall(-truth, truth, 2) == 0
    assert top_k_recall(truth, truth, 99) == 1


def test_average_peak_is_the_mean_running_best() -> None:
    truth = np.array([0.2, 0.8, 0.5, 0.4])
    scores = np.array([4.0, 2, 3, 1])  # measured in the order 0.2, 0.5, 0.8
    assert average_peak(scores, truth, 3) == pytest.approx((0.2 + 0.5 + 0.8) / 3 / 0.8)
    assert average_peak(truth, truth, 3) == pytest.approx(1)
    assert average_peak(scores, truth * 0, 3) == 0


def test_assess_reports_every_quality() -> None:
    costs = np.array([1.0, 2, 4, np.inf])
    report = assess(np.array([1.0, 0.5, 0.2, 0.1]), costs, k=2)
    assert (report.kendall, report.top_k_recall, report.peak) == (1, 1, 1)
    assert (report.candidates, report.k) == (4, 2)
    empty = assess(np.zeros(0), np.zeros(0))
    assert (empty.kendall, empty.spearman, empty.top_k_recall, empty.peak) == (0, 0, 0, 0)
