"""Copies of a kernel side by side: calls, buffers, times and preemptions."""

import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from ansorpy.codegen.loader import build, load
from ansorpy.codegen.runtime.native_launcher import NativeCall, native_call
from ansorpy.frontends.tc.text import parse
from ansorpy.host_jit import compile_here
from ansorpy.measure.host import local_target
from ansorpy.measure.timing.each_size import EachSize
from ansorpy.measure.timing.sampling import SamplingOptions, sample, time_call
from ansorpy.measure.timing.side_by_side import SideBySide, on_core
from ansorpy.measure.timing.workplace import Workplace
from ansorpy.measure.verify.cases import make_cases, timed_cases
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive

# A native function that counts its calls in its first word.
COUNT = """
define void @count(ptr %words) nounwind {
  %before = load i64, ptr %words, align 8
  %after = add i64 %before, 1
  store i64 %after, ptr %words, align 8
  ret void
}
"""


@cache
def engine() -> Any:
    return compile_here(COUNT, 0)


def counter() -> NativeCall:
    return native_call(int(engine().get_function_address("count")), [0], engine())


def cores(count: int) -> list[int]:
    """Return cores of this process, one several times if there are fewer."""
    usable = sorted(os.sched_getaffinity(0))
    return [usable[number % len(usable)] for number in range(count)]


def counted(*calls: NativeCall) -> list[int]:
    return [call.args[0][0] for call in calls]


def steps(*values: Any) -> Callable[[], Any]:
    """Return a function that gives these values one after the other."""
    left = iter(values)
    return lambda: next(left)


def test_each_copy_makes_every_call() -> None:
    calls = [counter() for _ in range(3)]
    together = SideBySide(calls, cores(3))
    together()
    assert counted(*calls) == [1, 1, 1]
    together.seconds(1000, time.perf_counter, lambda: 0)
    assert counted(*calls) == [1001, 1001, 1001]


def test_the_time_is_that_of_all_copies_and_the_thread_keeps_its_cores() -> None:
    before = os.sched_getaffinity(0)
    together = SideBySide([counter(), counter()], cores(2))
    assert together.seconds(4, steps(10.0, 18.0), steps(3, 5)) == (8.0, 2)
    assert os.sched_getaffinity(0) == before


def test_the_clock_starts_when_all_copies_are_there() -> None:
    """Neither the start of the threads nor their way to their cores is part of the time."""
    calls = [counter(), counter()]
    seen = []

    def clock() -> float:
        seen.append(counted(*calls))
        return 0.0

    SideBySide(calls, cores(2)).seconds(7, clock, lambda: 0)
    assert seen == [[0, 0], [7, 7]]


@pytest.mark.parametrize(
    ("seconds", "preempted", "calm"), [(0.01, 0, True), (0.01, 1, False), (0.06, 1, True)]
)
def test_a_sample_of_copies_is_the_time_of_a_call_of_each(
    seconds: float, preempted: int, calm: bool
) -> None:
    together = SideBySide([counter(), counter()], cores(2))
    clock, switches = steps(1.0, 1.0 + seconds), steps(0, preempted)
    found, quiet = sample(together, 10, SamplingOptions(), clock, switches)
    assert found == pytest.approx(seconds / 10)
    assert quiet == calm


def test_copies_are_timed_as_a_call_is() -> None:
    together = SideBySide([counter(), counter()], cores(2))
    times, aborted = time_call(together, None, SamplingOptions(), switches=lambda: 0)
    assert len(times) == SamplingOptions().samples
    assert not aborted


def test_copies_need_native_code_and_a_core_each() -> None:
    with pytest.raises(ValueError, match="if each is native code and has a core"):
        SideBySide([counter(), lambda: None], cores(2))
    with pytest.raises(ValueError, match="if each is native code and has a core"):
        SideBySide([counter()], cores(2))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_copy_without_its_core_ends_the_measurement() -> None:
    together = SideBySide([counter(), counter()], [cores(1)[0], 4095])
    with pytest.raises(RuntimeError, match="a thread has ended early"):
        together()


def test_a_function_runs_on_its_core() -> None:
    (core,) = cores(1)
    assert on_core(core, lambda: os.sched_getaffinity(0)) == {core}


def test_each_copy_has_buffers_of_its_own_and_all_results_are_there() -> None:
    (dag,) = parse("def mm(float(4,3) A, float(3,5) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
    target = local_target(1)
    plan = naive(dag, target)
    built = build(bind(plan, plan.smallest_row, target), target)
    case = make_cases(dag, seed=0, edges=False)[0]
    place = Workplace((case,), {})
    bound = place.bind(load(built), built, case, cores=cores(3))
    bound.call()
    places = [bound.memory.arrays, *bound.copies]
    assert len(places) == 3
    for name in ("A", "B", "C"):
        assert len({arrays[name].ctypes.data for arrays in places}) == 3
    for arrays in places:
        np.testing.assert_allclose(arrays["C"], case.expected[0].value, rtol=1e-5)


def test_copies_take_turns_with_sizes_of_dims_by_weight() -> None:
    both = [[counter(), counter()] for _ in range(2)]
    each = EachSize([SideBySide(calls, cores(2)) for calls in both], [3.0, 1.0])
    clock, switches = steps(0.0, 0.3, 1.0, 1.4), steps(0, 1, 2, 2)
    seconds, quiet = sample(each, 10, SamplingOptions(calm_s=10.0), clock, switches)
    assert [counted(*calls) for calls in both] == [[15, 15], [5, 5]]
    assert seconds == pytest.approx(0.75 * 0.3 / 15 + 0.25 * 0.4 / 5)
    assert not quiet, "a thread was preempted at one of the sizes"


def test_each_copy_has_inputs_of_each_size_and_shares_the_other_buffers() -> None:
    (dag,) = parse(
        "def mm(float(M in 2..9,3) A, float(3,5) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
    )
    target = local_target(1)
    plan = naive(dag, target)
    built = build(bind(plan, plan.smallest_row, target), target)
    timed = timed_cases(make_cases(dag, seed=0, edges=False))
    place = Workplace(tuple(timed), {})  # it holds the inputs of each size
    bound = place.bind_timed(load(built), built, cores=cores(3))
    assert isinstance(bound.call, EachSize)
    assert len(bound.call.calls) == len(timed) == 5
    outputs = [bound.memory.arrays["C"], *(one["C"] for one in bound.copies[:2])]
    assert len({array.ctypes.data for array in outputs}) == 3
    assert len({one["A"].ctypes.data for one in bound.copies}) == 2 + 2 * len(timed)
    for case, call in zip(timed, bound.call.calls, strict=True):
        call()
        for array in outputs:
            region = case.part("C")
            np.testing.assert_allclose(array[region], case.expected[0].value, rtol=1e-5)
