"""The race of whole models: distances of results, and contestants that fail."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from ansorpy.graph.graph import Array
from ansorpy.measure.cores import slot_cores, usable_cores
from ansorpy.measure.timing.turn_process import TurnProcess
from ansorpy.model.contestant import each, told_times, visit
from ansorpy.model.race import Entry, command_of, distance, race


def test_the_distance_is_a_share_of_the_largest_wanted_element() -> None:
    wanted = [np.array([1.0, -4.0], np.float32)]
    assert distance([np.array([1.0, -4.0], np.float32)], wanted) == 0
    assert distance([np.array([1.0, -3.0], np.float32)], wanted) == pytest.approx(0.25)
    assert distance([np.zeros(3, np.float32)], wanted) == np.inf
    assert distance([], wanted) == np.inf


def test_nan_and_infinity_must_be_where_they_are_wanted() -> None:
    wanted = [np.array([np.nan, np.inf, 2.0], np.float32)]
    assert distance([np.array([np.nan, np.inf, 2.0], np.float32)], wanted) == 0
    assert distance([np.array([0.0, np.inf, 2.0], np.float32)], wanted) == np.inf
    assert distance([np.array([np.nan, -np.inf, 2.0], np.float32)], wanted) == np.inf


def test_bit_patterns_of_bfloat16_are_numbers() -> None:
    one, next_one = np.array([0x3F80], np.uint16), np.array([0x3F81], np.uint16)
    assert distance([next_one], [one], ["bfloat16"]) == pytest.approx(2.0**-7)
    assert distance([one], [one], ["bfloat16"]) == 0


def test_empty_results_are_equal() -> None:
    assert distance([np.zeros((0, 3))], [np.zeros((0, 3))]) == 0


def test_a_visit_makes_calls_however_short_it_is() -> None:
    calls: list[int] = []

    def call() -> list[Array]:
        calls.append(1)
        return []

    times = visit([call], 0.0)
    assert len(times) >= 3
    assert len(calls) > len(times)


def doubled(inputs: Mapping[str, Array]) -> Callable[[], Sequence[Array]]:
    return lambda: [2 * inputs["x"]]


def broken(inputs: Mapping[str, Array]) -> Callable[[], Sequence[Array]]:
    raise ValueError("no such model")


def test_a_model_of_this_process_takes_turns_as_others_do(tmp_path: Path) -> None:
    entries = [Entry("torch", tmp_path, opened=each(one)) for one in (doubled, doubled, broken)]
    *found, failed = race(entries, [{"x": np.ones(2, np.float32)}], 1, 0.02, rounds=2)
    assert [(one.error, len(one.visits_s), one.failed) for one in found] == [(0.0, 2, "")] * 2
    assert (failed.visits_s, failed.failed) == ((), "ValueError: no such model")


def test_a_time_is_the_mean_over_sizes_and_outputs_of_all_are_compared(tmp_path: Path) -> None:
    wide: list[int] = []

    def noted(inputs: Mapping[str, Array]) -> Callable[[], Sequence[Array]]:
        def call() -> Sequence[Array]:
            wide.append(inputs["x"].size)
            return [np.where(inputs["x"].size > 2, 3.0, 2.0) * inputs["x"]]

        return call

    every = [{"x": np.ones(size, np.float32)} for size in (2, 4)]
    entries = [Entry("torch", tmp_path, opened=each(one)) for one in (doubled, noted)]
    right, wrong = race(entries, every, 1, 0.02, rounds=1)
    assert (right.error, wrong.error) == (0.0, 0.5)  # wrong at the second size only
    assert wide.count(2) == wide.count(4) == wrong.calls + 4
    assert len(right.of_sizes_s) == len(wrong.of_sizes_s) == 2


def test_a_time_is_weighted_by_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("ansorpy.model.contestant.time.perf_counter", lambda: clock)

    def taking(seconds: float) -> Callable[[], Sequence[Array]]:
        def call() -> Sequence[Array]:
            nonlocal clock
            clock += seconds
            return []

        return call

    calls = [taking(1.0), taking(5.0)]
    rows = visit(calls, 0.0)
    assert told_times(rows, ())["times_s"] == pytest.approx([3.0] * 3)
    assert told_times(rows, (3.0, 1.0))["times_s"] == pytest.approx([2.0] * 3)
    assert told_times(rows, ())["of_sizes_s"] == pytest.approx([1.0, 5.0])


def test_a_contestant_that_fails_has_a_reason_and_no_times(tmp_path: Path) -> None:
    entries = [Entry("torch", tmp_path / "absent.onnx"), Entry("ort", tmp_path / "absent.onnx")]
    found = race(entries, [{"x": np.zeros(2, np.float32)}], 1, 0.1, rounds=1)
    assert [one.runtime for one in found] == ["torch", "ort"]
    assert all(one.failed and not one.visits_s for one in found)


def test_contestants_run_on_the_same_cores(tmp_path: Path) -> None:
    for threads in (1, len(usable_cores())):
        command = command_of(Entry("ort", tmp_path / "absent.onnx"), threads)
        with TurnProcess(command, subprocess.DEVNULL) as process:
            process.ask({"do": "prepare", "inputs": "", "outputs": ""}, 60.0)
            assert os.sched_getaffinity(process.pid) == slot_cores(threads)
