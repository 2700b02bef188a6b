"""The objective throughput: requests, records, results and refusals."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy.cost.random import RandomModel
from ansorpy.errors import SpecError
from ansorpy.events import Finished, Started, TaskResult
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.cores import slot_cores, usable_cores
from ansorpy.measure.local import LocalPool, LocalProcesses
from ansorpy.measure.pool import Memory
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.records import MemoryStore, copies_of, items_per_s, task_key
from ansorpy.result import summary
from ansorpy.target import Target
from ansorpy.tuner.options.tune_options import TuneOptions
from ansorpy.tuner.parts.pools import shared_pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rounds.preflight import check_memory
from ansorpy.tuner.rounds.setup import local_pools
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = parse("def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
TWO_CORES = Target(cores=2, vector_bits=256, registers=16)


def request(target: Target = TWO_CORES, **options: Any) -> Request:
    told = {"objective": "throughput", "trials": 8, **options}
    return Request.of(TuneOptions(**told), MM, target)


def tuned(asked: Request, store: MemoryStore, out: Path) -> tuple[Started, TaskResult]:
    """Return the first event and the result of a tuning with times from formulas."""
    model = RandomModel(np.random.default_rng(0))
    events = run(asked, find_rules("cpu"), store, out, model, pools=fake_pools(), clock=lambda: 0.0)
    started, *_, finished = events
    assert isinstance(started, Started)
    assert isinstance(finished, Finished)
    return started, finished.results[0]


def test_the_cores_of_the_machine_are_copies_of_a_kernel_of_one_thread() -> None:
    asked = request()
    assert (asked.copies, asked.target.cores) == (2, 1)
    same = Request.of(asked, asked.dags, TWO_CORES)
    assert (same.copies, same.target.cores) == (2, 1)
    assert (request(objective="latency").copies, request(objective="latency").target.cores) == (
        1,
        2,
    )


def test_keys_tell_the_copies() -> None:
    one = Target(cores=1)
    keys = [task_key("ab", one, copies=count) for count in (1, 2, 16)]
    assert [copies_of(key) for key in keys] == [1, 2, 16]
    assert len(set(keys)) == 3
    assert keys[0] == task_key("ab", one)
    assert copies_of(f"{keys[0]}/copies0") == copies_of(f"{keys[0]}/copies2x") == 1
    assert [items_per_s(copies_of(key), 0.5) for key in keys] == [None, 4.0, 32.0]
    assert items_per_s(copies_of(keys[1]), None) is None


def test_records_of_one_objective_answer_no_request_for_the_other(tmp_path: Path) -> None:
    store, one = MemoryStore(), Target(vector_bits=256, registers=16)
    orders = [(request(), TWO_CORES), (request(one, objective="latency"), one)]
    for asked, _ in orders * 2:
        tuned(asked, store, tmp_path)
    four = request(Target(cores=4, vector_bits=256, registers=16))
    started, result = tuned(four, store, tmp_path)
    assert not result.from_store
    assert started.known == (0,)
    for asked, _ in orders:
        started, result = tuned(asked, store, tmp_path)
        assert result.from_store
        assert started.known == (8,)


def test_a_tuning_of_the_other_objective_does_not_start_from_its_times(tmp_path: Path) -> None:
    store = MemoryStore()
    _, first = tuned(request(), store, tmp_path)
    one = Target(vector_bits=256, registers=16)
    started, second = tuned(request(one, objective="latency"), store, tmp_path)
    assert (started.known, second.from_store) == ((0,), False)
    assert first.key == f"{second.key}/copies2"


def test_the_result_tells_items_per_second_and_copies(tmp_path: Path) -> None:
    _, result = tuned(request(), MemoryStore(), tmp_path)
    assert result.copies == 2
    assert result.best_s is not None
    assert result.items_per_s == 2 / result.best_s
    assert " items per second in 2 copies at once; each: " in summary([result])


def test_one_call_at_a_time_has_no_items_per_second(tmp_path: Path) -> None:
    _, result = tuned(request(objective="latency"), MemoryStore(), tmp_path)
    assert (result.copies, result.items_per_s) == (1, None)
    assert "items per second" not in summary([result])


def test_the_processes_have_a_core_for_each_copy() -> None:
    count = min(2, len(usable_cores()))
    cores = tuple(sorted(slot_cores(count)))
    settings = MeasureSettings()
    if count > 1:
        pools = shared_pools(request(), settings)
        asked = request()
        pool = pools.of(Task.of(asked.dags[0], asked.target, "cpu@1", copies=asked.copies))
        assert isinstance(pool, LocalPool)
        assert pool.settings.sampling.cores == cores
        assert pool.workers.threads == count
        pools.close()
    alone = LocalProcesses(Target(), settings)
    assert alone.workers.threads == 1
    alone.close()


def test_copies_that_exceed_the_memory_of_a_candidate_are_refused() -> None:
    memory = Memory(None, MeasureSettings().limits.memory_bytes)
    (dag,) = parse("def scale(float(8192,8192) A) -> (B) { B(i,j) = 2 * A(i,j) }")
    check_memory([Task.of(dag, Target(), "cpu@1", copies=2)], memory)
    with pytest.raises(SpecError, match="its inputs and outputs take 32 GiB in 64 copies;"):
        check_memory([Task.of(dag, Target(), "cpu@1", copies=64)], memory)


def test_copies_of_a_kernel_with_dims_are_refused_with_the_sizes_that_fit() -> None:
    memory = Memory(None, MeasureSettings().limits.memory_bytes)
    (dag,) = parse("def scale(float(N in 1..8192,8192) A) -> (B) { B(i,j) = 2 * A(i,j) }")
    check_memory([Task.of(dag, Target(), "cpu@1", copies=2)], memory)
    message = "needs 32 GiB for inputs and outputs in 64 copies; expected N in 1..1024, within"
    with pytest.raises(SpecError, match=re.escape(message)):
        check_memory([Task.of(dag, Target(), "cpu@1", copies=64)], memory)


@pytest.mark.slow
@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core")
def test_calls_of_any_size_are_counted_for_copies_of_a_kernel(tmp_path: Path) -> None:
    text = "def mm(float(M in 1..40,24) A, float(24,16) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    result = ansorpy.tune(
        text, objective="throughput", cores=2, trials=16, store=MemoryStore(), out=tmp_path,
        progress=False,
    ).task  # fmt: skip
    assert (result.copies, list(result.ranges)) == (2, ["M in 1..1", "M in 2..40"])
    assert result.best_s is not None
    assert result.items_per_s == 2 / result.best_s
    assert [one.numpy_s for one in result.by_size] == [None] * 6
    assert result.kernel is not None
    kernel, rng = ansorpy.load(result.kernel), np.random.default_rng(0)
    for size in (1, 2, 23, 40):
        a, b = rng.random((size, 24), np.float32), rng.random((24, 16), np.float32)
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)


def test_more_copies_than_cores_are_refused() -> None:
    count = len(usable_cores()) + 1
    with pytest.raises(SpecError, match=f"cannot tune for {count} cores because this machine has"):
        local_pools(request(Target(cores=count)))
