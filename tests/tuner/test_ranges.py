"""Tunings of a dim whose ranges of sizes get kernels of their own."""

from pathlib import Path

import numpy as np
import pytest

import ansorpy
from ansorpy.artifact import load_native
from ansorpy.cost.random import RandomModel
from ansorpy.events import Derived, Event, Finished, Preflight, RoundDone, Started, TaskResult
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.join import packs_of
from ansorpy.loopir.nodes import Program
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.population import sample
from ansorpy.replay import plan_from_text
from ansorpy.result import rows_of
from ansorpy.rules import CPU
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.te.dims import in_range, ranges_of
from ansorpy.tuner.options.tune_options import TuneOptions
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.ranges import in_turn, with_small_packs
from ansorpy.tuner.tasks.search_space import SearchSpace
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools
from tests.tuner.ranged_task import with_parts

ROWS = (
    "def mm(float(M in 1..40, 24) A, const float(24, 16) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
)
PARTS = ["mm_M_1_1", "mm_M_2_8", "mm_M_9_40"]


def tuned(
    out: Path, store: ansorpy.MemoryStore, text: str = ROWS, trials: int = 24, kernels: int = 4
) -> tuple[TaskResult, list[Event]]:
    events: list[Event] = []
    result = ansorpy.tune(
        text, trials=trials, cores=1, store=store, out=out, progress=False, race=False,
        on_event=events.append, kernels_per_dim=kernels,
    )  # fmt: skip
    return result.task, events


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[TaskResult, list[Event], ansorpy.MemoryStore]:
    store = ansorpy.MemoryStore()
    return *tuned(tmp_path_factory.mktemp("made"), store), store


Made = tuple[TaskResult, list[Event], ansorpy.MemoryStore]


def test_each_range_is_searched_and_one_kernel_is_delivered(made: Made) -> None:
    result, events, _ = made
    assert [e.tasks for e in events if isinstance(e, Started)] == [("mm",)]
    assert {e.task for e in events if isinstance(e, Derived)} == set(PARTS)
    assert {e.task: e.trials for e in events if isinstance(e, RoundDone)} == dict.fromkeys(PARTS, 8)
    assert [e.by for e in events if isinstance(e, Preflight)] == ["the first answer"]
    assert result.verified
    assert result.name == "mm"
    assert result.trials >= 24
    assert list(result.ranges) == ["M in 1..1", "M in 2..8", "M in 9..40"]
    assert rows_of(result)["ranges"].startswith("M in 1..1: ")


def test_ranges_of_a_dim_with_a_step_are_right_at_its_multiples(tmp_path: Path) -> None:
    text = ROWS.replace("M in 1..40", "M in 4..40 step 4 @ 4: 1 + 12..40: 1")
    result, events = tuned(tmp_path, ansorpy.MemoryStore(), text, trials=16)
    assert {e.task for e in events if isinstance(e, RoundDone)} == {"mm_M_4_8", "mm_M_12_40"}
    assert result.kernel is not None
    kernels = [ansorpy.load(result.kernel), load_native(result.kernel)]
    for count in range(4, 41, 4):
        a = np.random.default_rng(count).random((count, 24), dtype=np.float32)
        b = np.random.default_rng(0).random((24, 16), dtype=np.float32)
        for kernel in kernels:
            np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
    with pytest.raises(ValueError, match=r"expected \(M in 4\.\.40 step 4, 24\)"):
        kernels[1](np.zeros((6, 24), np.float32), b)


@pytest.mark.parametrize(
    ("weights", "trials"),
    [("1: 0.999 + 40: 0.001", (24, 8)), ("1: 0.001 + 40: 0.999", (8, 24))],
)
def test_a_range_that_takes_most_of_the_time_gets_the_trials_behind_the_first_ones(
    weights: str, trials: tuple[int, int], tmp_path: Path
) -> None:
    text = ROWS.replace("M in 1..40", f"M in 1..40 @ {weights}")
    _, events = tuned(tmp_path, ansorpy.MemoryStore(), text, trials=32)
    last = {e.task: e.trials for e in events if isinstance(e, RoundDone)}
    assert (last["mm_M_1_1"], last["mm_M_2_40"]) == trials


def test_weights_of_parts_make_the_expected_time_of_a_call() -> None:
    calls = with_parts(ROWS.replace("M in 1..40", "M in 1..40 @ 1: 6 + 2..11: 10 + 40: 4"))
    expected = {"mm_M_1_1": 0.3, "mm_M_2_8": 0.35, "mm_M_9_40": 0.35}
    assert calls.expects_calls
    assert calls.weights_of_parts() == pytest.approx(expected)


