"""Checks and timing of one candidate, in a measuring process."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ansorpy.measure.backend import CallableCode, MachineCode, backend
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.protocols import Checked
from ansorpy.measure.timing.cold_weights import affordable
from ansorpy.measure.timing.drift import FIRST_SAMPLES, Reference, time_with_reference
from ansorpy.measure.timing.sampling import SamplingOptions, time_call
from ansorpy.measure.timing.workplace import BoundKernel, workplace
from ansorpy.measure.verify.cases import Case
from ansorpy.measure.verify.check import compare_all, glance, verify
from ansorpy.measure.verify.inputs import decode
from ansorpy.measure.workers.worker_main import watch

KERNELS: Final = 2  # kernels with copies of their weights at once: candidate and reference


@dataclass(frozen=True)
class Trial:
    """Machine code to check, to time, or both; `folder` holds the cases."""

    backend: str
    built: MachineCode
    folder: str
    sampling: SamplingOptions
    threads: int = 1
    best_s: float | None = None
    reference: tuple[MachineCode, float] | None = None  # the reference kernel and its usual cost

    def led_by(self, outcome: Measured) -> bool:
        """Return whether an outcome is better than all before."""
        return self.best_s is None or outcome.cost_s < self.best_s


def check(job: Trial) -> Checked | Failed:
    """Run every case on one thread, between guard pages."""
    checked = _checked(job, _verify)
    return checked if isinstance(checked, Failed) else replace(checked, errors=_errors(job))


def glance_at(job: Trial) -> Checked | Failed:
    """Run the first case on one thread, once, between guard pages."""
    return _checked(job, _first_case)


def trial(job: Trial) -> Measured | Failed:
    """Check and time a kernel on one thread.

    The first case is run once before the timing. Only a new leader has to pass every case;
    finalists do so again before the final race.
    """
    loaded, load_s = _load(job)
    start = time.perf_counter()
    failed = _first_case(loaded, job)
    if failed is not None:
        return failed
    check_s = time.perf_counter() - start
    watch("time")
    start = time.perf_counter()
    place = workplace(job.folder)
    bound = place.bind_timed(
        loaded, job.built, cold_bytes=affordable(job.sampling.cold_bytes, KERNELS)
    )
    measured = _timed(bound.call, job)
    run_s = time.perf_counter() - start
    if job.led_by(measured):
        start = time.perf_counter()
        failed = _verify(loaded, job)
        if failed is not None:
            return failed
        check_s += time.perf_counter() - start
    return replace(measured, check_s=check_s, run_s=run_s, load_s=load_s)


def time_parallel(job: Trial) -> Measured | Failed:
    """Time a checked kernel on several threads, where its results must be right as well.

    The threads belong to one call, or to copies side by side (`SamplingOptions.cores`). Only a
    new leader has to pass every case.
    """
    loaded, load_s = _load(job)
    start = time.perf_counter()
    first, *others = workplace(job.folder).cases
    cold_bytes = affordable(job.sampling.cold_bytes, KERNELS)
    bound, failed = _in_parallel(loaded, job, first, cold_bytes)
    if failed is not None:
        return failed
    check_s = time.perf_counter() - start
    if first.sizes:
        cores = job.sampling.cores
        place = workplace(job.folder)
        bound = place.bind_timed(loaded, job.built, job.threads, cold_bytes, cores)
    watch("time in parallel")
    start = time.perf_counter()
    measured = _timed(bound.call, job)
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
    """Time a call, beside the reference kernel if there is one."""
    if job.reference is None:
        options = replace(job.sampling, samples=FIRST_SAMPLES, attempts=2 * FIRST_SAMPLES)
        times, aborted = time_call(call, job.best_s, options)
        return Measured(times, aborted=aborted)
    reference = _reference(job, *job.reference)
    times, aborted, slowdown = time_with_reference(reference, call, job.best_s, job.sampling)
    return Measured(times, aborted=aborted, slowdown=slowdown)


def _reference(job: Trial, built: MachineCode, usual_s: float) -> Reference:
    """Return the reference kernel as a call; a process keeps the last one."""
    place = workplace(job.folder)
    if built not in place.references:
        loaded = backend(job.backend).load(built)
        cold = affordable(job.sampling.cold_bytes, KERNELS)
        cores = job.sampling.cores
        bound = place.bind_timed(loaded, built, job.threads, cold, cores)
        place.references.clear()
        place.references[built] = Reference(bound.call, usual_s), bound
    return place.references[built][0]


def _checked(job: Trial, how: Callable[[CallableCode, Trial], Failed | None]) -> Checked | Failed:
    loaded, load_s = _load(job)
    start = time.perf_counter()
    failed = how(loaded, job)
    return failed or Checked(load_s, time.perf_counter() - start)


def _verify(loaded: CallableCode, job: Trial) -> Failed | None:
    place = workplace(job.folder)
    failed = verify(loaded, job.built.buffers, place.cases, place.constants, watch, place.guarded)
    if failed is not None:
        place.clear()
    return failed


def _first_case(loaded: CallableCode, job: Trial) -> Failed | None:
    place = workplace(job.folder)
    first = place.cases[0]
    failed = glance(loaded, job.built.buffers, first, place.constants, watch, place.guarded)
    if failed is not None:
        place.clear()
    return failed


def _errors(job: Trial) -> tuple[float, ...]:
    """Return the largest finite error of every output of the first case."""
    loaded, _ = _load(job)
    place = workplace(job.folder)
    bound = place.bind(loaded, job.built, place.cases[0])
    bound.call()
    errors = []
    for one in place.cases[0].expected:
        region: Any = (*place.cases[0].part(one.name), ...)
        stored = bound.memory.array(one.name)[region]
        got = decode(stored, one.dtype).astype(np.float64)
        with np.errstate(invalid="ignore"):
            apart = np.abs(got - one.value)
        errors.append(float(np.max(apart, initial=0.0, where=np.isfinite(apart))))
    return tuple(errors)


def _in_parallel(
    loaded: CallableCode, job: Trial, case: Case, cold_bytes: int = 0
) -> tuple[BoundKernel, Failed | None]:
    """Run one case twice on several threads; return the bound kernel and its failure, if any."""
    watch("check in parallel")
    place = workplace(job.folder)
    cores = job.sampling.cores
    bound = place.bind(loaded, job.built, case, job.threads, cold_bytes, cores)
    results = [bound.memory.arrays, *(bound.copies if cores else ())]
    place_of_run = f"in {len(cores)} copies at once" if cores else f"on {job.threads} threads"
    for _ in range(2):
        bound.call()
        for arrays in results:
            failed = compare_all(case, arrays.__getitem__, bound.memory.buffers)
            if failed is not None:
                place.clear()
                return bound, Failed("wrong", f"{place_of_run}, {failed.message}")
    return bound, None


def _load(job: Trial) -> tuple[CallableCode, float]:
    watch("load")
    start = time.perf_counter()
    loaded = backend(job.backend).load(job.built)
    return loaded, time.perf_counter() - start
