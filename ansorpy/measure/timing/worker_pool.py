"""The processes that measure for one task, and how they are asked."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Final, TypeVar

from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import CODEGEN, Built
from ansorpy.measure.draft import Draft
from ansorpy.measure.outcome import Failed
from ansorpy.measure.sandbox.isolation import Mode, isolation_for
from ansorpy.measure.sandbox.scratch import make_writable
from ansorpy.measure.sandbox.seals import Sealed
from ansorpy.measure.timing.protocol import Protocol
from ansorpy.measure.timing.trial import Trial
from ansorpy.measure.verify.cases import load_cases, save_cases
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.measure.workers.cores import (
    exclusive,
    importing_cores,
    lock_folder,
    slot_cores,
    usable_cores,
    with_twins,
)
from ansorpy.measure.workers.failure_kinds import failed_build
from ansorpy.measure.workers.pipeline import Call, Pump, Steps
from ansorpy.measure.workers.replies import Reply, Returned
from ansorpy.measure.workers.spec import Limits, WorkerSpec
from ansorpy.measure.workers.worker import START_S, Worker
from ansorpy.measure.workers.worker_main import BuildDone, BuildJob
from ansorpy.target import Target
from ansorpy.te.dag import Dag

CHILD: Final = "ansorpy.measure.workers.worker_main"
THREAD_COUNTS: Final = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
NUMBA: Final = "ansorpy.codegen.numba_object"  # loads numba's front end
WARM: Final = (f"{CHILD}:warm",)

T = TypeVar("T")


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
    runner: bool = True  # of several threads, started at once; else when it is first asked
    folder: str | None = None  # where temporary files go; None: the usual place
    sandbox: Mode = "auto"  # what this machine has; "required" refuses to start without isolation


class Crew:
    """Builders, slot and runner, with folders of their own; `close` leaves none behind.

    Cases lie in sealed folders, which only this process writes. Each worker has a scratch folder.
    """

    def __init__(self, target: Target, settings: Settings) -> None:
        self.target = target
        self.settings = settings
        self._folder = TemporaryDirectory(prefix="ansorpy-measure-", dir=settings.folder)
        self.sealed = Sealed(self._made("cases"))
        self.cases = self.sealed.folder()  # folder with all cases of the task
        self._scratch, self._compiled = self._made("scratch"), self._made("compiled")
        self._cases: dict[tuple[Path, Dag], Path] = {}
        self._begun: dict[BuildJob, Worker] = {}  # who remembers the machine code
        self._complete = False
        self._locks = lock_folder()
        self._cores = slot_cores(target.cores)
        places = usable_cores()
        builders = settings.builders or len(places)
        self.builders = [
            self.worker({places[i % len(places)]}, programs=True) for i in range(builders)
        ]
        self.slot = self.worker(self._cores)
        self.runner = self.worker(self._cores, threads=target.cores, bare=True, early=True)
        self.caller: Worker | None = None  # a process that has loaded numba, on a core of its own

    @property
    def folder(self) -> Path:
        """The folder of all others."""
        return Path(self._folder.name)

    def _made(self, name: str) -> Path:
        place = self.folder / name
        place.mkdir(mode=0o700)
        return place

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All of them."""
        callers = () if self.caller is None else (self.caller,)
        return (*self.builders, self.slot, self.runner, *callers)

    def start(self) -> None:
        """Start what a first answer needs; it imports while the caller goes on."""
        for worker in (self.builders[0], self.slot):
            worker.start()

    def start_others(self) -> None:
        """Start the other builders, and the runner where it has work."""
        if self._complete:
            return
        self._complete = True
        for worker in self.builders[1:]:
            worker.start()
        if self.target.cores > 1 and self.settings.runner:
            self.runner.call_in_background(f"{CHILD}:prepare", self.settings.backend, START_S)

    def start_caller(self) -> None:
        """Start the process that calls delivered files, if a core is free beside the slot.

        It loads numba (half a second) while the caller goes on. Several threads need all cores:
        they are called in a racer.
        """
        free = frozenset(usable_cores()) - with_twins(self._cores)
        if self.caller is None and self.target.cores == 1 and free:
            core = frozenset({min(free)})
            spec = self.worker(core).spec
            preload, warm = (*spec.preload, NUMBA), (*spec.warm, f"{NUMBA}:warm")
            self.caller = Worker(replace(spec, importing=core, preload=preload, warm=warm))
            self.caller.start()

    def begin(self, job: BuildJob, aside: bool = False, builders: int = 1) -> None:
        """Have a builder make something beside what the caller does.

        Args:
            builders: how many make the same, where so many have nothing else to do.
            aside: only on a core that can work while others are timed on; nothing is begun where
                there is none.
        """
        area = with_twins(self._cores) if aside else frozenset[int]()
        able = [builder for builder in self.builders if not builder.spec.cores & area]
        for number, builder in enumerate(sorted(able, key=lambda one: one.busy)[:builders]):
            if number and builder.busy:
                break
            builder.call_in_background(f"{CHILD}:build", job, self.settings.source_timeout_s)
            self._begun.setdefault(job, builder)

    def begin_all(self, jobs: Sequence[BuildJob]) -> None:
        """Have idle builders make things beside what the caller does, who keeps one core.

        What was begun before is left out.
        """
        area = with_twins(self._cores)
        jobs = [job for job in jobs if job not in self._begun]
        order = sorted(self.builders, key=lambda one: bool(one.spec.cores & area))
        idle = [builder for builder in order[: len(order) - 1] if builder.idle]
        for number, builder in enumerate(idle):
            share = tuple(jobs[number :: len(idle)])
            if share:
                builder.call_in_background(
                    f"{CHILD}:build_ahead", share, self.settings.build_timeout_s
                )
                self._begun |= dict.fromkeys(share, builder)

    def forget(self, jobs: Sequence[BuildJob]) -> None:
        """No longer know who began on something."""
        for job in jobs:
            self._begun.pop(job, None)

    def quiet(self) -> None:
        """Wait until nothing that was begun goes on where it would disturb what is timed."""
        area = with_twins(self._cores)
        for builder in self.builders:
            if builder.spec.cores & area:
                builder.join()

    def close(self) -> None:
        """End every process and remove the folder; may be called twice."""
        for worker in self.workers:
            worker.dismiss()
        for worker in self.workers:
            worker.close()
        make_writable(self._folder.name)  # else TemporaryDirectory does so, and follows links
        self._folder.cleanup()

    def abandon(self) -> None:
        """End every process at once; the next call starts them again."""
        for worker in self.workers:
            worker.kill()
        self._begun.clear()

    def hold(self) -> AbstractContextManager[None]:
        """Keep other jobs of this machine from timing on the cores of the slot."""
        return exclusive(self._cores, self._locks)

    def worker(
        self,
        cores: "frozenset[int] | set[int]",
        threads: int = 1,
        bare: bool = False,
        programs: bool = False,
        early: bool = False,
    ) -> Worker:
        """Return a worker, not yet started; a `bare` one imports nothing before its only child.

        Args:
            programs: whether its children may start other programs.
            early: whether it compiles what other workers of several threads need too.
        """
        env = dict.fromkeys(THREAD_COUNTS, str(threads))
        scratch = mkdtemp(dir=self._scratch)
        # The index files of numba's cache are pickles. Only the launcher of several threads is
        # worth sharing: `early` workers compile it, and cannot write there any more when they see
        # their first candidate; others get a copy.
        compiled = str(self._compiled)
        early = early and threads > 1 and bool(isolation_for(self.settings.sandbox).landlock)
        env["NUMBA_CACHE_DIR"] = compiled if early else scratch
        if threads > 1:
            # Without the binding a launch after a pause costs milliseconds.
            env |= {"OMP_PROC_BIND": "true", "NUMBA_THREADING_LAYER": "omp"}
        return Worker(
            WorkerSpec(
                frozenset(cores),
                importing=frozenset() if bare else importing_cores(frozenset(cores)),
                preload=() if bare else (self.settings.backend,),
                warm=() if bare else WARM,
                env=tuple(env.items()),
                limits=self.settings.limits,
                folder=scratch,
                reads=(str(self.sealed.root), compiled),
                early=compiled if early else "",
                seeds=compiled if threads > 1 and not early else "",
                sandbox=self.settings.sandbox,
                programs=programs,
                binds=threads > 1,
            )
        )

    def bare_worker(self, threads: int = 1) -> Worker:
        """Return a worker on the cores of the slot whose child may start threads."""
        return self.worker(self._cores, threads, bare=True)

    @contextmanager
    def racers(self, count: int) -> Iterator[list[Worker]]:
        """Lend the workers of so many processes of a race.

        On one thread it is the slot, to be given fresh children; on several these are new
        interpreters, which begin by importing side by side: nothing is timed meanwhile.
        """
        if self.target.cores == 1:
            yield [self.slot] * count
            return
        racers = [self.bare_worker(self.target.cores) for _ in range(count)]
        try:
            for racer in racers:
                racer.call_in_background(f"{CHILD}:prepare", self.settings.backend, START_S)
            for racer in racers:
                racer.join()
            yield racers
        finally:
            for racer in racers:
                racer.close()

    def job_of(self, what: Program | Kernel | Draft) -> BuildJob:
        """Return what a builder is asked; what a program means is none of its business."""
        return BuildJob(self.settings.backend, replace(what, meaning=None), self.target)

    def trial_of(
        self,
        built: Built,
        meaning: Dag | None,
        best_s: float | None,
        control: tuple[Built, float] | None = None,
    ) -> Trial:
        """Return what the slot is asked about machine code of a program with this meaning."""
        cases, backend = self.cases_of(meaning), self.settings.backend
        return self.trial_in(cases, built, best_s, backend, control)

    def trial_in(
        self,
        cases: Path,
        built: Built,
        best_s: float | None,
        backend: str,
        control: tuple[Built, float] | None = None,
    ) -> Trial:
        """Return what the slot is asked about machine code, with the cases of a folder."""
        protocol = self.settings.protocol
        return Trial(backend, built, str(cases), protocol, self.target.cores, best_s, control)

    def cases_of(self, meaning: Dag | None, cases: Path | None = None) -> Path:
        """Return the folder of the cases that fit a meaning; made when it is first asked for.

        Args:
            cases: the folder of those of the task itself; all of them unless given.

        Raises:
            RunError: a file of the folder was changed since it was made.
        """
        cases = self.cases if cases is None else cases
        self.sealed.check(cases)
        if meaning is None:
            return cases
        if (cases, meaning) not in self._cases:
            folder = self.sealed.folder()
            known, fixed = load_cases(cases)
            self.sealed.keep(folder, save_cases(reformulated(known, meaning), fixed, folder))
            self._cases[cases, meaning] = folder
        self.sealed.check(self._cases[cases, meaning])
        return self._cases[cases, meaning]

    def flow(
        self,
        jobs: Sequence[BuildJob],
        timeout_s: float,
        after: Callable[[int, BuildDone], Steps[T | Failed]],
        unless: tuple[Callable[[], bool], T] | None = None,
        then: Sequence[BuildJob] = (),
    ) -> list[T | Failed]:
        """Build everything; return what `after` makes of it, or the failure.

        Args:
            unless: as of `Pump`.
            then: begun when a builder has nothing else to do that may work while others time, but
                not once it is late.
        """

        def measure(number: int, reply: Reply, seconds: float) -> Steps[T | Failed] | Failed:
            done = build_of(reply, seconds)
            return done if isinstance(done, Failed) else after(number, done)

        return self._pumped(jobs, timeout_s, measure, unless, then)

    def make(self, jobs: Sequence[BuildJob], timeout_s: float) -> list[BuildDone | Failed]:
        """Build everything; return the machine code, or the failure."""

        def measure(number: int, reply: Reply, seconds: float) -> BuildDone | Failed:
            return build_of(reply, seconds)

        return self._pumped(jobs, timeout_s, measure, None)

    def _pumped(
        self,
        jobs: Sequence[BuildJob],
        timeout_s: float,
        measure: Callable[[int, Reply, float], Steps[T] | T],
        unless: tuple[Callable[[], bool], T] | None,
        then: Sequence[BuildJob] = (),
    ) -> list[T]:
        def build(number: int, worker: Worker) -> Call:
            return Call(worker, f"{CHILD}:build", jobs[number], timeout_s)

        owners = [self._begun.get(job) for job in jobs]  # once: to hash a job takes its time

        def owner(number: int) -> Worker | None:
            return owners[number]

        def after() -> None:
            if unless is None or not unless[0]():
                self.begin_all(then)

        area = with_twins(self._cores)
        pump = Pump[T](self.builders, area, build, measure, self.hold, unless, owner, after)
        return pump.run(len(jobs))


def build_of(reply: Reply, seconds: float) -> BuildDone | Failed:
    """Return what a builder answered."""
    if isinstance(reply, Returned) and isinstance(reply.value, BuildDone):
        return reply.value
    return failed_build(reply, seconds)
