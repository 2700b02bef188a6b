"""One process of a race: finalists and baselines timed in turns (a paired benchmark)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ansorpy.measure.backend import MachineCode, backend
from ansorpy.measure.timing.cold_weights import affordable, copies, in_turns
from ansorpy.measure.timing.each_size import EachSize
from ansorpy.measure.timing.interleave import interleave
from ansorpy.measure.timing.numpy_baseline import numpy_call
from ansorpy.measure.timing.own_kernel import PEER, PlacedKernel, arguments, timed_call
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.workplace import BoundKernel, Workplace, workplace
from ansorpy.measure.verify.cases import Case, timed_cases
from ansorpy.measure.verify.inputs import Inputs
from ansorpy.measure.workers.worker_main import watch
from ansorpy.te.dag import Dag
from ansorpy.te.dims import at_sizes, dims_of, ends_of

SizedTimes = tuple[tuple[float, ...], ...]  # by size and contestant, in seconds

NUMPY: Final = "numpy"
NUMPY_PHASE: Final = "the NumPy baseline"
PAUSE_S: Final = 0.03  # seconds for which threads of OpenBLAS and libgomp may spin after a call
WARM_S: Final = 0.2  # seconds of untimed calls of a library: the first ones get memory and threads
KEPT_S: Final = 0.2  # seconds of a first run up to which a library is timed in turns in any case
PEER_PAUSE_S: Final = 0.06  # likewise threads of ONNX Runtime


@dataclass(frozen=True)
class BenchmarkJob:
    """Kernels to time in turns, with NumPy's evaluation of `numpy` if given, and guests."""

    backend: str
    kernels: tuple[tuple[str, MachineCode], ...]
    folder: str
    sampling: SamplingOptions
    threads: int
    visits: int
    numpy: Dag | None
    own: tuple[tuple[str, PlacedKernel], ...] = ()


@dataclass(frozen=True)
class EachSizeJob:
    """A benchmark to repeat at single sizes of the dims of a Dag, in their order."""

    at: BenchmarkJob
    dag: Dag
    sizes: tuple[tuple[int, ...], ...]


def benchmark(job: BenchmarkJob) -> dict[str, tuple[float, ...]]:
    """Return seconds per call by name, one sample per visit."""
    return _in_turns(job, workplace(job.folder))


def benchmark_each_size(job: EachSizeJob) -> SizedTimes:
    """Return the fastest sample at each size, in seconds per call: the kernel's, then NumPy's."""
    place, largest = workplace(job.at.folder), ends_of(job.dag)[1]
    whole = next(case for case in place.cases if case.sizes == tuple(largest.values()))
    names = [name for name, _ in job.at.kernels] + [NUMPY] * (job.at.numpy is not None)
    found = []
    for sizes in job.sizes:
        dag = at_sizes(job.dag, dict(zip(largest, sizes, strict=True)))
        shapes = {node.name: tuple(map(slice, node.shape)) for node in dag.placeholders}
        inputs = {name: np.ascontiguousarray(whole.inputs[name][at]) for name, at in shapes.items()}
        case = Case(f"{sizes}", inputs, (), constant=whole.constant, sizes=sizes)
        times_s = _in_turns(job.at, Workplace((case,), place.constants))
        found.append(tuple(min(times_s[name]) for name in names))
    return tuple(found)


def _in_turns(job: BenchmarkJob, place: Workplace) -> dict[str, tuple[float, ...]]:
    watch("race")
    calls: dict[str, Callable[[], object]] = {}
    kernels: list[BoundKernel] = []  # the memory behind the addresses in the calls
    if job.numpy is not None:
        watch(NUMPY_PHASE)
        # NumPy first: BLAS starts its threads before an OpenMP runtime binds this one to a core.
        calls[NUMPY] = numpy_turns(job, place)
        calls[NUMPY]()
    for name, own in job.own:
        calls[name] = timed_call(own, place.cases[0].inputs)
    guests = frozenset(calls)
    watch("race")
    for name, built in job.kernels:
        loaded = backend(job.backend).load(built)
        cold = affordable(job.sampling.cold_bytes, len(job.kernels))
        kernels.append(place.bind_timed(loaded, built, job.threads, cold, job.sampling.cores))
        calls[name] = kernels[-1].call

    libraries = [name for name in calls if name.startswith(PEER)]
    for name in libraries:
        _warm(calls[name])  # once nothing else allocates memory
    if libraries and job.threads > 1:
        time.sleep(PEER_PAUSE_S)

    def pause(before: str, after: str) -> None:
        # Kernels share one thread runtime, whose spinning threads serve the next kernel as well.
        if job.threads > 1 and guests & {before, after}:
            time.sleep(PEER_PAUSE_S if before.startswith(PEER) else PAUSE_S)

    # The first run of a library may be many times its usual time: it takes memory, or its threads
    # meet another load.
    kept_s = dict.fromkeys(libraries, KEPT_S)
    return interleave(calls, job.visits, job.sampling, pause, kept_s=kept_s)


def _warm(call: Callable[[], object]) -> None:
    """Call a library until it has the memory that its results take in turns."""
    end_s = time.perf_counter() + WARM_S
    while time.perf_counter() < end_s:
        call()


def numpy_turns(job: BenchmarkJob, place: Workplace) -> Callable[[], object]:
    """Return NumPy's evaluation of the timed cases, which goes round copies of weights, too."""
    cases = timed_cases(place.cases)
    calls = [_numpy_turns(job, place, case) for case in cases]
    return calls[0] if len(calls) == 1 else EachSize(calls, [case.weight for case in cases])


def _numpy_turns(job: BenchmarkJob, place: Workplace, case: Case) -> Callable[[], object]:
    assert job.numpy is not None
    dims = [one.name for one in dims_of(job.numpy)]
    function = numpy_call(at_sizes(job.numpy, dict(zip(dims, case.sizes, strict=True))))
    assert function is not None
    arrays = {**case.inputs, **place.constants}
    given = dict(zip(arrays, arguments(arrays, list(arrays)), strict=True))
    weights = {name: given[name] for name in (*case.constant, *place.constants)}
    cold = affordable(job.sampling.cold_bytes, len(job.kernels) + 1)
    others = copies(weights, cold) if cold and weights else []

    def call(arrays: Inputs) -> None:
        function(arrays)

    return in_turns([partial(call, given | other) for other in ({}, *others)])
