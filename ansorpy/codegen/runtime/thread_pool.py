"""A running pool of threads in this process, handed to the calls of any number of kernels."""

import ctypes
import os
import weakref
from functools import cache
from typing import Any, Final, Self

import llvmlite.binding as llvm

from ansorpy.codegen.runtime.pool_text import POOL_BYTES, pool_text
from ansorpy.host_jit import compile_once

ALIGN_BYTES = 64
START = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
STOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_START_STOP: Final = """
define void @start(ptr %memory, i32 %threads) nounwind {
  call void @pool_start(ptr %memory, i32 %threads)
  ret void
}

define void @stop(ptr %pool) nounwind {
  call void @pool_stop(ptr %pool)
  ret void
}
"""


class ThreadPool:
    """Threads that run tasks of kernels beside the thread that calls a kernel.

    Kernels of this process and of exported libraries take `address`. A process forked from this
    one has none of the helpers: there every call runs on its caller's thread.

    Args:
        threads: number of threads with the caller's.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"cannot make a pool of {threads} threads; expected at least 1")
        engine = compile_once("\n".join([pool_text(llvm.get_process_triple()), _START_STOP]), 3)
        memory = ctypes.create_string_buffer(POOL_BYTES + ALIGN_BYTES)
        self.address = -(-ctypes.addressof(memory) // ALIGN_BYTES) * ALIGN_BYTES
        START(engine.get_function_address("start"))(self.address, threads)
        self._stop = weakref.finalize(self, _stop, engine, memory, self.address, os.getpid())

    def close(self) -> None:
        """End the helpers; no kernel may be running on the pool."""
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def process_pool(threads: int) -> ThreadPool:
    """Return a pool that all callers in this process share, which runs until the process ends."""
    return _pool_of(os.getpid(), threads)


@cache
def _pool_of(_process: int, threads: int) -> ThreadPool:
    return ThreadPool(threads)


def _stop(engine: Any, memory: Any, address: int, process: int) -> None:
    """End the helpers of the process that started them; `memory` is theirs until then."""
    if os.getpid() == process and memory is not None:
        STOP(engine.get_function_address("stop"))(address)
