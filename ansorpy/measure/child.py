"""What the measuring processes run: the calls `MeasurePool` sends to its workers.

Everything here happens in a disposable process: it may hang, crash or be killed at any point.
"""

import pickle
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from mmap import mmap
from pathlib import Path
from typing import Final

from ansorpy.codegen.exported import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Buffer, Program, Scope
from ansorpy.measure.backend import Built, Loaded, backend
from ansorpy.measure.baseline import numpy_call
from ansorpy.measure.cases import Case, load_cases
from ansorpy.measure.check import Layout, compare_all, verify
from ansorpy.measure.daemon import LENGTH, read_exactly, write_all
from ansorpy.measure.fault import Recorder
from ansorpy.measure.guard import aligned_empty, extents, poison
from ansorpy.measure.inputs import Array, Inputs, storage
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.slot import Raised
from ansorpy.measure.stack import scribbler
from ansorpy.measure.timing import Protocol, interleave, time_call
from ansorpy.target import Target
from ansorpy.te.dag import Dag

NUMPY: Final = "numpy"
PAUSE_S: Final = 0.03  # OpenBLAS and libgomp threads spin for up to this long after a call
NEAR_BEST: Final = 1.1  # times the best: what may still turn out to be the fastest
TRACEBACK_CHARS: Final = 2_000


@dataclass(frozen=True)
class BuildJob:
    """Make machine code of a program, or of delivered source."""

    backend: str
    what: Program | Kernel | Export
    target: Target


@dataclass(frozen=True)
class BuildDone:
    """Machine code, and what it cost."""

    built: Built
    build_s: float


@dataclass(frozen=True)
class Trial:
    """Check a kernel, time it, or both; `folder` holds the cases."""

    backend: str
    built: Built
    folder: str
    protocol: Protocol
    threads: int = 1
    best_s: float | None = None


@dataclass(frozen=True)
class Checked:
    """Every case held."""

    load_s: float
    check_s: float


@dataclass(frozen=True)
class RaceJob:
    """Time kernels, and NumPy where `numpy` gives the Dag, in turns."""

    backend: str
    kernels: tuple[tuple[str, Built], ...]
    folder: str
    protocol: Protocol
    threads: int
    visits: int
    numpy: Dag | None


class _State:
    """Of one process."""

    recorder: Recorder | None = None
    phase = "start"


def warm(box: mmap) -> None:
    """Prepare, before any fork, what every child needs."""
    _State.recorder = Recorder(box)
    scribbler()


def serve(link: int, box: mmap) -> None:
    """Answer calls until the supervisor closes the link (EOFError)."""
    if _State.recorder is None:
        warm(box)
        assert _State.recorder is not None
    _State.recorder.arm()
    while True:
        (count,) = LENGTH.unpack(read_exactly(link, LENGTH.size))
        blob = pickle.dumps(_answer(read_exactly(link, count)))
        write_all(link, LENGTH.pack(len(blob)) + blob)


def _answer(request: bytes) -> object:
    _watch("start")
    try:
        function, argument = pickle.loads(request)
        module, _, name = function.partition(":")
        call = getattr(__import__(module, fromlist=[name]), name)
        return call(argument)
    except BaseException as error:  # noqa: BLE001 - the boundary of a process: all is answered
        trace = traceback.format_exc()[-TRACEBACK_CHARS:]
        return Raised(_State.phase, type(error).__name__, str(error)[:500], trace)


def _watch(phase: str, layout: Layout = ()) -> None:
    _State.phase = phase
    if _State.recorder is not None:
        _State.recorder.note(phase, layout)


def prepare(name: str) -> None:
    """Import the back end, where the supervisor has not done it."""
    backend(name)


def build(job: BuildJob) -> BuildDone:
    """Make machine code."""
    _watch("build")
    start = time.perf_counter()
    module = backend(job.backend)
    if isinstance(job.what, Kernel):
        built = module.build_source(job.what, job.target)
    else:
        built = module.build(job.what, job.target)
    return BuildDone(built, time.perf_counter() - start)


def check(job: Trial) -> Checked | Failed:
    """Run every case on one thread, between guard pages."""
    loaded, load_s = _load(job)
    start = time.perf_counter()
    cases, constants = _cases(job.folder)
    failed = verify(loaded, job.built.buffers, cases, constants, _watch)
    if failed is not None:
        return failed
    return Checked(load_s, time.perf_counter() - start)


