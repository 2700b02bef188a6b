"""The runtime: kernels on a pool of threads that they share, in this process and exported."""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.loader import TASK, build, load
from ansorpy.codegen.runtime.native_launcher import bound
from ansorpy.codegen.runtime.phase_loop import ahead_loop, timed_loop
from ansorpy.codegen.runtime.thread_pool import ThreadPool
from ansorpy.codegen.shared_library import LoadedLibrary
from ansorpy.codegen.shared_library import build as build_library
from ansorpy.codegen.shared_library import load as load_library
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Binary
from ansorpy.loopir.nodes import Phase, Scope, Tile
from ansorpy.target import Target
from tests.codegen.programs import guarded
from tests.codegen.test_shared_library import exported, three_phases
from tests.loopir.build import add, buffer, c, f32, parallel, program, read, store, v

Array = npt.NDArray[Any]
AT = v("i")
THREADS = [1, 2, 3, 7]
CALLS = 4000
K = np.arange(64, dtype=np.float32)


class Counter:
    """A kernel of two phases: o[i] = o[i] + 1, then p[i] = o[last - i] * factor.

    After n calls o is n everywhere if every task ran once per call, and p is n * factor if no task
    of the second phase began before the first phase ended.
    """

    def __init__(self, tasks: int, factor: float) -> None:
        scopes = (Scope.OUTPUT, Scope.OUTPUT)
        buffers = [
            buffer(name, tasks, scope=scope) for name, scope in zip("op", scopes, strict=True)
        ]
        ones = Tile((), (), store("o", [AT], add(read("o", AT), f32(1.0))))
        mirrored = read("o", Binary("sub", c(tasks - 1), AT))
        product = Binary("mul", mirrored, f32(factor))
        scaled = Tile((), (), store("p", [AT], product))
        both = program(buffers, parallel("i", tasks, ones), parallel("i", tasks, scaled))
        self.loaded, self.factor = load(build(both, Target())), factor
        self.o, self.p = np.zeros(tasks, np.float32), np.zeros(tasks, np.float32)

    def call(self, pool: int) -> Callable[[], None]:
        return self.loaded.bind([self.o.ctypes.data, self.p.ctypes.data], pool)

    def check(self, calls: int) -> None:
        np.testing.assert_array_equal(self.o, np.float32(calls))
        np.testing.assert_array_equal(self.p, np.float32(calls * self.factor))


def test_timed_and_ahead_loops_follow_from_the_phases() -> None:
    infos = (PhaseInfo("a", 5, ahead=True), PhaseInfo("b", 3), PhaseInfo("c", 1))
    timed, ahead = timed_loop(infos), ahead_loop(infos)
    assert (timed.name, timed.parallel, timed.most_threads) == ("run", True, 3)
    assert (ahead.name, ahead.parallel, ahead.most_threads) == ("ahead", False, 1)
    assert timed.rows({"b": 40, "c": 50}) == [40, 3, 50, 1]
    assert [info.name for info in ahead.phases] == ["a"]


@pytest.mark.parametrize("threads", THREADS)
def test_two_kernels_take_turns_on_one_pool(threads: int) -> None:
    first, second = Counter(13, 2.0), Counter(6, 3.0)
    with ThreadPool(threads) as pool:
        calls = first.call(pool.address), second.call(pool.address)
        for number in range(1, CALLS + 1):
            for call in calls:
                call()
            if number % 20 == 0:
                first.check(number)
                second.check(number)


@pytest.mark.parametrize("threads", THREADS)
def test_two_threads_call_kernels_on_one_pool_at_once(threads: int) -> None:
    kernels = Counter(13, 2.0), Counter(6, 3.0)
    wrong: list[BaseException] = []

    def repeat(kernel: Counter, pool: int) -> None:
        call = kernel.call(pool)
        try:
            for number in range(1, CALLS + 1):
                call()
                if number % 10 == 0:
                    kernel.check(number)
        except AssertionError as error:
            wrong.append(error)

    with ThreadPool(threads) as pool:
        callers = [threading.Thread(target=repeat, args=(k, pool.address)) for k in kernels]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert not wrong, wrong[0]


