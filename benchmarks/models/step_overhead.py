"""The cost of a step of a bundle: a chain of small kernels, run by the native driver.

    python -m benchmarks.models.step_overhead [--steps 200] [--threads 2]

A step adds a number to floats, in one task per thread; several kernels alternate, so that
successive steps run different code. Two figures, both of the least time of many runs divided by the
steps, with goals of 0.3 us and 2 us:

call        on one thread, 16 floats per task: the driver's call and the kernel's table of
            addresses, the work included
hand-over   on several threads, tasks of about a microsecond: the time beyond one thread's time
            divided by the threads. Tasks of nanoseconds are no measure: the caller has done them
            all before another thread looks.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.bundle.container import write_bundle
from ansorpy.bundle.load import load_model
from ansorpy.bundle.plan import ModelKernel, ModelPlan
from ansorpy.bundle.steps import KernelStep
from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.shared_library import build
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.graph.graph import Output, ValueInfo
from ansorpy.loopir.nodes import Buffer, For, LoopKind, Phase, Program, Scope, Store, Tile
from ansorpy.measure.host import local_target
from benchmarks.machine import cpu_model

LANES: Final = 16
KINDS: Final = 8  # kernels of other sizes, so that successive steps run different code
TINY: Final = 1  # vectors of a task
LONG: Final = 1024  # vectors of a task: about a microsecond, in the second cache
CALL_US: Final = 0.3  # goal
HAND_OVER_US: Final = 2.0  # goal, on two threads
RUNS: Final = 2000


def kernel(tasks: int, vectors: int, number: int) -> ModelKernel:
    """Return a kernel that adds a number to vectors, `vectors` in each of its tasks."""
    row = Binary("add", Binary("mul", Var("i"), _int(vectors)), Var("j"))
    at: Expr = Binary("add", Binary("mul", row, _int(LANES)), Var("l"))
    value = Binary("add", Read("A", (at,), "float32"), Const(1.0 + number, "float32"))
    body = Tile((), (("l", LANES),), Store(("B",), (at,), (value,)))
    loop = For("i", _int(tasks), For("j", _int(vectors), body), LoopKind.PARALLEL)
    shape = (_int(tasks * vectors * LANES),)
    program = Program(
        "add",
        (Buffer("A", "float32", shape, Scope.INPUT), Buffer("B", "float32", shape, Scope.OUTPUT)),
        (Phase("add", loop),),
    )
    export = Export(program, ("A",), ("B",), {}, f"ansorpy_step{tasks}_{vectors}_{number}")
    return ModelKernel(f"add{number}", build(export, local_target(tasks)))


def _int(value: int) -> Const:
    return Const(value, "int64")


def chain(steps: int, tasks: int, vectors: int) -> ModelPlan:
    """Return a model of `steps` kernels in a row."""
    kernels = tuple(kernel(tasks, vectors, number) for number in range(KINDS))
    names = [f"v{number}" for number in range(steps + 1)]
    return ModelPlan(
        name="chain",
        values={name: ValueInfo(name, (tasks * vectors * LANES,), "float32") for name in names},
        inputs=(names[0],),
        outputs=(Output("y", names[-1]),),
        weights={},
        views={},
        steps=tuple(
            KernelStep(kernels[number % KINDS].name, (before,), (after,))
            for number, (before, after) in enumerate(pairwise(names))
        ),
        kernels=kernels,
        threads=tasks,
    )


def step_us(steps: int, tasks: int, vectors: int, threads: int) -> float:
    """Return the least time of a step in microseconds."""
    x, y = (np.zeros(tasks * vectors * LANES, np.float32) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        path = write_bundle(Path(folder) / "chain.zip", chain(steps, tasks, vectors))
        with load_model(path, threads=threads) as model:
            call = model.prepare(x, out=y)
            least_s = min(_seconds(call) for _ in range(RUNS))
    wanted = sum(1.0 + number % KINDS for number in range(steps))
    assert (y == np.float32(wanted)).all(), "the chain computes another sum"
    return least_s / steps * 1e6


def _seconds(call: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    call()
    return time.perf_counter() - begin_s


def main(words: Sequence[str] | None = None) -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description="Measure the cost of a step of a bundle.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(words)
    steps, threads = options.steps, options.threads
    print(f"{steps} steps, {KINDS} kernels, {cpu_model()}")
    call_us = step_us(steps, 1, TINY, 1)
    print(f"call: {call_us:.3f} us; goal {CALL_US} us {_verdict(call_us, CALL_US)}")
    alone_us, shared_us = (step_us(steps, threads, LONG, n) for n in (1, threads))
    over_us = shared_us - alone_us / threads
    print(
        f"hand-over: {over_us:.3f} us ({alone_us:.3f} us on 1 thread, {shared_us:.3f} us on"
        f" {threads}); goal {HAND_OVER_US} us {_verdict(over_us, HAND_OVER_US)}"
    )


def _verdict(figure: float, goal: float) -> str:
    return "met" if figure <= goal else "missed"


if __name__ == "__main__":
    main()
