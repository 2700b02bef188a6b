"""One candidate in a measuring process: is it right, and how fast is it?"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.backend import Built, Loaded, backend
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.protocol import FIRST_SAMPLES, Control, Protocol, time_beside, time_call
from ansorpy.measure.verify.cases import Case, load_cases
from ansorpy.measure.verify.check import compare_all, glance, verify
from ansorpy.measure.verify.guard_pages import Bench, aligned_empty, extents, poison
from ansorpy.measure.verify.inputs import Array, Inputs, decode, storage
from ansorpy.measure.workers.worker_main import watch

WRITTEN_LINE: Final = 1  # of a page, at which what is written begins; what is read: line 0


@dataclass(frozen=True)
class Trial:
    """Check a kernel, time it, or both; `folder` holds the cases."""

    backend: str
    built: Built
    folder: str
    protocol: Protocol
    threads: int = 1
    best_s: float | None = None
    control: tuple[Built, float] | None = None  # what it is timed beside, and its usual cost

    def led_by(self, found: Measured) -> bool:
        """Return whether what was found is better than all before."""
        return self.best_s is None or found.cost_s < self.best_s


@dataclass(frozen=True)
class Checked:
    """What was asked for held; `errors` on the first case, per output, where all were run."""

    load_s: float
    check_s: float
    errors: tuple[float, ...] = ()


@dataclass(frozen=True)
class Memory:
    """Ordinary aligned memory for the buffers of a kernel: what it is timed on.

    What is written starts a line later in its page than what is read. Users' arrays may lie so;
    where a kernel loads right after it stores, it is slower there (docs/adr/0081).
    """

    buffers: dict[str, Buffer]
    arrays: dict[str, Array]

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where the buffers are, in order."""
        return tuple(array.ctypes.data for array in self.arrays.values())

    def array(self, name: str) -> Array:
        """Return a buffer."""
        return self.arrays[name]


@dataclass(frozen=True)
class Workplace:
    """What the candidates of one task share in one process: cases and memory.

    Inputs are put in place once: a kernel that changes one is found out, and then `clear` is due.
    """

    cases: tuple[Case, ...]
    constants: Inputs
    bench: Bench = field(default_factory=Bench)
    kept: dict[tuple[object, ...], Array] = field(default_factory=dict)
    controls: dict[Built, Control] = field(default_factory=dict)  # one, or none yet

    def memory(self, buffers: tuple[Buffer, ...], case: Case) -> Memory:
        """Return memory with the inputs of a case; all else is poison."""
        arrays = {buffer.name: self._array(buffer, case) for buffer in buffers}
        return Memory({buffer.name: buffer for buffer in buffers}, arrays)

    def clear(self) -> None:
        """Let go of all memory."""
        self.bench.clear()
        self.kept.clear()
        self.controls.clear()

    def _array(self, buffer: Buffer, case: Case) -> Array:
        given = {Scope.INPUT: case.inputs, Scope.CONSTANT: self.constants}.get(buffer.scope)
        key = (buffer, case.name if given is case.inputs else "")
        array = self.kept.get(key)
        if array is None:
            shape = extents(buffer)
            line = 0 if given is not None else WRITTEN_LINE
            array = aligned_empty(prod(shape), storage(buffer.dtype), line).reshape(shape)
            if given is not None:
                array[...] = given[buffer.name]
            if buffer.scope is not Scope.GLOBAL:  # else it is of this kernel only
                self.kept[key] = array
        if given is None:
            poison(array, buffer.dtype, "nan")
        return array


@lru_cache(maxsize=3)  # of one task: as asked for, and as it may be reformulated
def workplace(folder: str) -> Workplace:
    """Return what belongs to the task whose cases lie in a folder."""
    return Workplace(*load_cases(Path(folder)))


def check(job: Trial) -> Checked | Failed:
    """Run every case on one thread, between guard pages."""
    checked = _checked(job, _verify)
    return checked if isinstance(checked, Failed) else replace(checked, errors=_errors(job))


def look(job: Trial) -> Checked | Failed:
    """Run the first case on one thread, once, between guard pages."""
    return _checked(job, _glance)


def trial(job: Trial) -> Measured | Failed:
    """Check and time a kernel on one thread.

    The first case is run once, then the time is taken: only what beats the best so far has to
    pass everything. Whatever is to be delivered does so before the final race.
    """
    loaded, load_s = _load(job)
    start = time.perf_counter()
    failed = _glance(loaded, job)
    if failed is not None:
        return failed
    check_s = time.perf_counter() - start
    watch("time")
    start = time.perf_counter()
    place = workplace(job.folder)
    memory = place.memory(job.built.buffers, place.cases[0])
    loaded.run_ahead(memory.addresses)
    measured = _timed(loaded.bind(memory.addresses), job)
    run_s = time.perf_counter() - start
    if job.led_by(measured):
        start = time.perf_counter()
        failed = _verify(loaded, job)
        if failed is not None:
            return failed
        check_s += time.perf_counter() - start
    return replace(measured, check_s=check_s, run_s=run_s, load_s=load_s)


