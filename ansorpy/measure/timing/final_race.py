"""The final race: check finalists and baselines, then time them in turns in fresh processes."""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import MachineCode
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.batch import BatchMeasurer
from ansorpy.measure.timing.delivered_call import sealed_files
from ansorpy.measure.timing.interleave import PairedTimes, rivals
from ansorpy.measure.timing.local_slot import LocalSlot
from ansorpy.measure.timing.numpy_baseline import numpy_call
from ansorpy.measure.timing.own_kernel import OWN, PEER, OwnCheck, OwnKernel, PlacedKernel
from ansorpy.measure.timing.paired_benchmark import NUMPY, NUMPY_PHASE, BenchmarkJob
from ansorpy.measure.timing.peers.guest import peers_of
from ansorpy.measure.timing.peers.translate import Unmapped
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.workers.failure_kinds import failed_run
from ansorpy.measure.workers.replies import Reply, Returned
from ansorpy.measure.workers.worker import Worker
from ansorpy.te.dag import Dag
from ansorpy.te.dims import dims_of

OWN_CHECK: Final = "ansorpy.measure.timing.own_kernel:check"
BENCHMARK: Final = "ansorpy.measure.timing.paired_benchmark:benchmark"
PEER_S: Final = 20.0  # seconds for the import of a library and its calls with all cases
SLOW_START_S: Final = 1.0  # seconds of a check, above which a library is in one process only
NO_TIME: Final = "no time"
NO_COPIES: Final = (
    "copies of it in one process would take turns, so it has no throughput to compare"
)


@dataclass(frozen=True, slots=True)
class CheckedCode:
    """Machine code that passed its cases; `errors` of the first case, if every case was run."""

    built: MachineCode
    errors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CheckedLibraries:
    """Installed libraries by name in a race: those that passed the cases, and failures of others.

    `slow` are those that start slowly: they run in the first process of a race only.
    """

    guests: Mapping[str, PlacedKernel]
    failed: Mapping[str, Failed]
    slow: frozenset[str]


NONE: Final = CheckedLibraries({}, {}, frozenset())


def race(
    batches: BatchMeasurer,
    slot: LocalSlot,
    dag: Dag,
    contestants: Mapping[str, Program | Kernel],
    numpy: bool,
    first_case_s: Mapping[str, float],
    late: Callable[[], bool],
    beside: Callable[[], object],
    own: Sequence[OwnKernel] = (),
    libraries: CheckedLibraries = NONE,
) -> dict[str, PairedTimes | Failed]:
    """Build and check the contestants, then race them; as `RacePool.race`.

    If a process with guests fails, NumPy, libraries and kernels of the user's own, it races again
    without the guest whose call the message names, else without the first; the guest's entry is the
    failure.
    """
    names = list(contestants)
    settings = slot.settings
    with ThreadPoolExecutor(1, "beside") as thread:
        prepared = thread.submit(beside)
        checked = batches.check(
            list(contestants.values()), [first_case_s.get(name) for name in names],
            settings.source_timeout_s,
        )  # fmt: skip
        prepared.result()
    results: dict[str, PairedTimes | Failed] = {}
    kernels: dict[str, CheckedCode] = {}
    for name, verdict in zip(names, checked, strict=True):
        if isinstance(verdict, Failed):
            results[name] = verdict
        else:
            done, report = verdict
            kernels[name] = CheckedCode(done.built, report.errors)
    guests = _checked_own(slot, dag, own, results)
    results |= libraries.failed
    slot.workers.start_caller()
    batches.queue.wait_quiet()
    with slot.reserve():
        rival = dag if numpy and numpy_call(dag) is not None else None
        if rival is not None and settings.sampling.cores:
            rival, results[NUMPY] = None, Failed("build", NO_COPIES)
        processes, sampling = settings.race_processes, settings.sampling
        results |= race_checked(
            slot,
            kernels,
            rival,
            late,
            processes,
            sampling,
            {**guests, **libraries.guests},
            libraries.slow,
        )
    order = [*names, *_own_names(own), *libraries.guests, *libraries.failed, NUMPY]
    return {name: results[name] for name in order if name in results}


def _own_names(own: Sequence[OwnKernel]) -> list[str]:
    """Return the names of own kernels in a race."""
    return [f"{OWN}{one.name}" for one in own]


def _checked_own(
    slot: LocalSlot, dag: Dag, own: Sequence[OwnKernel], results: dict[str, PairedTimes | Failed]
) -> dict[str, PlacedKernel]:
    """Return the own kernels that pass every case, by name; other failures go to `results`."""
    guests = {}
    for name, one in zip(_own_names(own), own, strict=True):
        checked = _checked(slot, dag, one, slot.settings.race_timeout_s, nans=True)
        if isinstance(checked, PlacedKernel):
            guests[name] = checked
        else:
            results[name] = checked
    return guests


