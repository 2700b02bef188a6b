"""Calls of compiled phases in this process: one native call per kernel, serially or on a pool.

void launch(int64_t *order)      {pool, count, count x {function, tasks}, buffers}
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ansorpy.codegen.runtime.native_text import LOOP_TEXT
from ansorpy.codegen.runtime.phase_loop import PhaseLoop
from ansorpy.host_jit import compile_once

NATIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
COUNT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
NO_POOL: Final = 0

_LAUNCH: Final = f"""{LOOP_TEXT}

define void @launch(ptr %order) nounwind {{
  %pool = load ptr, ptr %order, align 8
  %place = getelementptr i64, ptr %order, i64 1
  %count = load i64, ptr %place, align 8
  %rows = getelementptr i64, ptr %order, i64 2
  %buffers = getelementptr {{ptr, i64}}, ptr %rows, i64 %count
  call void @run_phases(ptr %rows, i64 %count, ptr %buffers, ptr %pool)
  ret void
}}
"""


def native_runtime() -> Any:
    """Return LLVM's engine around `launch`, compiled once per process."""
    return compile_once(_LAUNCH, 3)


def bound(
    loop: PhaseLoop,
    entries: Mapping[str, int],
    addresses: Sequence[int],
    alive: object,
    pool: int = NO_POOL,
) -> Callable[[], None]:
    """Return a call without arguments that runs a phase loop on buffers.

    Args:
        entries: addresses of the phases' functions, by name.
        addresses: of the buffers.
        alive: an object to keep as long as the call, such as the owner of the code.
        pool: address of a running pool of threads; 0: the caller's thread only.
    """
    entry = int(native_runtime().get_function_address("launch"))
    words = order(loop, entries, addresses, pool if loop.parallel else NO_POOL)
    return native_call(entry, words, alive)


def order(
    loop: PhaseLoop, entries: Mapping[str, int], addresses: Sequence[int], pool: int = NO_POOL
) -> list[int]:
    """Return the words that `launch` takes; the sizes of dims are those in memory now."""
    loop = of_call(loop, entries, addresses)
    return [pool, len(loop.phases), *loop.rows(entries), *addresses]


def of_call(loop: PhaseLoop, entries: Mapping[str, int], addresses: Sequence[int]) -> PhaseLoop:
    """Return the loop with the numbers of tasks for the sizes of dims that are in memory now."""
    if not loop.sized:
        return loop
    buffers = word_array(addresses)
    return loop.counted(lambda info: int(COUNT(entries[info.counter])(buffers)))


class NativeCall(partial[None]):
    """A call without arguments of a native function with one argument, an array of words."""

    entry: int  # address of the function
    alive: object  # kept as long as the call

    @property
    def words(self) -> int:
        """The address of the argument."""
        return ctypes.addressof(self.args[0])


def native_call(entry: int, words: Sequence[int], alive: object) -> NativeCall:
    """Return a call without arguments of `void entry(int64_t *words)`."""
    call = NativeCall(NATIVE(entry), word_array(words))
    call.entry, call.alive = entry, alive
    return call


def word_array(words: Sequence[int]) -> Any:
    """Return the array of addresses, or other 64-bit words, that a native function takes."""
    return (ctypes.c_int64 * len(words))(*words)
