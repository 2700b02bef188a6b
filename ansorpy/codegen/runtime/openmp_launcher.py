"""Calls of compiled phases on OpenMP threads, as a delivered kernel runs them in numba.

One function, compiled once and cached on disk, takes any order of `native_launcher` (its pool is
not used) and starts threads for phases of several tasks only. Importing this module loads numba.
A process that has imported it must not fork: libgomp aborts the child.
"""

from typing import Any

import numba
from llvmlite import ir
from numba import config, njit, prange, types
from numba.extending import intrinsic

setattr(config, "THREADING_LAYER", "omp")  # noqa: B010 # workqueue aborts on concurrent launches and is slow to start


@intrinsic
def call_task(_context: Any, entry: Any, buffers: Any, task: Any) -> Any:
    """Call `void entry(buffers, task)`."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [i64, i64])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


def _word(_context: Any, address: Any) -> Any:
    """Return the int64 at an address."""

    def code(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), code


word: Any = intrinsic(_word)


@njit(types.void(types.int64), parallel=True, cache=True, nogil=True)
def launch(order: int) -> None:
    """Run the phase loop of an order."""
    rows = order + 16
    buffers = rows + 16 * word(order + 8)
    for row in range(rows, buffers, 16):
        entry, tasks = word(row), word(row + 8)
        if tasks > 1:
            for task in prange(tasks):
                call_task(entry, buffers, task)  # type: ignore[call-arg]
        else:
            call_task(entry, buffers, 0)  # type: ignore[call-arg]


def use_threads(threads: int) -> None:
    """Set the number of threads of later launches, at most those that the process may use."""
    most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(threads, most))
