"""A race in a measuring process: finalists and baselines in turns."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ansorpy.measure.backend import Built, backend
from ansorpy.measure.timing.numpy_baseline import numpy_call
from ansorpy.measure.timing.protocol import Protocol, interleave
from ansorpy.measure.timing.trial import workplace
from ansorpy.measure.verify.guard_pages import aligned_empty
from ansorpy.measure.verify.inputs import Array, Inputs
from ansorpy.measure.workers.worker_main import watch
from ansorpy.te.dag import Dag

NUMPY: Final = "numpy"
PAUSE_S: Final = 0.03  # OpenBLAS and libgomp threads spin for up to this long after a call


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


def race(job: RaceJob) -> dict[str, tuple[float, ...]]:
    """Time finalists and baselines in turns; seconds per call, by name, one per visit."""
    watch("race")
    place = workplace(job.folder)
    calls: dict[str, Callable[[], object]] = {}
    kept: list[object] = []  # the addresses in the calls keep nothing alive
    if job.numpy is not None:
        watch("the NumPy baseline")
        # First: BLAS must have its threads before an OpenMP runtime binds this one to a core.
        calls[NUMPY] = _numpy(job.numpy, {**place.cases[0].inputs, **place.constants})
        calls[NUMPY]()
        watch("race")
    for name, built in job.kernels:
        loaded = backend(job.backend).load(built)
        memory = place.memory(built.buffers, place.cases[0])
        loaded.run_ahead(memory.addresses)
        kept.append((loaded, memory))
        calls[name] = (
            loaded.bind_parallel(memory.addresses, job.threads)
            if job.threads > 1
            else loaded.bind(memory.addresses)
        )

    def pause(before: str, after: str) -> None:
        # Kernels share one runtime: its threads spin for whoever is next, as they do for a user.
        if job.threads > 1 and NUMPY in (before, after):
            time.sleep(PAUSE_S)

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
