"""The heat, the final race process by process, and the call of what is delivered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import Built
from ansorpy.measure.draft import Draft
from ansorpy.measure.outcome import Failed
from ansorpy.measure.sandbox.seals import create
from ansorpy.measure.timing.build_cache import Kept
from ansorpy.measure.timing.delivered import KERNEL_FILE, CallJob
from ansorpy.measure.timing.numpy_baseline import numpy_call
from ansorpy.measure.timing.protocol import Protocol, Race, rivals
from ansorpy.measure.timing.race import NUMPY, RaceJob
from ansorpy.measure.timing.requests import check
from ansorpy.measure.timing.worker_pool import Crew
from ansorpy.measure.workers.failure_kinds import failed_run
from ansorpy.measure.workers.pipeline import Steps
from ansorpy.measure.workers.replies import Reply, Returned
from ansorpy.measure.workers.worker import Worker
from ansorpy.measure.workers.worker_main import BuildDone
from ansorpy.te.dag import Dag

CALLED: Final = "ansorpy.measure.timing.delivered"
RACE: Final = "ansorpy.measure.timing.race"
ROOFLINE: Final = "ansorpy.measure.roofline"


@dataclass(frozen=True, slots=True)
class Fit:
    """Machine code that passed; `errors` were seen on the first case where all were run."""

    built: Built
    errors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Heated:
    """The fastest sample of a candidate; those of equal `code` are the same machine code."""

    cost_s: float
    code: int


@dataclass(frozen=True, slots=True)
class Calling:
    """A call of a delivered file; `worker` has begun it, if there was a core for it."""

    job: CallJob
    worker: Worker | None


def race(
    crew: Crew,
    dag: Dag,
    contestants: Mapping[str, Program | Kernel],
    numpy: bool,
    looked_at: Mapping[str, float],
    late: Callable[[], bool],
) -> dict[str, Race | Failed]:
    """Build and check the contestants, then race them; as `MeasurePool.race`.

    A process that fails with NumPy in it races again without: NumPy's entry is then the failure.
    """
    names = list(contestants)
    meanings = [one.meaning for one in contestants.values()]

    def after(number: int, done: BuildDone) -> Steps[Fit | Failed]:
        return fit(crew, done, meanings[number], looked_at.get(names[number]))

    jobs = [crew.job_of(one) for one in contestants.values()]
    verdicts = crew.flow(jobs, crew.settings.source_timeout_s, after)
    found: dict[str, Race | Failed] = {}
    kernels: dict[str, Fit] = {}
    for name, verdict in zip(names, verdicts, strict=True):
        if isinstance(verdict, Failed):
            found[name] = verdict
        else:
            kernels[name] = verdict
    crew.start_caller()
    with crew.hold():
        rival = dag if numpy and numpy_call(dag) is not None else None
        processes, protocol = crew.settings.race_processes, crew.settings.protocol
        found |= _race_all(crew, kernels, rival, late, processes, protocol)
    return {name: found[name] for name in (*names, NUMPY) if name in found}


def heat(
    crew: Crew,
    candidates: Sequence[Program | Draft],
    kept: Kept,
    budget_s: float,
    meanwhile: Kernel | None = None,
) -> list[Heated | None]:
    """Time what passed its trials in turns; as `MeasurePool.heat`."""
    jobs = [crew.job_of(one) for one in candidates]
    lost = [job for job in jobs if kept.of(job) is None]
    made = zip(lost, crew.make(lost, crew.settings.build_timeout_s), strict=True)
    again = {job: done.built for job, done in made if isinstance(done, BuildDone)}
    found = [kept.of(job) or again.get(job) for job in jobs]
    numbers: dict[Built, int] = {}
    for number, one in enumerate(found):
        if one is not None:
            numbers.setdefault(one, number)
    kernels = {str(number): Fit(one, ()) for one, number in numbers.items()}
    protocol = replace(crew.settings.protocol, budget_s=budget_s / max(1, len(kernels)))
    if meanwhile is not None:
        crew.begin(crew.job_of(meanwhile), aside=True)
    crew.quiet()
    with crew.hold():
        timed = _race_all(crew, kernels, None, lambda: False, 1, protocol)
    codes = [None if one is None else numbers[one] for one in found]
    times = [timed.get(str(code)) for code in codes]
    return [
        Heated(one.median_s, code) if isinstance(one, Race) and code is not None else None
        for one, code in zip(times, codes, strict=True)
    ]


def core_peak(crew: Crew) -> float:
    """Measure the float32 operations per second of one core; 0.0 if the process is lost."""
    with crew.hold():
        timeout_s = crew.settings.run_timeout_s
        reply = crew.slot.call(f"{ROOFLINE}:core_peak", crew.target, timeout_s, fresh=True)
    return reply.value if isinstance(reply, Returned) and isinstance(reply.value, float) else 0.0


def fit(
    crew: Crew, done: BuildDone, meaning: Dag | None, look_s: float | None
) -> Steps[Fit | Failed]:
    """Check machine code as long as that takes, or only look at it for at most `look_s`.

    Returns:
        The machine code, or what is wrong with it.
    """
    job = crew.trial_of(done.built, meaning, None)
    if look_s is None:
        verdict = yield from check(crew, job, True, crew.settings.race_timeout_s)
    else:
        verdict = yield from check(crew, job, True, look_s, "look")
    return verdict if isinstance(verdict, Failed) else Fit(done.built, verdict.errors)


def begin_call(crew: Crew, files: Mapping[str, bytes], meaning: Dag | None) -> Calling:
    """Seal a delivered file and begin to call it; as `MeasurePool.begin_call`."""
    place = crew.sealed.folder()  # a constant may be larger than a file that a child may write
    crew.sealed.keep(place, {name: create(place, name, data) for name, data in files.items()})
    job = CallJob(str(place / KERNEL_FILE), str(crew.cases_of(meaning)))
    if crew.caller is not None:
        crew.caller.send(f"{CALLED}:call", job, crew.settings.source_timeout_s, fresh=True)
    return Calling(job, crew.caller)


def end_call(crew: Crew, calling: Calling) -> Failed | None:
    """Return what is wrong with a call that was begun; None if its results are right.

    Without a core for it the call is made now, in a fresh process on the cores of the slot.
    """
    if calling.worker is not None:
        reply = calling.worker.receive()
    else:
        with crew.hold(), crew.racers(1) as (worker,):
            fresh, timeout_s = worker is crew.slot, crew.settings.source_timeout_s
            reply = worker.call(f"{CALLED}:call", calling.job, timeout_s, fresh=fresh)
    if isinstance(reply, Returned) and reply.value is None:
        return None
    return failed_run(reply, 0.0)


def _race_all(
    crew: Crew,
    kernels: Mapping[str, Fit],
    numpy: Dag | None,
    late: Callable[[], bool],
    processes: int,
    protocol: Protocol,
) -> dict[str, Race | Failed]:
    everyone = [*kernels, *(() if numpy is None else (NUMPY,))]
    runs: dict[str, list[tuple[float, ...]]] = {}
    lost: dict[str, Race | Failed] = {}
    left = everyone
    with crew.racers(processes if everyone else 0) as racers:
        for number, racer in enumerate(racers):
            if number and late():
                break
            reply = _race_in(crew, racer, kernels, numpy, left, protocol)
            if NUMPY in left and not isinstance(reply, Returned):
                lost[NUMPY] = failed_run(reply, 0.0)
                runs.pop(NUMPY, None)
                left = [name for name in left if name != NUMPY]
                reply = _race_in(crew, racer, kernels, numpy, left, protocol)
            if not isinstance(reply, Returned):
                return dict.fromkeys(everyone, failed_run(reply, 0.0))
            times: Mapping[str, tuple[float, ...]] = reply.value
            if set(times) != set(left) or not all(map(_is_timed, times.values())):
                failed = Failed("crash", "race: no times of all contestants", reply.excerpt)
                return dict.fromkeys(everyone, failed)
            for name, found in times.items():
                runs.setdefault(name, []).append(found)
            # Whoever is beaten by NumPy alone is still our best.
            ours = {name: found for name, found in times.items() if name != NUMPY}
            stay = {*rivals(times), *(rivals(ours) if ours else ())}
            left = [name for name in left if name in stay]
    raced = {
        name: Race(tuple(found), kernels[name].errors if name in kernels else ())
        for name, found in runs.items()
    }
    return lost | raced


def _race_in(
    crew: Crew,
    racer: Worker,
    kernels: Mapping[str, Fit],
    numpy: Dag | None,
    left: Sequence[str],
    protocol: Protocol,
) -> Reply:
    """Race those that are `left` in one process."""
    job = RaceJob(
        crew.settings.backend,
        tuple((name, one.built) for name, one in kernels.items() if name in left),
        str(crew.cases_of(None)),
        protocol,
        crew.target.cores,
        crew.settings.race_visits,
        numpy if NUMPY in left else None,
    )
    timeout_s, fresh = crew.settings.race_timeout_s, racer is crew.slot
    return racer.call(f"{RACE}:race", job, timeout_s, fresh=fresh)


def _is_timed(times_s: tuple[float, ...]) -> bool:
    """Return whether there are times, all of which are possible."""
    return bool(times_s) and min(times_s) > 0
