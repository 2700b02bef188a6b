"""Copies of a kernel side by side: one per core, each on one thread and buffers of its own.

void copy(int64_t *words)        {entry, argument, loops, gate, copies}

Each copy waits at the gate until all have come, makes its calls, and waits for the last one. So the
calls of all copies overlap from the first to the last, and Python does not run between two calls.

Source: docs/adr/0166-throughput-of-copies.md.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from ansorpy.codegen.runtime.native_launcher import NATIVE, NativeCall, word_array
from ansorpy.host_jit import compile_once

T = TypeVar("T")

_COPY: Final = """
define void @copy(ptr %words) nounwind {
enter:
  %entry = load ptr, ptr %words, align 8
  %p1 = getelementptr i64, ptr %words, i64 1
  %argument = load ptr, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %words, i64 2
  %loops = load i64, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %words, i64 3
  %come = load ptr, ptr %p3, align 8
  %done = getelementptr i64, ptr %come, i64 8
  %p4 = getelementptr i64, ptr %words, i64 4
  %copies = load i64, ptr %p4, align 8
  %before = atomicrmw add ptr %come, i64 1 seq_cst
  br label %wait
wait:
  %here = load atomic i64, ptr %come seq_cst, align 8
  %all_here = icmp sge i64 %here, %copies
  br i1 %all_here, label %calls, label %wait
calls:
  %i = phi i64 [ 0, %wait ], [ %next, %calls ]
  call void %entry(ptr %argument)
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %loops
  br i1 %more, label %calls, label %end
end:
  %ended = atomicrmw add ptr %done, i64 1 seq_cst
  br label %last
last:
  %through = load atomic i64, ptr %done seq_cst, align 8
  %all_through = icmp sge i64 %through, %copies
  br i1 %all_through, label %out, label %last
out:
  ret void
}
"""
GATE_WORDS: Final = 9  # copies that have come; a cache line later, those that are done


class SideBySide:
    """Copies of a kernel as one call: each copy is called once.

    Args:
        calls: one per copy, of native code.
        cores: the core of each copy; the first copy runs on the thread that calls.
    """

    def __init__(self, calls: Sequence[Callable[[], None]], cores: Sequence[int]) -> None:
        self._calls = [call for call in calls if isinstance(call, NativeCall)]
        self._cores = tuple(cores)
        if not len(calls) == len(self._calls) == len(cores):
            raise ValueError("copies run side by side if each is native code and has a core")

    def __call__(self) -> None:
        """Call each copy once."""
        self.seconds(1, time.perf_counter, lambda: 0)

    def seconds(
        self, loops: int, clock: Callable[[], float], switches: Callable[[], int]
    ) -> tuple[float, int]:
        """Return the seconds in which every copy makes `loops` calls, and the preemptions.

        The time ends with the last call of the slowest copy.
        """
        gate = word_array([0] * GATE_WORDS)
        copy = NATIVE(int(compile_once(_COPY, 3).get_function_address("copy")))
        shared = loops, ctypes.addressof(gate), len(self._calls)
        first, *others = [word_array([one.entry, one.words, *shared]) for one in self._calls]

        def run(words: Any, core: int) -> None:
            os.sched_setaffinity(0, {core})
            copy(words)

        threads = [
            threading.Thread(target=run, args=(words, core), daemon=True)
            for words, core in zip(others, self._cores[1:], strict=True)
        ]
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._cores[0]})
        try:
            for thread in threads:
                thread.start()
            while gate[0] < len(threads):
                if not all(thread.is_alive() for thread in threads):
                    raise RuntimeError("cannot run copies side by side: a thread has ended early")
                time.sleep(0)
            preempted, start = switches(), clock()
            copy(first)
            seconds, preempted = clock() - start, switches() - preempted
        finally:
            os.sched_setaffinity(0, before)
        for thread in threads:
            thread.join()
        return seconds, preempted


def spent(
    call: Callable[[], object], loops: int, clock: Callable[[], float], switches: Callable[[], int]
) -> tuple[float, int]:
    """Return the seconds of `loops` calls in a row, or of copies side by side; the preemptions."""
    if isinstance(call, SideBySide):
        return call.seconds(loops, clock, switches)
    before, start = switches(), clock()
    for _ in range(loops):
        call()
    return clock() - start, switches() - before


def on_core(core: int, function: Callable[[], T]) -> T:
    """Return the result of a function that runs on a core: pages that it writes lie near it."""
    results: list[T] = []

    def run() -> None:
        os.sched_setaffinity(0, {core})
        results.append(function())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]