def test_helpers_wake_up_after_a_pause_that_lets_them_sleep() -> None:
    kernel = Counter(64, 2.0)
    with ThreadPool(3) as pool:
        call = kernel.call(pool.address)
        for number in range(1, 101):
            time.sleep(0.001)
            call()
            kernel.check(number)


def test_many_pools_start_and_stop() -> None:
    kernel = Counter(8, 2.0)
    for _ in range(200):
        with ThreadPool(3) as pool:
            kernel.call(pool.address)()
    kernel.check(200)
    with pytest.raises(ValueError, match="cannot make a pool of 0 threads; expected at least 1"):
        ThreadPool(0)


def test_tasks_run_on_several_threads_at_once() -> None:
    """Three tasks wait for each other: none ends before all three have a thread."""
    together = threading.Barrier(3, timeout=60)
    broken = []

    def task(_context: int, _number: int) -> None:
        try:
            together.wait()
        except threading.BrokenBarrierError as error:
            broken.append(error)

    function = TASK(task)
    entries = {"f": ctypes.cast(function, ctypes.c_void_p).value or 0}
    with ThreadPool(3) as pool:
        call = bound(timed_loop([PhaseInfo("f", 3)]), entries, [0], None, pool.address)
        for _ in range(100):
            call()
    assert not broken


def on_pool(pool: ThreadPool, tasks: int, run: Callable[[int], None]) -> None:
    """Run one phase of a Python function of the number of a task on a pool."""
    function = TASK(lambda _context, number: run(number))
    entries = {"f": ctypes.cast(function, ctypes.c_void_p).value or 0}
    bound(timed_loop([PhaseInfo("f", tasks)]), entries, [0], None, pool.address)()


@pytest.mark.parametrize(("tasks", "first"), [(2, [0, 1]), (8, [0, 4]), (9, [0, 4])])
def test_threads_begin_with_equal_shares_in_the_order_of_the_tasks(
    tasks: int, first: list[int]
) -> None:
    together, begun = threading.Barrier(2), list[int]()
    threads = set[int]()

    def task(number: int) -> None:
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            begun.append(number)
            together.wait(60)

    with ThreadPool(2) as pool:
        on_pool(pool, tasks, task)
    assert sorted(begun) == first


@pytest.mark.parametrize("slow", [0, 3, 12])
def test_other_threads_take_all_tasks_behind_a_slow_one(slow: int) -> None:
    others, ran = threading.Semaphore(0), list[int]()

    def task(number: int) -> None:
        ran.append(number)
        if number != slow:
            others.release()
        else:
            for _ in range(12):
                assert others.acquire(timeout=60)

    with ThreadPool(2) as pool:
        on_pool(pool, 13, task)
    assert sorted(ran) == list(range(13))


def test_a_task_that_calls_a_kernel_on_its_own_pool_runs_it_alone() -> None:
    inner = Counter(5, 2.0)
    with ThreadPool(2) as pool:
        call, lock = inner.call(pool.address), threading.Lock()
        seen = []

        def task(_context: int, number: int) -> None:
            with lock:  # the buffers of the inner kernel are shared
                call()
                seen.append(number)

        function = TASK(task)
        entries = {"f": ctypes.cast(function, ctypes.c_void_p).value or 0}
        bound(timed_loop([PhaseInfo("f", 20)]), entries, [0], None, pool.address)()
    assert sorted(seen) == list(range(20))
    inner.check(20)


def test_after_a_fork_the_caller_runs_all_tasks() -> None:
    kernel = Counter(13, 2.0)
    with ThreadPool(3) as pool:
        call = kernel.call(pool.address)
        call()
        time.sleep(0.01)  # helpers are asleep: none holds the mutex
        child = os.fork()
        if child == 0:
            try:
                call()
                kernel.check(2)
                pool.close()  # the helpers are the parent's
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        kernel.check(1)
        call()
        kernel.check(2)


