"""Rounds to rows, and who is compared with whom."""

import pytest

from benchmarks.common import Row
from benchmarks.suite.cases import CASES
from benchmarks.suite.contestants import CONTESTANTS, OURS, OURS_RUNTIME, PEERS, ours_against
from benchmarks.suite.summary import (
    best_of,
    best_runtime,
    mean,
    means,
    merged,
    ours_s,
    ratio,
    ratio_with_winograd,
    share_of_copy,
    share_of_fma,
)
from tests.benchmarks.suite.made import COPY, FMA, contest

WITH_WEIGHTS, WITHOUT = "c2d_r64", "gmm_512"


def one(case: str, **times_s: float) -> Row:
    (row,) = merged([contest(case, 0, 2, **times_s)])
    return row


def test_the_figure_is_the_median_over_processes() -> None:
    rounds = [contest("gmm_512", at, torch=time) for at, time in enumerate((3.0, 1.0, 2.0))]
    (row,) = merged(rounds)
    assert row["rounds"] == 3
    assert row["contestants"]["torch"]["median"] == 2.0
    assert row["contestants"]["torch"]["most"] == 3.0
    assert row["contestants"]["torch"]["samples"] == 3


def test_noisy_rounds_count_only_without_a_quiet_round() -> None:
    noisy, worse, quiet = (contest("gmm_512", at, torch=at + 1.0) for at in range(3))
    noisy["fma_spread"] = worse["fma_spread"] = 0.5
    (row,) = merged([noisy, worse])
    assert (row["quiet"], row["contestants"]["torch"]["median"]) == (False, 1.5)
    (row,) = merged([noisy, worse, quiet])
    assert (row["quiet"], row["rounds"]) == (True, 1)
    assert row["contestants"]["torch"]["median"] == 3.0


def test_a_process_that_failed_once_does_not_hide_the_others() -> None:
    rounds = [contest("gmm_512", at, torch=1.0) for at in range(2)]
    rounds[1]["contestants"]["torch"] = {"failed": "exit code -11"}
    (row,) = merged(rounds)
    assert row["contestants"]["torch"]["median"] == 1.0
    assert row["contestants"]["torch"]["failures"] == 1
    rounds[0]["contestants"]["torch"] = {"failed": "exit code -9"}
    (row,) = merged(rounds)
    assert row["contestants"]["torch"] == {"failed": "exit code -11"}


def test_rows_come_in_the_order_of_the_suite_with_most_threads_first() -> None:
    rounds = [
        contest("maxpool", 0, 1, torch=1.0), contest("gmm_512", 0, 1, torch=1.0),
        contest("maxpool", 0, 2, torch=1.0),
    ]  # fmt: skip
    found = [(row["case"], row["threads"]) for row in merged(rounds)]
    assert found == [("maxpool", 2), ("gmm_512", 1), ("maxpool", 1)]


def test_weights_are_constant_for_us_exactly_where_they_are_for_the_peer() -> None:
    row = one(WITH_WEIGHTS, ansorpy=1.0, ansorpy_rt=2.0, ort=3.0, ort_rt=8.0, torch=10.0)
    assert ratio(row, "ort") == 3.0
    assert ratio(row, "ort_rt") == 4.0
    assert ratio(row, "torch") == 5.0
    assert {peer for peer in PEERS if ours_against(peer) == OURS} == {
        "torch_packed", "ort", "openvino",
    }  # fmt: skip


def test_without_weights_both_columns_are_one_kernel() -> None:
    row = one(WITHOUT, ansorpy_rt=2.0, ort=3.0)
    assert ours_s(row, OURS) == ours_s(row, OURS_RUNTIME) == 2.0
    assert ratio(row, "ort") == 1.5


def test_with_weights_the_packed_kernel_is_not_replaced_by_another() -> None:
    assert ratio(one(WITH_WEIGHTS, ansorpy_rt=2.0, ort=3.0), "ort") is None


def test_the_best_peer_may_have_packed_and_the_best_without_packing_may_not() -> None:
    row = one(WITH_WEIGHTS, ansorpy=1.0, ansorpy_rt=2.0, ort=1.5, torch=3.0, jax=2.5)
    best, runtime = best_of(row), best_runtime(row)
    assert best is not None
    assert runtime is not None
    assert (best.peer, best.ratio) == ("ort", 1.5)
    assert (runtime.peer, runtime.ratio) == ("jax", 1.25)


def test_a_row_of_ours_alone_has_no_best() -> None:
    assert best_of(one(WITHOUT, ansorpy_rt=1.0)) is None
    best = best_of(one(WITHOUT, torch=1.0))
    assert best is not None
    assert best.ratio is None


def test_the_mean_is_geometric_and_tells_its_extremes() -> None:
    found = mean({"a": 1.0, "b": 4.0, "c": None})
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    assert (found.rows, found.least, found.most) == (2, (1.0, "a"), (4.0, "b"))
    assert mean({"a": None}) is None


def test_means_count_the_rows_that_a_peer_runs() -> None:
    rows = merged(
        [
            contest("gmm_512", 0, ansorpy_rt=1.0, torch=2.0, numpy=4.0),
            contest("c2d_r64", 0, ansorpy_rt=1.0, torch=8.0),
            contest("gmm_512", 0, 1, ansorpy_rt=1.0, torch=100.0),
        ]
    )
    found = means(rows, 2)
    assert found["torch"].ratio == pytest.approx(4.0)
    assert (found["numpy"].rows, found["torch"].rows) == (1, 2)
    assert found["best"].ratio == pytest.approx(4.0)
    assert "jax" not in found


def test_shares_are_of_the_peak_measured_beside_the_row() -> None:
    row = one(WITHOUT, ansorpy_rt=1.0)
    flop, size_bytes = 2 * 512**3, 3 * 512 * 512 * 4
    assert share_of_fma(row, 2 * flop / FMA) == pytest.approx(0.5)
    assert share_of_copy(row, 4 * size_bytes / COPY) == pytest.approx(0.25)


def test_names_are_those_of_the_table() -> None:
    assert set(PEERS) < set(CONTESTANTS)
    assert not any(CONTESTANTS[name].ours for name in PEERS)
    assert all(case.batch in (1, 16) for case in CASES.values())


def test_winograd_counts_with_the_weights_of_the_peer_and_only_if_tuned() -> None:
    row = one(WITH_WEIGHTS, ansorpy=2.0, ansorpy_rt=4.0, ansorpy_winograd=1.0, ort=3.0, torch=6.0)
    found = best_of(row)
    assert found is not None
    assert (found.peer, found.ratio, found.winograd) == ("ort", 1.5, 3.0)
    assert ratio_with_winograd(row, "torch") == 1.5  # at run time it was not tuned
    assert means([row], 2)["best_winograd"].ratio == pytest.approx(3.0)