def trial(job: Trial) -> Measured | Failed:
    """Check and time a kernel on one thread.

    The first case is checked, then the time is taken: what is slower than the best so far is
    spared the other cases. Whatever is to be delivered passes all of them before the final race.
    """
    loaded, load_s = _load(job)
    start = time.perf_counter()
    cases, constants = _cases(job.folder)
    failed = verify(loaded, job.built.buffers, cases[:1], constants, _watch)
    if failed is not None:
        return failed
    check_s = time.perf_counter() - start
    _watch("time")
    begun = time.perf_counter()
    memory = _memory(job.built.buffers, cases[0], constants)
    loaded.run_ahead(memory.addresses)
    times, aborted = time_call(loaded.bind(memory.addresses), job.best_s, job.protocol)
    run_s = time.perf_counter() - begun
    if not aborted and (job.best_s is None or min(times) < NEAR_BEST * job.best_s):
        start = time.perf_counter()
        failed = verify(loaded, job.built.buffers, cases[1:], constants, _watch)
        if failed is not None:
            return failed
        check_s += time.perf_counter() - start
    return Measured(times, check_s=check_s, run_s=run_s, aborted=aborted, load_s=load_s)


def time_parallel(job: Trial) -> Measured | Failed:
    """Time a checked kernel on several threads; its answers must still be right there."""
    loaded, load_s = _load(job)
    start = time.perf_counter()
    cases, constants = _cases(job.folder)
    _watch("check in parallel")
    for case in reversed(cases):  # the first one last: it is then the one that is timed
        memory = _memory(job.built.buffers, case, constants)
        loaded.run_ahead(memory.addresses)
        call = loaded.bind_parallel(memory.addresses, job.threads)
        for _ in range(2):
            call()
            failed = compare_all(case, memory.array, memory.buffers)
            if failed is not None:
                return Failed("wrong", f"on {job.threads} threads, {failed.message}")
    check_s = time.perf_counter() - start
    _watch("time in parallel")
    begun = time.perf_counter()
    times, aborted = time_call(call, job.best_s, job.protocol)
    run_s = time.perf_counter() - begun
    return Measured(times, check_s=check_s, run_s=run_s, aborted=aborted, load_s=load_s)


def race(job: RaceJob) -> dict[str, tuple[float, ...]]:
    """Time finalists and baselines in turns; seconds per call, by name, one per visit."""
    _watch("race")
    cases, constants = _cases(job.folder)
    calls: dict[str, Callable[[], object]] = {}
    kept: list[object] = []  # the addresses in the calls keep nothing alive
    if job.numpy is not None:
        # First: BLAS must have its threads before an OpenMP runtime binds this one to a core.
        calls[NUMPY] = _numpy(job.numpy, {**cases[0].inputs, **constants})
        calls[NUMPY]()
    for name, built in job.kernels:
        loaded = backend(job.backend).load(built)
        memory = _memory(built.buffers, cases[0], constants)
        loaded.run_ahead(memory.addresses)
        kept.append((loaded, memory))
        calls[name] = (
            loaded.bind_parallel(memory.addresses, job.threads)
            if job.threads > 1
            else loaded.bind(memory.addresses)
        )
    pause = (lambda: time.sleep(PAUSE_S)) if job.threads > 1 else (lambda: None)
    return interleave(calls, job.visits, job.protocol, pause)


def _numpy(dag: Dag, arrays: Inputs) -> Callable[[], object]:
    function = numpy_call(dag)
    assert function is not None
    given = {name: _copied(array) for name, array in arrays.items()}
    return lambda: function(given)


def _copied(array: Array) -> Array:
    fresh = aligned_empty(array.size, array.dtype).reshape(array.shape)
    fresh[...] = array
    return fresh


def _load(job: Trial) -> tuple[Loaded, float]:
    _watch("load")
    start = time.perf_counter()
    loaded = backend(job.backend).load(job.built)
    return loaded, time.perf_counter() - start


@lru_cache(maxsize=1)
def _cases(folder: str) -> tuple[tuple[Case, ...], Inputs]:
    return load_cases(Path(folder))


@dataclass(frozen=True)
class _Memory:
    """Ordinary aligned memory for the buffers of a kernel: what it is timed on."""

    buffers: Mapping[str, Buffer]
    arrays: Mapping[str, Array]
    addresses: tuple[int, ...]

    def array(self, name: str) -> Array:
        return self.arrays[name]


def _memory(buffers: Sequence[Buffer], case: Case, constants: Inputs) -> _Memory:
    arrays = {}
    for buffer in buffers:
        shape = extents(buffer)
        array = aligned_empty(prod(shape), storage(buffer.dtype)).reshape(shape)
        if buffer.scope is Scope.INPUT:
            array[...] = case.inputs[buffer.name]
        elif buffer.scope is Scope.CONSTANT:
            array[...] = constants[buffer.name]
        else:
            poison(array, buffer.dtype, "nan")
        arrays[buffer.name] = array
    addresses = tuple(array.ctypes.data for array in arrays.values())
    return _Memory({buffer.name: buffer for buffer in buffers}, arrays, addresses)
