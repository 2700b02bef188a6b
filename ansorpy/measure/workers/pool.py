"""The local processes that build and measure for one task: builders, slot, runner, racers.

builders   one worker per core; idle while their core is timed on
slot       checks, and times on one thread, in a fresh child per batch and per process of a race;
           times libraries on several threads, which they start, in a child that ends with them
runner     times on several threads, in one long-lived child: an OpenMP runtime must not be forked
           after it has started
racers     fresh interpreters for finalists and baselines on several threads
caller     calls delivered files, on a core beside the slot
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Final

from ansorpy.measure.backend import CODEGEN, DEVICE
from ansorpy.measure.cores import (
    exclusive,
    importing_cores,
    lock_folder,
    slot_cores,
    usable_cores,
    with_twins,
)
from ansorpy.measure.sandbox.devices import gpu_nodes
from ansorpy.measure.sandbox.isolation import Mode, isolation_for
from ansorpy.measure.sandbox.scratch import make_writable
from ansorpy.measure.sandbox.seals import Sealed
from ansorpy.measure.workers.local_builder import MAIN, LocalBuilder
from ansorpy.measure.workers.spec import ResourceLimits, WorkerSpec
from ansorpy.measure.workers.worker import START_S, Worker
from ansorpy.measure.workers.worker_main import PREPARE

THREAD_COUNTS: Final = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
NUMBA: Final = "ansorpy.codegen.numba_object"  # loads numba's front end
ARM: Final = (f"{MAIN}:arm",)  # before the first fork of a process that builds
WARM: Final = (f"{MAIN}:warm",)  # ... and of a process that runs kernels


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The processes of a pool."""

    backend: str = CODEGEN
    builders: int = 0  # number of builders; 0: one per usable core
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    runner: bool = True  # start the runner with the other workers, not at its first call
    folder: str | None = None  # parent of the temporary folder; None: the system's
    sandbox: Mode = "auto"  # isolation; "auto": as available, "required": or refuse


