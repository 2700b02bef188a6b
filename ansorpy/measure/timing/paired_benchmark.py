"""One process of a race: finalists and baselines timed in turns (a paired benchmark)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ansorpy.measure.backend import MachineCode, backend
from ansorpy.measure.timing.cold_weights import affordable
from ansorpy.measure.timing.interleave import interleave
from ansorpy.measure.timing.numpy_baseline import numpy_call
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.workplace import BoundKernel, workplace
from ansorpy.measure.verify.guard_pages import aligned_empty
from ansorpy.measure.verify.inputs import Array, Inputs
from ansorpy.measure.workers.worker_main import watch
from ansorpy.te.dag import Dag

NUMPY: Final = "numpy"
PAUSE_S: Final = 0.03  # seconds for which threads of OpenBLAS and libgomp may spin after a call


@dataclass(frozen=True)
class BenchmarkJob:
    """Kernels to time in turns, and NumPy's evaluation of the Dag `numpy` if there is one."""

    backend: str
    kernels: tuple[tuple[str, MachineCode], ...]
    folder: str
    sampling: SamplingOptions
    threads: int
    visits: int
    numpy: Dag | None


def benchmark(job: BenchmarkJob) -> dict[str, tuple[float, ...]]:
    """Return seconds per call by name, one sample per visit."""
    watch("race")
    place = workplace(job.folder)
    calls: dict[str, Callable[[], object]] = {}
    kernels: list[BoundKernel] = []  # the memory behind the addresses in the calls
    if job.numpy is not None:
        watch("the NumPy baseline")
        # NumPy first: BLAS starts its threads before an OpenMP runtime binds this one to a core.
        calls[NUMPY] = _numpy(job.numpy, {**place.cases[0].inputs, **place.constants})
        calls[NUMPY]()
        watch("race")
    for name, built in job.kernels:
        loaded = backend(job.backend).load(built)
        cold = affordable(job.sampling.cold_bytes, len(job.kernels))
        kernels.append(place.bind(loaded, built, place.cases[0], job.threads, cold))
        calls[name] = kernels[-1].call

    def pause(before: str, after: str) -> None:
        # Kernels share one thread runtime, whose spinning threads serve the next kernel as well.
        if job.threads > 1 and NUMPY in (before, after):
            time.sleep(PAUSE_S)

    return interleave(calls, job.visits, job.sampling, pause)


def _numpy(dag: Dag, arrays: Inputs) -> Callable[[], object]:
    function = numpy_call(dag)
    assert function is not None
    given = {name: _copied(array) for name, array in arrays.items()}
    return lambda: function(given)


def _copied(array: Array) -> Array:
    fresh = aligned_empty(array.size, array.dtype).reshape(array.shape)
    fresh[...] = array
    return fresh
