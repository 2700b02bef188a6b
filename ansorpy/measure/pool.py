"""Programs to outcomes: build on every core, then check and time on the slot's own cores.

builders   one worker per core: compile, with a time-out; idle while anything is timed
slot       checks, and times on one thread, in a fresh child per batch
runner     times on several threads, in one long-lived child of its own (an OpenMP runtime
           must not be forked after it has started)
racers     fresh processes for finalists and baselines
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from ansorpy.codegen.exported import Export, Library
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import CODEGEN, SHARED, Built
from ansorpy.measure.baseline import numpy_call
from ansorpy.measure.cases import make_cases, save_cases
from ansorpy.measure.child import BuildDone, BuildJob
from ansorpy.measure.cores import exclusive, lock_folder, slot_cores, usable_cores
from ansorpy.measure.inputs import constants
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.race import NUMPY, RaceJob
from ansorpy.measure.slot import START_S, Answer, Limits, Reply, Spec, Worker, call_all
from ansorpy.measure.timing import Protocol, Race
from ansorpy.measure.trial import Checked, Trial
from ansorpy.measure.verdict import failed_build, failed_run
from ansorpy.target import Target
from ansorpy.te.dag import Dag

CHILD: Final = "ansorpy.measure.child"
TRIAL: Final = "ansorpy.measure.trial"
RACE: Final = "ansorpy.measure.race"
THREAD_COUNTS: Final = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
WARM: Final = (f"{CHILD}:warm",)


@dataclass(frozen=True, slots=True)
class Settings:
    """How candidates are measured; times in seconds."""

    backend: str = CODEGEN
    protocol: Protocol = field(default_factory=Protocol)
    build_timeout_s: float = 20.0
    source_timeout_s: float = 120.0  # of delivered source, which passes numba's front end
    run_timeout_s: float = 10.0  # load, check and timing of one candidate
    race_timeout_s: float = 120.0  # of one process of a race
    race_processes: int = 3
    race_visits: int = 10
    builders: int = 0  # 0: one per usable core
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    edges: bool = True  # check zeros, subnormals and large values too
    folder: str | None = None  # where temporary files go; None: the usual place


@dataclass(frozen=True, slots=True)
class Exported:
    """A library whose own functions passed every case, and their times."""

    library: Library
    outcome: Measured


class MeasurePool:
    """The measuring processes of one task; a context manager that leaves none behind."""

    def __init__(self, dag: Dag, target: Target, settings: Settings | None = None) -> None:
        self.dag = dag
        self.target = target
        self.settings = settings or Settings()
        self._folder = TemporaryDirectory(prefix="ansorpy-measure-", dir=self.settings.folder)
        self._locks = lock_folder()
        self._cores = slot_cores(target.cores)
        places = usable_cores()
        builders = self.settings.builders or len(places)
        self._builders = [self._worker({places[i % len(places)]}) for i in range(builders)]
        self._slot = self._worker(self._cores)
        self._runner = self._worker(self._cores, threads=target.cores, bare=True)
        try:
            for worker in (*self._builders, self._slot):
                worker.start()  # they import while the references are computed
            cases = make_cases(dag, self.settings.seed, self.settings.edges)
            save_cases(cases, constants(dag), Path(self._folder.name))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process and remove the folder; may be called twice."""
        for worker in self._workers:
            worker.close()
        self._folder.cleanup()

    def measure(self, programs: Sequence[Program], best_s: float | None = None) -> list[Outcome]:
        """Return one outcome per program, in order.

        Args:
            best_s: the best time so far: what is hopelessly slower is given up early.
        """
        try:
            builds = self._build(programs, self.settings.build_timeout_s)
            with exclusive(self._cores, self._locks):
                return self._measure_all(builds, best_s)
        except BaseException:
            self._abandon()  # an interrupt may leave half a frame in a pipe
            raise

    def race(
        self, contestants: Mapping[str, Program | Kernel], numpy: bool = True
    ) -> dict[str, Race | Failed]:
        """Check the contestants, then time them in turns in several fresh processes.

        With `numpy`, NumPy's evaluation takes part under that name, where there is one.
        """
        try:
            return self._race(contestants, numpy)
        except BaseException:
            self._abandon()
            raise

    def export(self, what: Export) -> Exported | Failed:
        """Build a library, run every case through its own functions, and time it."""
        try:
            job = BuildJob(SHARED, what, self.target)
            ((reply, seconds),) = call_all(
                self._builders[:1], f"{CHILD}:build", [job], self.settings.build_timeout_s
            )
            done = _built(reply, seconds)
            if isinstance(done, Failed):
                return done
            assert isinstance(done.built, Library)
            with exclusive(self._cores, self._locks):
                outcome = self._trial_of_library(done.built)
        except BaseException:
            self._abandon()
            raise
        return outcome if isinstance(outcome, Failed) else Exported(done.built, outcome)

    def _trial_of_library(self, built: Library) -> Outcome:
        job = self._job(built, None, SHARED)
        if self.target.cores == 1:
            return self._run(self._slot, "trial", job, True)
        checked = self._check(job, True, self.settings.run_timeout_s)
        if isinstance(checked, Failed):
            return checked
        # A process of its own: OpenMP in the runner has bound the threads it would start.
        runner = self._worker(self._cores, bare=True)
        try:
            runner.call(f"{CHILD}:prepare", SHARED, START_S)
            return self._run(runner, "time_parallel", job, False)
        finally:
            runner.close()

    def _measure_all(
        self, builds: Sequence[BuildDone | Failed], best_s: float | None
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        fresh = True
        for done in builds:
            if isinstance(done, Failed):
                outcomes.append(done)
                continue
            outcome = self._trial(done, best_s, fresh)
            fresh = False
            if isinstance(outcome, Measured):
                outcome = replace(outcome, build_s=done.build_s)
                best_s = outcome.cost_s if best_s is None else min(best_s, outcome.cost_s)
            outcomes.append(outcome)
        return outcomes

    def _trial(self, done: BuildDone, best_s: float | None, fresh: bool) -> Outcome:
        job = self._job(done.built, best_s)
        if self.target.cores == 1:
            return self._run(self._slot, "trial", job, fresh)
        looked = self._check(job, fresh, self.settings.run_timeout_s, "look")
        if isinstance(looked, Failed):
            return looked
        # A runner that was replaced imports first; that is not the candidate's time.
        self._runner.call(f"{CHILD}:prepare", self.settings.backend, START_S)
        outcome = self._run(self._runner, "time_parallel", job, False)
        if not isinstance(outcome, Measured):
            return outcome
        check_s = outcome.check_s + looked.check_s
        if best_s is None or outcome.cost_s < best_s:
            checked = self._check(job, False, self.settings.run_timeout_s)
            if isinstance(checked, Failed):
                return checked
            check_s += checked.check_s
        return replace(outcome, check_s=check_s)

    def _run(self, worker: Worker, function: str, job: Trial, fresh: bool) -> Outcome:
        timeout_s = self.settings.run_timeout_s
        start = time.monotonic()
        reply = worker.call(f"{TRIAL}:{function}", job, timeout_s, fresh=fresh)
        if isinstance(reply, Answer) and isinstance(reply.value, Measured):
            return reply.value
        return failed_run(reply, time.monotonic() - start)

    def _check(
        self, job: Trial, fresh: bool, timeout_s: float, how: str = "check"
    ) -> Checked | Failed:
        start = time.monotonic()
        reply = self._slot.call(f"{TRIAL}:{how}", job, timeout_s, fresh=fresh)
        if isinstance(reply, Answer) and isinstance(reply.value, Checked):
            return reply.value
        return failed_run(reply, time.monotonic() - start)

    def _build(
        self, what: Sequence[Program | Kernel], timeout_s: float
    ) -> list[BuildDone | Failed]:
        jobs = [BuildJob(self.settings.backend, one, self.target) for one in what]
        replies = call_all(self._builders, f"{CHILD}:build", jobs, timeout_s)
        return [_built(reply, seconds) for reply, seconds in replies]

    def _race(
        self, contestants: Mapping[str, Program | Kernel], numpy: bool
    ) -> dict[str, Race | Failed]:
        builds = self._build(tuple(contestants.values()), self.settings.source_timeout_s)
        found: dict[str, Race | Failed] = {}
        fit: list[tuple[str, Built]] = []
        with exclusive(self._cores, self._locks):
            for name, done in zip(contestants, builds, strict=True):
                verdict = done
                if isinstance(done, BuildDone):
                    job = self._job(done.built, None)
                    checked = self._check(job, True, self.settings.race_timeout_s)
                    verdict = checked if isinstance(checked, Failed) else done
                if isinstance(verdict, Failed):
                    found[name] = verdict
                else:
                    fit.append((name, verdict.built))
            found |= self._race_all(tuple(fit), numpy)
        names = (*contestants, NUMPY)
        return {name: found[name] for name in names if name in found}

    def _race_all(
        self, kernels: tuple[tuple[str, Built], ...], numpy: bool
    ) -> dict[str, Race | Failed]:
        dag = self.dag if numpy and numpy_call(self.dag) is not None else None
        if not kernels and dag is None:
            return {}
        job = RaceJob(
            self.settings.backend, kernels, self._folder.name, self.settings.protocol,
            self.target.cores, self.settings.race_visits, dag,
        )  # fmt: skip
        names = [name for name, _ in kernels] + ([NUMPY] if dag is not None else [])
        runs: list[Mapping[str, tuple[float, ...]]] = []
        for _ in range(self.settings.race_processes):
            racer = self._worker(self._cores, threads=self.target.cores, bare=True)
            try:
                reply = racer.call(f"{RACE}:race", job, self.settings.race_timeout_s)
            finally:
                racer.close()
            if not isinstance(reply, Answer):
                failed = failed_run(reply, 0.0)
                return dict.fromkeys(names, failed)
            runs.append(reply.value)
        return {name: Race(tuple(run[name] for run in runs)) for name in names}

    def _job(self, built: Built, best_s: float | None, backend: str | None = None) -> Trial:
        return Trial(
            backend or self.settings.backend, built, self._folder.name, self.settings.protocol,
            self.target.cores, best_s,
        )  # fmt: skip

    def _worker(
        self, cores: "frozenset[int] | set[int]", threads: int = 1, bare: bool = False
    ) -> Worker:
        """Return a worker, not yet started; a `bare` one imports nothing before its only child."""
        env = dict.fromkeys(THREAD_COUNTS, str(threads))
        if threads > 1:
            # Without the binding a launch after a pause costs milliseconds.
            env |= {"OMP_PROC_BIND": "true", "NUMBA_THREADING_LAYER": "omp"}
        return Worker(
            Spec(
                frozenset(cores),
                preload=() if bare else (self.settings.backend,),
                warm=() if bare else WARM,
                env=tuple(env.items()),
                limits=self.settings.limits,
                folder=self._folder.name,
            )
        )

    @property
    def _workers(self) -> tuple[Worker, ...]:
        return (*self._builders, self._slot, self._runner)

    def _abandon(self) -> None:
        for worker in self._workers:
            worker.kill()


def _built(reply: Reply, seconds: float) -> BuildDone | Failed:
    if isinstance(reply, Answer) and isinstance(reply.value, BuildDone):
        return reply.value
    return failed_build(reply, seconds)
