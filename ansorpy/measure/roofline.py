"""Peaks of this machine: fused multiply-adds and bytes per second, measured.

Compare a kernel with figures of the same run only: clocks drift.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.host_jit import compile_here
from ansorpy.measure.verify.guard_pages import aligned_empty
from ansorpy.target import Target
from ansorpy.te.dag import Dag

UNROLL: Final = 4
FMA_STEPS: Final = 400_000  # per sample and thread: some milliseconds
SHORT_STEPS: Final = 40_000  # half a millisecond: other work on the core hardly meets all samples
SHORT_SAMPLES: Final = 20
MATRICES: Final = "amx"  # features whose instructions are not bound by vector multiply-adds
_TYPES: Final = {"float32": ("float", "f32"), "float64": ("double", "f64")}


def peak_flop_per_s(target: Target, dtype: str, samples: int, steps: int = FMA_STEPS) -> float:
    """Return floating-point operations per second of independent vector FMAs in registers."""
    lanes = target.lanes(dtype)
    chains = 24 if target.tile_registers >= 32 else 12
    element = _TYPES[dtype][0]
    engine, address = _compiled(_fma_ir(lanes, chains, *_TYPES[dtype]))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
    function = prototype(address)
    size = 4 if element == "float" else 8
    areas = [aligned_empty(chains * lanes * size, np.dtype(np.uint8)) for _ in range(target.cores)]
    for area in areas:
        area.fill(0)
    jobs = [partial(function, steps, area.ctypes.data) for area in areas]
    seconds = _fastest(jobs, samples)
    del engine
    return target.cores * steps * UNROLL * chains * lanes * 2 / seconds


def core_peak(target: Target) -> float:
    """Return the float32 operations per second of one core, measured beside other work."""
    return peak_flop_per_s(replace(target, cores=1), "float32", SHORT_SAMPLES, SHORT_STEPS)


def attainable_flop_per_s(dag: Dag, target: Target, core_flop_per_s: float) -> float:
    """Return the operations per second that no kernel of a Dag exceeds, 0.0 if unknown.

    Args:
        core_flop_per_s: result of `core_peak`; a vector holds more elements of narrower types.
    """
    dtypes = {node.dtype for node in dag.placeholders}
    dtypes |= {dtype for node in dag.computes for dtype in node.dtypes}
    least_bytes = min(SIZE_BYTES[dtype] for dtype in dtypes)
    if least_bytes < SIZE_BYTES["float32"] and any(f.startswith(MATRICES) for f in target.features):
        return 0.0
    return core_flop_per_s * target.cores * SIZE_BYTES["float32"] / least_bytes


def copy_bytes_per_s(threads: int, working_set_bytes: int, samples: int) -> float:
    """Return bytes read plus bytes written per second while copying."""
    half = max(64, working_set_bytes // 2 // threads // 64 * 64)
    loops = max(1, (64 << 20) // (2 * half))  # small sets: enough work to time

    def job(source: Any, destination: Any) -> Callable[[], None]:
        def run() -> None:
            for _ in range(loops):
                np.copyto(destination, source)

        return run

    jobs = []
    for _ in range(threads):
        pair = [aligned_empty(half // 8, np.dtype(np.float64)) for _ in range(2)]
        for array in pair:
            array.fill(1.0)
        jobs.append(job(*pair))
    return threads * loops * 2 * half / _fastest(jobs, samples)


def _fastest(jobs: Sequence[Callable[[], object]], samples: int) -> float:
    """Return the least wall time of running all jobs at once, one thread each."""
    best = float("inf")
    for _ in range(samples):
        threads = [threading.Thread(target=job) for job in jobs[1:]]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        jobs[0]()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return best


def _fma_ir(lanes: int, chains: int, element: str, suffix: str) -> str:
    vector = f"<{lanes} x {element}>"
    fma = f"@llvm.fma.v{lanes}{suffix}"
    phis, steps, stores = [], [], []
    for c in range(chains):
        phis.append(f"%c{c}.0 = phi {vector} [%x, %entry], [%c{c}.{UNROLL}, %loop]")
        stores.append(
            f"%p{c} = getelementptr {vector}, ptr %area, i64 {c}\n"
            f"store {vector} %c{c}.{UNROLL}, ptr %p{c}, align 64"
        )
    for u in range(UNROLL):
        for c in range(chains):
            args = f"{vector} %x, {vector} %x, {vector} %c{c}.{u}"
            steps.append(f"%c{c}.{u + 1} = call {vector} {fma}({args})")
    lines = [
        f"declare {vector} {fma}({vector}, {vector}, {vector})",
        "define void @kernel(i64 %n, ptr %area) {",
        "entry:",
        f"%x = load {vector}, ptr %area, align 64",
        "br label %loop",
        "loop:",
        "%i = phi i64 [0, %entry], [%next, %loop]",
        *phis,
        *steps,
        "%next = add i64 %i, 1",
        "%more = icmp slt i64 %next, %n",
        "br i1 %more, label %loop, label %exit",
        "exit:",
        *stores,
        "ret void",
        "}",
    ]
    return "\n".join(lines)


def _compiled(text: str) -> tuple[Any, int]:
    engine = compile_here(text, opt=3)
    return engine, engine.get_function_address("kernel")