def time_parallel(job: Trial) -> Measured | Failed:
    """Time a checked kernel on several threads; its answers must still be right there.

    Only what beats the best so far has to answer every case.
    """
    loaded, load_s = _load(job)
    start = time.perf_counter()
    first, *others = workplace(job.folder).cases
    call, failed = _in_parallel(loaded, job, first)
    if failed is not None:
        return failed
    check_s = time.perf_counter() - start
    watch("time in parallel")
    start = time.perf_counter()
    measured = _timed(call, job)
    run_s = time.perf_counter() - start
    if job.led_by(measured):
        start = time.perf_counter()
        for case in others:
            _, failed = _in_parallel(loaded, job, case)
            if failed is not None:
                return failed
        check_s += time.perf_counter() - start
    return replace(measured, check_s=check_s, run_s=run_s, load_s=load_s)


def _timed(call: Callable[[], None], job: Trial) -> Measured:
    """Time a call, beside the control where there is one."""
    if job.control is None:
        protocol = replace(job.protocol, samples=FIRST_SAMPLES, attempts=2 * FIRST_SAMPLES)
        times, aborted = time_call(call, job.best_s, protocol)
        return Measured(times, aborted=aborted)
    control = _control(job, *job.control)
    times, aborted, slowdown = time_beside(control, call, job.best_s, job.protocol)
    return Measured(times, aborted=aborted, slowdown=slowdown)


def _control(job: Trial, built: Built, usual_s: float) -> Control:
    """Return a kernel that passed its trial; it is kept until another is asked for."""
    place = workplace(job.folder)
    if built not in place.controls:
        loaded = backend(job.backend).load(built)
        memory = place.memory(built.buffers, place.cases[0])
        loaded.run_ahead(memory.addresses)
        place.controls.clear()
        place.controls[built] = Control(_bound(loaded, memory, job.threads), usual_s)
    return place.controls[built]


def _bound(loaded: Loaded, memory: Memory, threads: int) -> Callable[[], None]:
    """Return a call that keeps its memory."""
    addresses = memory.addresses
    bound = loaded.bind_parallel(addresses, threads) if threads > 1 else loaded.bind(addresses)

    def call(_alive: object = (loaded, memory)) -> None:
        bound()

    return call


def _checked(job: Trial, how: Callable[[Loaded, Trial], Failed | None]) -> Checked | Failed:
    loaded, load_s = _load(job)
    start = time.perf_counter()
    failed = how(loaded, job)
    return failed or Checked(load_s, time.perf_counter() - start)


def _verify(loaded: Loaded, job: Trial) -> Failed | None:
    place = workplace(job.folder)
    failed = verify(loaded, job.built.buffers, place.cases, place.constants, watch, place.bench)
    if failed is not None:
        place.clear()
    return failed


def _glance(loaded: Loaded, job: Trial) -> Failed | None:
    place = workplace(job.folder)
    first = place.cases[0]
    failed = glance(loaded, job.built.buffers, first, place.constants, watch, place.bench)
    if failed is not None:
        place.clear()
    return failed


def _errors(job: Trial) -> tuple[float, ...]:
    """Return the largest finite distance of every output of the first case to its value."""
    loaded, _ = _load(job)
    place = workplace(job.folder)
    memory = place.memory(job.built.buffers, place.cases[0])
    loaded.run_ahead(memory.addresses)
    loaded.run(memory.addresses)
    found = []
    for one in place.cases[0].expected:
        got = decode(memory.array(one.name), one.dtype).astype(np.float64)
        with np.errstate(invalid="ignore"):
            apart = np.abs(got - one.value)
        found.append(float(np.max(apart, initial=0.0, where=np.isfinite(apart))))
    return tuple(found)


def _in_parallel(
    loaded: Loaded, job: Trial, case: Case
) -> tuple[Callable[[], None], Failed | None]:
    """Run one case twice on several threads; return the call and what is wrong with it."""
    watch("check in parallel")
    place = workplace(job.folder)
    memory = place.memory(job.built.buffers, case)
    loaded.run_ahead(memory.addresses)
    call = _bound(loaded, memory, job.threads)
    for _ in range(2):
        call()
        failed = compare_all(case, memory.array, memory.buffers)
        if failed is not None:
            place.clear()
            return call, Failed("wrong", f"on {job.threads} threads, {failed.message}")
    return call, None


def _load(job: Trial) -> tuple[Loaded, float]:
    watch("load")
    start = time.perf_counter()
    loaded = backend(job.backend).load(job.built)
    return loaded, time.perf_counter() - start
