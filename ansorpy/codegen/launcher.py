"""Runs the tasks of any native phase on OpenMP threads. Importing this loads numba's front end.

One function, compiled once and cached on disk, that calls whatever address it is given. The
process that imports this must not fork afterwards: libgomp aborts the child.
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


@njit(types.void(types.int64, types.int64, types.int64), parallel=True, cache=True, nogil=True)
def launch(entry: int, buffers: int, tasks: int) -> None:
    """Run tasks 0 .. tasks - 1 of the function at `entry`, spread over the threads."""
    for task in prange(tasks):
        call_task(entry, buffers, task)  # type: ignore[call-arg]


def use_threads(threads: int) -> None:
    """Set on how many threads later launches run, at most as many as the process may use."""
    most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(threads, most))