def checked_libraries(slot: LocalSlot, dag: Dag, late: Callable[[], bool]) -> CheckedLibraries:
    """Return the installed libraries after a check of each; once it is late, none is checked."""
    guests, failed, slow = dict[str, PlacedKernel](), dict[str, Failed](), set[str]()
    peers = {} if dims_of(dag) else peers_of(dag, slot.workers.threads)
    for version, library in peers.items():
        name, begin_s = f"{PEER}{version}", time.monotonic()
        if slot.settings.sampling.cores:
            checked: PlacedKernel | Failed = Failed("build", NO_COPIES)
        elif isinstance(library, Unmapped):
            checked = Failed("build", library.reason)
        elif late():
            checked = Failed("build", NO_TIME)
        else:
            checked = _checked(slot, dag, library, PEER_S, nans=False)
        if isinstance(checked, Failed):
            failed[name] = checked
            continue
        guests[name] = checked
        if time.monotonic() - begin_s > SLOW_START_S:
            slow.add(name)
    return CheckedLibraries(guests, failed, frozenset(slow))


def _checked(
    slot: LocalSlot, dag: Dag, kernel: OwnKernel, timeout_s: float, nans: bool
) -> PlacedKernel | Failed:
    """Return a guest as files that passed the cases in a fresh process, or its failure."""
    inputs = tuple(node.name for node in dag.placeholders)
    placed = PlacedKernel(kernel.name, str(sealed_files(slot, kernel.files) / kernel.main), inputs)
    job = OwnCheck(placed, str(slot.cases.of(None)), nans)
    with slot.reserve(), slot.workers.racers(1) as (racer,):
        fresh = racer is slot.workers.slot
        reply = racer.call(OWN_CHECK, job, timeout_s, fresh=fresh)
    if isinstance(reply, Returned) and reply.value is None:
        return placed
    return failed_run(reply, 0.0)


def race_checked(
    slot: LocalSlot,
    kernels: Mapping[str, CheckedCode],
    numpy: Dag | None,
    late: Callable[[], bool],
    processes: int,
    sampling: SamplingOptions,
    own: Mapping[str, PlacedKernel] = MappingProxyType({}),
    once: Set[str] = frozenset(),
) -> dict[str, PairedTimes | Failed]:
    """Time kernels, and NumPy's evaluation of a Dag, in turns in several fresh processes.

    A contestant that is clearly beaten in one process does not run in the later ones.

    Args:
        own: the guests: kernels of the user's own, and libraries.
        once: guests that run in the first process only.
    """
    phases = {name: guest.phase for name, guest in own.items()}
    phases |= {} if numpy is None else {NUMPY: NUMPY_PHASE}
    everyone = [*kernels, *phases]
    runs: dict[str, list[tuple[float, ...]]] = {}
    lost: dict[str, PairedTimes | Failed] = {}
    left = everyone
    count = 0 if not everyone else 1 if late() else processes
    with slot.workers.racers(count) as racers:
        for number, racer in enumerate(racers):
            if number and late():
                break
            reply = _run(slot, racer, kernels, numpy, left, sampling, own)
            while not isinstance(reply, Returned) and (here := [n for n in left if n in phases]):
                failure = failed_run(reply, 0.0)
                guest = next((n for n in here if phases[n] in failure.message), here[0])
                lost[guest] = failure
                runs.pop(guest, None)
                left = [name for name in left if name != guest]
                reply = _run(slot, racer, kernels, numpy, left, sampling, own)
            if not isinstance(reply, Returned):
                return dict.fromkeys(everyone, failed_run(reply, 0.0))
            times: Mapping[str, tuple[float, ...]] = reply.value
            if set(times) != set(left) or not all(map(_is_timed, times.values())):
                failed = Failed("crash", "race: no times of all contestants", reply.excerpt)
                return dict.fromkeys(everyone, failed)
            for name, found in times.items():
                runs.setdefault(name, []).append(found)
            # A kernel that is beaten by guests only is still our best.
            ours = {name: found for name, found in times.items() if name not in phases}
            stay = {*rivals(times), *(rivals(ours) if ours else ())}
            left = [name for name in left if name in stay and name not in once]
    raced = {
        name: PairedTimes(tuple(found), kernels[name].errors if name in kernels else ())
        for name, found in runs.items()
    }
    return lost | raced


def _run(
    slot: LocalSlot,
    racer: Worker,
    kernels: Mapping[str, CheckedCode],
    numpy: Dag | None,
    left: Sequence[str],
    sampling: SamplingOptions,
    own: Mapping[str, PlacedKernel],
) -> Reply:
    """Time the contestants that are `left` in one process."""
    settings, workers = slot.settings, slot.workers
    job = BenchmarkJob(
        settings.backend,
        tuple((name, one.built) for name, one in kernels.items() if name in left),
        str(slot.cases.of(None)),
        sampling,
        workers.threads,
        settings.race_visits,
        numpy if NUMPY in left else None,
        tuple((name, one) for name, one in own.items() if name in left),
    )
    return racer.call(BENCHMARK, job, settings.race_timeout_s, fresh=racer is workers.slot)


def _is_timed(times_s: tuple[float, ...]) -> bool:
    """Return whether there are times, and all are possible."""
    return bool(times_s) and min(times_s) > 0