def test_weights_of_parts_are_equal_operations_if_no_calls_are_expected() -> None:
    task = with_parts(ROWS)
    assert not task.expects_calls
    weights = task.weights_of_parts()
    operations = [weights[part.name] * part.identity.flop for part in task.parts]
    assert operations == pytest.approx([task.identity.flop] * 3)


def test_the_kernel_is_right_for_every_size(made: Made) -> None:
    result, _, _ = made
    assert result.kernel is not None
    kernel = ansorpy.load(result.kernel)
    b = np.random.default_rng(0).random((24, 16), dtype=np.float32)
    for count in range(1, 41):
        a = np.random.default_rng(count).random((count, 24), dtype=np.float32)
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
    assert kernel.selftest() == []


def test_the_candidate_has_a_plan_for_each_range(made: Made) -> None:
    result, _, _ = made
    if result.candidate is None:
        pytest.skip("the untuned kernel won")
    (dag,) = parse(ROWS)
    plan = plan_from_text(dag, local_target(1), result.candidate[0])
    assert tuple(part.sizes for part in plan.parts) == ranges_of(dag, 4)


def test_a_repeated_request_is_answered_from_the_store(made: Made, tmp_path: Path) -> None:
    result, _, store = made
    again, events = tuned(tmp_path, store)
    assert again.from_store
    assert again.best_s == result.best_s
    assert not any(isinstance(event, RoundDone) for event in events)


def test_fewer_kernels_are_another_request(made: Made, tmp_path: Path) -> None:
    _, _, store = made
    other, events = tuned(tmp_path, store, trials=4, kernels=1)
    assert not other.from_store
    assert {e.task for e in events if isinstance(e, RoundDone)} == {"mm"}


def test_another_range_starts_from_the_kernels_of_shared_ones(made: Made, tmp_path: Path) -> None:
    _, _, store = made
    text = ROWS.replace("1..40", "1..50")
    _, events = tuned(tmp_path, store, text)
    (started,) = (event for event in events if isinstance(event, Started))
    assert started.known == (16,)  # trials of sizes 1 and 2 to 8


def test_candidates_of_ranges_are_joined_in_turn() -> None:
    a, b, c, d = (Candidate(number, ()) for number in range(4))
    assert in_turn([[a, b], [c], [d]]) == [(a, c, d), (b, c, d)]
    assert in_turn([[a, b], [], [d]]) == []
    assert in_turn([]) == []


def test_trials_are_told_if_those_of_a_range_all_fail(tmp_path: Path) -> None:
    def verdict(program: Program) -> Outcome:
        fails = any(dim.low == 9 for dim in program.dims)
        return Failed("load", "too many open files") if fails else Measured((1e-6,))

    asked = Request.of(TuneOptions(trials=24), parse(ROWS), Target(vector_bits=256, registers=16))
    *_, last = run(
        asked, find_rules("cpu"), ansorpy.MemoryStore(), tmp_path,
        RandomModel(np.random.default_rng(0)), pools=fake_pools(verdict), clock=lambda: 0.0,
    )  # fmt: skip
    assert isinstance(last, Finished)
    (result,) = last.results
    assert (result.trials, result.failures) == (24, {"load": 8})
    assert result.examples == {"load": "too many open files"}
    assert list(result.ranges) == ["M in 1..1", "M in 2..8"]


def test_packs_of_weights_are_shared_among_candidates_that_are_near() -> None:
    (dag,), target = parse(ROWS), local_target(1)
    rng = np.random.default_rng(0)
    spaces: list[SearchSpace] = []
    near: list[list[Candidate]] = []
    for sizes in ranges_of(dag, 3):
        space = SearchSpace(in_range(dag, sizes), target)
        space.explore(CPU)
        rows = [(k, row) for k, plan in enumerate(space.plans) for row in sample(plan, 12, rng)]
        spaces.append(space)
        near.append([Candidate(k, tuple(map(int, row))) for k, row in rows])
    near[-1] = [one for one in near[-1] if packs_of(spaces[-1].program(one))][:1]
    chosen = with_small_packs(spaces, near)
    packs = [packs_of(space.program(one)) for space, one in zip(spaces, chosen, strict=True)]
    assert packs[-1]
    assert all(one.keys() <= packs[-1].keys() for one in packs)  # none of their own
