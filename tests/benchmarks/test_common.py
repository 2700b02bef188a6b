"""Parts of the benchmarks without a clock: results, tables, ratios, bounds, bands."""

import json
from collections.abc import Sequence
from math import inf, isnan
from pathlib import Path

import numpy as np
import pytest

from ansorpy.events import TimeSpent
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.oracle.reference import evaluate
from ansorpy.topi.suites import LIBRARY
from ansorpy.topi.workloads import Window, conv2d_bias_relu, matmul
from benchmarks.builders import Bound, finished, moved_bytes, reason
from benchmarks.common import Results, at_budget, chosen, duration, running_best, spread, table
from benchmarks.rate import PARTS, breakdown
from benchmarks.rivals import NUMPY
from benchmarks.search import EVOLUTION, RANDOM, curves, quality_at, summary
from benchmarks.search_plot import bands
from benchmarks.shared_trials import TrialCache
from benchmarks.speed import merged
from benchmarks.workloads import FIVE, PACKED, TITLES

KEYS = ("name", "seed")


def results(path: Path, fresh: bool = False) -> Results:
    return Results(path, KEYS, {"commit": "abc"}, fresh)


def test_results_survive_a_restart_and_say_which_run_measured_a_row(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    results(path).add({"name": "a", "seed": 0, "best": 2.0})
    again = results(path)
    assert again.find(name="a", seed=1) is None
    again.add({"name": "b", "seed": 0, "best": 3.0})
    rows = json.loads(path.read_text())["rows"]
    assert [(row["name"], row["run"]) for row in rows] == [("a", 0), ("b", 1)]
    third = results(path)
    found = third.find(name="a", seed=0)
    assert found is not None
    assert found["best"] == 2.0
    assert len(third.runs) == 3
    assert results(path, fresh=True).rows == []


def test_a_row_takes_the_place_of_one_with_its_key(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    first = results(path)
    first.add({"name": "a", "seed": 0, "best": 2.0})
    second = results(path)
    second.add({"name": "a", "seed": 0, "best": 1.0})
    assert [row["best"] for row in second.rows] == [1.0]
    assert json.loads(path.read_text())["runs"] == [None, {"commit": "abc"}]


def test_a_key_must_be_whole_and_infinities_are_refused(tmp_path: Path) -> None:
    kept = results(tmp_path / "some.json")
    with pytest.raises(ValueError, match=r"some\.json"):
        kept.find(name="a")
    with pytest.raises(ValueError, match="JSON"):
        kept.add({"name": "a", "seed": 0, "best": inf})
    assert not (tmp_path / "some.json").exists()


def test_a_spread_has_median_extremes_and_relative_ranges() -> None:
    found = spread([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (found.median, found.least, found.most, found.samples) == (3.0, 1.0, 5.0, 5)
    assert found.iqr == pytest.approx(2 / 3)
    assert found.range == pytest.approx(4 / 3)
    assert spread([2.0]).iqr == 0.0


def test_an_exhausted_space_keeps_its_best() -> None:
    best = running_best([inf, 3.0, 4.0, 2.0])
    assert best == [inf, 3.0, 3.0, 2.0]
    assert [at_budget(best, n) for n in (1, 2, 4, 64)] == [inf, 3.0, 2.0, 2.0]
    assert at_budget([], 4) == inf


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1194.0, "19.9 min"),
        (2.0, "2 s"),
        (0.00139, "1.39 ms"),
        (0.0009997, "1 ms"),
        (4.2e-8, "0.042 us"),
        (None, "-"),
        (inf, "-"),
    ],
)
def test_a_duration_is_printed_with_three_digits(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_table_aligns_numbers_right_and_keeps_its_columns() -> None:
    text = table([{"a": "x|y", "b": 1}], {"name": lambda r: r["a"], "n": lambda r: r["b"]})
    assert text == "| name | n |\n|---|---:|\n| x\\|y | 1 |\n"


def test_chosen_keeps_the_order_and_names_the_known_workloads() -> None:
    assert chosen("abc", ["c", "a"]) == ["a", "c"]
    assert chosen("abc", None) == ["a", "b", "c"]
    with pytest.raises(SystemExit, match="no z: there are a, b, c"):
        chosen("abc", ["z"])


def test_moved_bytes_counts_every_input_and_output_once() -> None:
    assert moved_bytes(matmul(2, 3, 5)) == 4 * (2 * 5 + 5 * 3 + 2 * 3)
    assert moved_bytes(LIBRARY["argmax"]()) == 4 * 256 * 512 + 256 * (4 + 8)


@pytest.mark.parametrize(
    ("best_s", "naive_s", "start"),
    [
        (1.0, 2.0, ""),
        (1.1, 1.2, "at 91% of the bandwidth bound"),
        (1.9, 1.95, "at 53% of the bandwidth bound (1 s); the naive kernel is at 51%"),
        (9.0, 9.0, "at 11% of the bandwidth bound (1 s): not yet at its limit"),
    ],
)
def test_a_row_below_the_goal_says_why(best_s: float, naive_s: float, start: str) -> None:
    said = reason(best_s, naive_s, Bound(compute_s=0.5, memory_s=1.0))
    assert said.startswith(start)
    assert bool(said) == bool(start)


def test_finished_takes_the_faster_measurement_of_the_limits() -> None:
    times = {name: {"median": s} for name, s in (("best", 2.0), ("naive", 8.0), ("numpy", 1.0))}
    row = finished(dict(times), matmul(2, 2, 2), Bound(1.0, 0.5), Bound(1.5, 0.2))
    assert (row["speedup"], row["over_numpy"], row["share"]) == (4.0, 0.5, 0.5)
    assert (row["bound"], row["compute_s"], row["memory_s"]) == ("FMA peak", 1.0, 0.2)
    assert row["reason"] == ""
    lost = finished({"best": None}, matmul(2, 2, 2), Bound(1.0, 1.0), Bound(1.0, 1.0))
    assert lost["reason"] == "nothing survived"


def searched(strategy: str, seed: int, costs_s: Sequence[float | None]) -> dict[str, object]:
    quality = [{"kendall": 0.1 * seed}, {"kendall": 0.5}]
    return {
        "workload": "matmul", "strategy": strategy, "seed": seed, "costs_s": costs_s,
        "quality": quality,
    }  # fmt: skip


def test_search_is_judged_by_the_medians_over_the_seeds() -> None:
    rows = [
        searched(EVOLUTION, 0, [None, 2.0, 1.0]),
        searched(EVOLUTION, 1, [5.0, 4.0, 3.0]),
        searched(EVOLUTION, 2, [5.0, 4.0, 2.0]),
        *(searched(RANDOM, seed, [4.0, 4.0, 3.0]) for seed in range(3)),
    ]
    both = curves(rows)["matmul"]
    last = summary("matmul", both, 64)
    assert (last[EVOLUTION]["median"], last[RANDOM]["median"]) == (2.0, 3.0)
    assert (last["gain"], last["ahead"], last["close"]) == (1.5, EVOLUTION, False)
    assert summary("matmul", both, 2)["ahead"] == "equal"
    assert summary("matmul", both, 1)["ahead"] == RANDOM
    assert quality_at(rows[:3], "kendall") == pytest.approx([0.1, 0.5])
    middle, low, high = bands(both[EVOLUTION])
    assert (middle, low) == ([5.0, 4.0, 2.0], [5.0, 2.0, 1.0])
    assert isnan(high[0])


def test_a_workload_with_one_search_only_is_not_compared() -> None:
    assert curves([searched(EVOLUTION, 0, [1.0])]) == {}


def test_shared_trials_survive_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "raw" / "trials.jsonl"
    cache = TrialCache(path)
    assert cache.best_s is None
    kept: dict[str, Outcome] = {
        "a": Measured((2.0, 3.0), build_s=0.5),
        "b": Failed("crash", "signal 11"),
    }
    for key, outcome in kept.items():
        cache.add(key, outcome)
    with path.open("a") as file:
        file.write('{"program": "c", "ty')
    again = TrialCache(path)
    assert again.known == kept
    assert again.best_s == 2.0
    again.add("d", Measured((1.0,)))
    assert set(TrialCache(path).known) == {"a", "b", "d"}


def test_the_parts_of_a_trial_add_up_to_the_rounds() -> None:
    spent = TimeSpent(propose_s=1.0, measure_s=10.0, train_s=0.5)
    outcomes: list[Outcome] = [
        Measured((0.1,), build_s=2.0, check_s=1.0, run_s=0.5, load_s=0.1),
        Failed("build-timeout", "late", seconds=4.0),
        Failed("wrong", "not equal", seconds=0.2),
    ]
    shares = {"bind": 0.25, "compile": 0.75}
    parts = breakdown(spent, outcomes, shares, builders=2)
    assert tuple(parts) == (*PARTS, "all")
    assert parts["bind"] == pytest.approx(0.75)
    assert parts["compile"] == pytest.approx(2.25)
    assert parts["check"] == pytest.approx(1.2)
    assert parts["all"] == pytest.approx(11.5)
    assert sum(parts[part] for part in PARTS) == pytest.approx(parts["all"])


def test_processes_are_merged_by_medians_and_ratios_within_a_process() -> None:
    def process(ours_s: float, numpy_s: float, peak: float) -> dict[str, object]:
        times_s = {"numpy": [numpy_s] * 3, "ansorpy": [ours_s] * 2 + [9.0]}
        return {"times_s": times_s, "fma_flop_per_s": peak, "away": {"numpy": 0.0}}

    row = merged([process(1.0, 2.0, 20.0), process(2.0, 4.0, 10.0), process(1.5, 3.0, 15.0)], 10)
    assert row["times"]["ansorpy"]["median"] == 1.5
    assert row["over"] == {"numpy": 2.0, "ansorpy": 1.0}
    assert row["share_of_fma"]["ansorpy"] == pytest.approx(0.5)


def test_every_workload_has_a_title_and_rivals() -> None:
    assert set(TITLES) == {*FIVE, *PACKED}
    assert set(NUMPY) == set(FIVE)


@pytest.mark.parametrize("name", FIVE)
def test_numpy_rivals_equal_the_reference(name: str) -> None:
    small = conv2d_bias_relu(1, 5, 9, 7, 6, 3, Window(padding=1))
    dag = small if name == "conv2d" else FIVE[name]()
    rng = np.random.default_rng(0)
    given = {n.name: rng.uniform(-1, 1, n.shape).astype(n.dtype) for n in dag.placeholders}
    (want,) = evaluate(dag, given)
    call = NUMPY[name](given)
    for _ in range(2):  # memory that is used again holds the last result
        np.testing.assert_allclose(call(), want, rtol=1e-4, atol=1e-5)
