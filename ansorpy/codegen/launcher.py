"""Runs native phases on OpenMP threads, as `drive` does on one. Importing this loads numba.

One function, compiled once and cached on disk, that calls whatever addresses it is given: like a
delivered kernel it is called once for all phases, and starts threads for those of several tasks
only. The process that imports this must not fork afterwards: libgomp aborts the child.
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
    """Run the phases of an order, the layout of which is that of `drive`."""
    rows = order + 8
    table = rows + 16 * word(order)
    for row in range(rows, table, 16):
        entry, tasks = word(row), word(row + 8)
        if tasks > 1:
            for task in prange(tasks):
                call_task(entry, table, task)  # type: ignore[call-arg]
        else:
            call_task(entry, table, 0)  # type: ignore[call-arg]


def use_threads(threads: int) -> None:
    """Set on how many threads later launches run, at most as many as the process may use."""
    most: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(threads, most))