class Model:
    """An exported library whose packed weights and scratch are arguments of its calls."""

    def __init__(self, seed: int, prefix: str) -> None:
        export = replace(exported(three_phases(), {"K": K.tobytes()}), prefix=prefix)
        built = build_library(export, Target())
        assert (built.packed_bytes, built.scratch_bytes) == (256, 256)
        assert built.workspace_bytes == 512
        rng = np.random.default_rng(seed)
        self.loaded: LoadedLibrary = load_library(built)
        self.a, weights = rng.integers(-9, 9, (2, 64)).astype(np.float32)
        self.squares = weights * weights
        self.out = guarded([64], np.float32)
        self.packed = guarded([64], np.float32)
        self.loaded.pack(self._addresses(weights, guarded([256], np.uint8)))

    def call(self, scratch: Array, pool: int) -> Callable[[], None]:
        """Return a call for which the weights themselves are gone."""
        gone = np.full(64, np.nan, np.float32)
        return self.loaded.bind_packed(self._addresses(gone, scratch), pool)

    def check(self) -> None:
        np.testing.assert_array_equal(self.out, (self.a + self.squares) * K)
        np.testing.assert_array_equal(self.packed, self.squares)

    def _addresses(self, weights: Array, scratch: Array) -> list[int]:
        self.arrays = (self.a, weights, self.out, self.packed, scratch)  # calls hold addresses only
        return [array.ctypes.data for array in self.arrays]


@contextmanager
def library_pool(owner: Model, threads: int) -> Iterator[int]:
    """Open a pool with the functions that a library exports."""
    entries = owner.loaded.entries
    opened = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)(entries["pool_open"])(threads)
    try:
        yield opened
    finally:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(entries["pool_close"])(opened)


def take_turns(models: Sequence[Model], pool: int) -> None:
    """Call models in turns on one scratch."""
    scratch = guarded([256], np.uint8)
    calls = [one.call(scratch, pool) for one in models]
    for number in range(CALLS // 2):
        for one, call in zip(models, calls, strict=True):
            one.a += 1
            call()
            if number % 20 == 0:
                one.check()


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("own", [True, False])
def test_exported_kernels_share_a_pool_and_scratch(threads: int, own: bool) -> None:
    models = Model(1, "ansorpy_one"), Model(2, "ansorpy_two")
    if own:
        with library_pool(models[0], threads) as pool:
            take_turns(models, pool)
    else:
        with ThreadPool(threads) as running:
            take_turns(models, running.address)


@pytest.mark.parametrize("threads", THREADS)
def test_exported_kernels_are_called_at_once_on_one_pool(threads: int) -> None:
    models = Model(1, "ansorpy_one"), Model(2, "ansorpy_two")
    with library_pool(models[0], threads) as pool, ThreadPoolExecutor(2) as callers:
        done = [callers.submit(take_turns, [one], pool) for one in models]
        for each in done:
            each.result()


def test_an_exported_kernel_runs_on_any_pool_with_the_interface_and_without_a_pool() -> None:
    one = Model(3, "ansorpy_three")
    take_turns([one], 0)
    dealt = []

    def run(_pool: int, function: int, context: int, tasks: int) -> None:
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda k: TASK(function)(context, k), reversed(range(tasks))))
        dealt.append(tasks)

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    interface = kind(run)
    foreign = (ctypes.c_void_p * 1)(ctypes.cast(interface, ctypes.c_void_p).value)
    one.a -= 7
    one.call(guarded([256], np.uint8), ctypes.addressof(foreign))()
    one.check()
    assert dealt == [8, 8]


def test_weights_that_a_call_would_overwrite_are_refused() -> None:
    three = three_phases()
    over = Tile((), (), store("W2", [AT], read("A", AT)))
    phases = (*three.phases, Phase("late", parallel("i", 64, over)))
    with pytest.raises(BuildError, match="late overwrites W2, written ahead"):
        build_library(exported(replace(three, phases=phases), {"K": K.tobytes()}), Target())