class WorkerPool:
    """The workers of one task, with folders of their own; `close` removes processes and folders.

    Inputs and expected values lie in `sealed` folders, which only this process writes. Each worker
    has a scratch folder.

    Args:
        cores: how many cores the kernels of the task use, each or in copies side by side.
    """

    def __init__(self, cores: int, settings: WorkerSettings) -> None:
        self.threads = cores
        self.settings = settings
        self._folder = TemporaryDirectory(prefix="ansorpy-measure-", dir=settings.folder)
        self.sealed = Sealed(self._subfolder("cases"))
        self._scratch, self._compiled = self._subfolder("scratch"), self._subfolder("compiled")
        self._complete = False
        self._locks = lock_folder()
        self._cores = slot_cores(cores)
        self.quiet = with_twins(self._cores)  # cores without other work while something is timed
        places = usable_cores()
        count = settings.builders or len(places)
        self.builders = [
            LocalBuilder(self.worker({places[i % len(places)]}, builds=True)) for i in range(count)
        ]
        self.slot = self.worker(self._cores)
        self.runner = self.worker(self._cores, threads=cores, bare=True, early=True)
        self.caller: Worker | None = None  # has loaded numba; on a core of its own

    @property
    def folder(self) -> Path:
        """The folder of all others."""
        return Path(self._folder.name)

    def _subfolder(self, name: str) -> Path:
        place = self.folder / name
        place.mkdir(mode=0o700)
        return place

    @property
    def all(self) -> tuple[Worker, ...]:
        """Every worker but the racers."""
        builders = (one.worker for one in self.builders)
        callers = () if self.caller is None else (self.caller,)
        return (*builders, self.slot, self.runner, *callers)

    def start(self) -> None:
        """Start the workers of a first answer; they import while this process goes on."""
        for worker in (self.builders[0].worker, self.slot):
            worker.start()

    def start_others(self) -> None:
        """Start the other builders, and the runner if kernels use several threads."""
        if self._complete:
            return
        self._complete = True
        for builder in self.builders[1:]:
            builder.worker.start()
        if self.threads > 1 and self.settings.runner:
            self._prepare(self.runner)

    def start_caller(self) -> None:
        """Start the process that calls delivered files, if a core is free beside the slot.

        It loads numba (half a second) while this process goes on. A kernel on several threads needs
        all cores: it is called in a racer.
        """
        free = frozenset(usable_cores()) - self.quiet
        if self.caller is None and self.threads == 1 and free:
            self.caller = self.worker(frozenset({min(free)}), numba=True)
            self.caller.start()

    def _prepare(self, worker: Worker) -> None:
        worker.call_in_background(PREPARE, self.settings.backend, START_S)

    def close(self) -> None:
        """End every process and remove the folder; may be called twice."""
        for worker in self.all:
            worker.dismiss()
        for worker in self.all:
            worker.close()
        make_writable(self._folder.name)  # else TemporaryDirectory does so, and follows links
        self._folder.cleanup()

    def abandon(self) -> None:
        """Kill every process at once; the next call starts them again."""
        for builder in self.builders:
            builder.abandon()
        for worker in self.all:
            worker.kill()

    def reserve(self) -> AbstractContextManager[None]:
        """Keep other jobs of this machine from timing on the cores of the slot."""
        return exclusive(self._cores, self._locks)

    def worker(
        self,
        cores: "frozenset[int] | set[int]",
        threads: int = 1,
        bare: bool = False,
        builds: bool = False,
        early: bool = False,
        numba: bool = False,
    ) -> Worker:
        """Return a worker, not yet started.

        Args:
            bare: its fork server imports nothing: its only child starts threads.
            builds: it runs no kernel; its children may start other programs: the linker.
            early: it compiles the launcher that other workers of several threads copy.
            numba: its fork server loads numba too, on the cores of the worker.
        """
        env = dict.fromkeys(THREAD_COUNTS, str(threads))
        scratch = mkdtemp(dir=self._scratch)
        # The index files of numba's cache are pickles: a candidate must not write them. Workers
        # share the launcher of several threads only. `early` workers compile it, and cannot write
        # to the folder any more once they run a candidate; others get a copy.
        compiled = str(self._compiled)
        early = early and threads > 1 and bool(isolation_for(self.settings.sandbox).landlock)
        env["NUMBA_CACHE_DIR"] = compiled if early else scratch
        if threads > 1:
            # Without the binding a launch after a pause takes milliseconds.
            env |= {"OMP_PROC_BIND": "true", "NUMBA_THREADING_LAYER": "omp"}
        devices = gpu_nodes() if self.settings.backend == DEVICE and not builds else ()
        if devices:
            env["CUDA_CACHE_DISABLE"] = "1"  # compiled PTX would go to the home folder
            env["CUDA_MODULE_LOADING"] = "EAGER"  # no kernel is loaded while a graph is captured
        warm = ARM if builds else WARM
        return Worker(
            WorkerSpec(
                frozenset(cores),
                importing=frozenset() if bare or numba else importing_cores(frozenset(cores)),
                preload=() if bare else (self.settings.backend, *([NUMBA] if numba else [])),
                warm=() if bare else (*warm, *([f"{NUMBA}:warm"] if numba else [])),
                env=tuple(env.items()),
                limits=self.settings.limits,
                folder=scratch,
                reads=(str(self.sealed.root), compiled),
                early=compiled if early else "",
                seeds=compiled if threads > 1 and not early else "",
                sandbox=self.settings.sandbox,
                programs=builds,
                devices=devices,
                binds=threads > 1,
            )
        )

    def bare_worker(self, threads: int = 1) -> Worker:
        """Return a new worker on the cores of the slot whose child may start threads."""
        return self.worker(self._cores, threads, bare=True)

    @contextmanager
    def racers(self, count: int) -> Iterator[list[Worker]]:
        """Lend the workers of `count` processes of a race.

        On one thread they are the slot, which gets fresh children. On several threads they are new
        interpreters, which import side by side, before anything is timed.
        """
        if self.threads == 1:
            yield [self.slot] * count
            return
        racers = [self.bare_worker(self.threads) for _ in range(count)]
        try:
            for racer in racers:
                self._prepare(racer)
            for racer in racers:
                racer.join()
            yield racers
        finally:
            for racer in racers:
                racer.close()
