"""The back end of local processes: candidates to outcomes, finalists to a race.

Candidates pass the build-run pipeline (`workers.pipeline`) between builders and a slot
(`protocols`), which are processes of this machine here.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Generic, Self, TypeVar

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import SHARED
from ansorpy.measure.code_cache import CodeCache
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.free_memory import free_memory
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.pool import MeasurePool, Memory
from ansorpy.measure.protocols import BuildRequest, Slot
from ansorpy.measure.roofline import attainable_flop_per_s
from ansorpy.measure.timing import delivered_call, final_race, libraries, shortlist, size_times
from ansorpy.measure.timing.batch import BatchMeasurer
from ansorpy.measure.timing.final_race import CheckedLibraries
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.libraries import Exported
from ansorpy.measure.timing.local_slot import LocalSlot
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.paired_benchmark import SizedTimes
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.timing.shortlist import ShortlistTime
from ansorpy.measure.unbound import Unbound
from ansorpy.measure.verify.case_folders import CaseFolders
from ansorpy.measure.workers.build_queue import BuildQueue
from ansorpy.measure.workers.pool import WorkerPool
from ansorpy.measure.workers.replies import Reply, Returned
from ansorpy.target import CpuTarget, Target
from ansorpy.te.dag import Dag

SOURCE_BUILDERS: Final = 2  # builders that load numba before the race: finalists build side by side
PROOF: Final = "ansorpy.measure.sandbox.proof:held"
PROOF_S: Final = 20.0
CORE_PEAK: Final = "ansorpy.measure.roofline:core_peak"


class LocalProcesses:
    """Workers and the queue of their builders, for the pools of tasks of one target.

    To start them takes longer than to check a kernel.
    """

    def __init__(self, target: Target, settings: MeasureSettings) -> None:
        count = max(target.host_threads, len(settings.sampling.cores))
        self.workers = WorkerPool(count, settings)
        cores = len(usable_cores())
        self.queue = BuildQueue(self.workers.builders, self.workers.quiet, CodeCache(), cores)

    @contextmanager
    def intact(self) -> Generator[None]:
        """Kill the processes if the block raises: half a frame may be in a pipe."""
        try:
            yield
        except BaseException:
            self.workers.abandon()
            self.queue.forget()
            raise

    def close(self) -> None:
        """End every process and remove the folder; may be called twice."""
        self.workers.close()


P = TypeVar("P", bound=MeasurePool)
Open = Callable[[Dag, Target, MeasureSettings, LocalProcesses], P]


class LocalBackEnd(Generic[P]):
    """Pools whose tasks, all of one target, use the same processes one after the other.

    Args:
        open_pool: the kind of the pools: `LocalPool`, or another that works with these processes.
    """

    def __init__(self, target: Target, settings: MeasureSettings, open_pool: Open[P]) -> None:
        self._settings, self._open = settings, open_pool
        self._processes = LocalProcesses(target, settings)

    def open(self, dag: Dag, target: Target, cold_bytes: int) -> P:
        """Return a pool for a task."""
        sampling = replace(self._settings.sampling, cold_bytes=cold_bytes)
        settings = replace(self._settings, sampling=sampling)
        return self._open(dag, target, settings, self._processes)

    def memory(self) -> Memory:
        """Return the memory that this process may still take, and the limit of one candidate."""
        return Memory(free_memory(), self._settings.limits.memory_bytes)

    def rounds(self) -> int:
        """Return 1: all tasks use the same processes."""
        return 1

    def news(self) -> list[str]:
        """Return nothing: this machine measures."""
        return []

    def close(self) -> None:
        """End every process; may be called twice."""
        self._processes.close()


class LocalPool:
    """The measuring processes of one task; a context manager that leaves none behind.

    Args:
        shared: processes that pools of other tasks use, too, one pool after the other; they stay
            open when this pool is closed.
        slot_of: returns the slot that times trials in place of the slot of this machine, given
            the Dag and that slot.
    """

    def __init__(
        self,
        dag: Dag,
        target: Target,
        settings: MeasureSettings | None = None,
        shared: LocalProcesses | None = None,
        slot_of: Callable[[Dag, Slot], Slot] = lambda dag, slot: slot,
    ) -> None:
        self.dag, self.target = dag, target
        self.settings = settings or MeasureSettings()
        self._owned = LocalProcesses(target, self.settings) if shared is None else None
        processes = shared or self._owned
        assert processes is not None  # one or the other
        self.processes, self.workers, self.queue = processes, processes.workers, processes.queue
        self.cases = CaseFolders(dag, self.settings.seed, self.settings.edges, self.workers.sealed)
        self.slot = LocalSlot(self.workers, self.cases, self.settings)
        self.batches = BatchMeasurer(self.queue, self.slot, self.settings.backend, target)
        trial_slot = slot_of(dag, self.slot)
        self.trials = (
            self.batches
            if trial_slot is self.slot
            else BatchMeasurer(self.queue, trial_slot, self.settings.backend, target)
        )
        self._libraries: CheckedLibraries | None = None  # checked before the first race with them
        self._peak: Reply | None = None  # the newest answer of `roofline.core_peak`
        try:
            self.workers.start()  # they import while the first case is computed
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process and remove the folder; may be called twice."""
        self.cases.close()
        if self._owned is not None:
            self._owned.close()

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        """Return one outcome per candidate; as `MeasurePool.measure`."""
        with self.processes.intact():
            self.workers.start_others()
        self.trials.slot.prepare({one.meaning for one in candidates})
        with self.processes.intact():
            return self.trials.measure(candidates, best_s, late, self.settings.build_timeout_s)

    def begin_cases(self) -> None:
        """Start to compute the references of all cases beside other work; return at once."""
        self.cases.begin_others()

    def prebuild(self, *requests: Unbound | Kernel | Export, later: bool = False) -> None:
        """Start to build candidates, finalists or libraries; as `MeasurePool.prebuild`.

        A finalist is built on two builders: each loads numba, and builds later finalists sooner.
        """
        kernels = [one for one in requests if isinstance(one, Kernel)]
        others = [self._request_of(one) for one in requests if not isinstance(one, Kernel)]
        with self.processes.intact():
            if others:
                self.queue.prebuild(others, self.settings.build_timeout_s, later)
            for kernel in kernels:
                request, timeout_s = self._request_of(kernel), self.settings.source_timeout_s
                self.queue.prebuild_one(request, timeout_s, SOURCE_BUILDERS)

    def _request_of(self, what: Unbound | Kernel | Export) -> BuildRequest:
        if isinstance(what, Export):
            return BuildRequest(SHARED, what, self.target)
        return self.batches.request_of(what)

    def race(
        self,
        contestants: Mapping[str, Program | Kernel],
        numpy: bool = True,
        first_case_s: Mapping[str, float] | None = None,
        late: Callable[[], bool] = lambda: False,
        beside: Callable[[], object] = lambda: None,
        own: Sequence[OwnKernel] = (),
        peers: bool = False,
    ) -> dict[str, PairedTimes | Failed]:
        """Check the contestants, then time them in turns; as `RacePool.race`."""
        self._get_ready()
        with self.processes.intact():
            if peers and self._libraries is None:
                for kernel in contestants.values():  # compiled while libraries are checked
                    request = self.batches.request_of(kernel)
                    self.queue.prebuild_one(request, self.settings.source_timeout_s)
                self._libraries = final_race.checked_libraries(self.slot, self.dag, late)
            libraries = self._libraries if peers else None
            self._begin_peak()
            return final_race.race(
                self.batches, self.slot, self.dag, contestants, numpy, first_case_s or {}, late,
                beside, own, libraries or final_race.NONE,
            )  # fmt: skip

    def rerank(
        self,
        candidates: Sequence[Program | Unbound],
        budget_s: float,
        beside: Kernel | None = None,
    ) -> list[ShortlistTime | None]:
        """Time candidates again, in turns in one fresh process; as `RacePool.rerank`."""
        self._get_ready()
        with self.processes.intact():
            return shortlist.rerank(self.batches, self.slot, candidates, budget_s, beside)

    def time_sizes(
        self, kernel: Program | Kernel, sizes: Sequence[tuple[int, ...]], numpy: bool
    ) -> SizedTimes | Failed:
        """Return the seconds of a call at single sizes; as `RacePool.time_sizes`."""
        with self.processes.intact():
            return size_times.time_sizes(self.batches, self.slot, self.dag, kernel, sizes, numpy)

    def attainable_flop_per_s(self) -> float:
        """Return the operations per second that no kernel of the task exceeds; 0.0 if unknown.

        The peak of a core is measured before a race, while its first contestant is built.
        """
        with self.processes.intact():
            if self._peak is None:
                self._begin_peak()
            self.workers.slot.join()
        known = self._peak.value if isinstance(self._peak, Returned) else None
        return attainable_flop_per_s(
            self.dag, self.target, known if isinstance(known, float) else 0.0
        )

    def _begin_peak(self) -> None:
        """Start to measure the peak of a core; the next call of the slot waits for its end.

        The peak of this processor bounds no kernel for a GPU.
        """
        if not isinstance(self.target, CpuTarget):
            return
        self.workers.slot.call_in_background(
            CORE_PEAK, self.target, self.settings.run_timeout_s, self._note_peak, fresh=True
        )

    def _note_peak(self, reply: Reply) -> None:
        self._peak = reply

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        """Build a kernel and run every case; return the failure, None if all pass."""
        self.cases.all()
        with self.processes.intact():
            timeout_s = self.settings.source_timeout_s
            (verdict,) = self.batches.check([kernel], [None], timeout_s)
        return verdict if isinstance(verdict, Failed) else None

    def begin_call(
        self, files: Mapping[str, bytes], meaning: Dag | None = None
    ) -> Callable[[], Failed | float]:
        """Start to call a delivered file; as `RacePool.begin_call`."""
        self.cases.all()
        with self.processes.intact():
            call = delivered_call.begin_call(self.slot, files, meaning)

        def end() -> Failed | float:
            with self.processes.intact():
                return delivered_call.end_call(self.slot, call)

        return end

    def export(self, *exports: Export, first_only: bool = False) -> Exported | Failed:
        """Return the fastest right library; as `RacePool.export`."""
        with self.processes.intact():
            timeout_s = self.settings.build_timeout_s
            found = libraries.fastest(
                self.queue, self.slot, exports, self.target, first_only, timeout_s
            )
            self.workers.start_others()  # not earlier: their imports would delay a first answer
        return found

    def isolation(self) -> dict[str, Mapping[str, bool] | str]:
        """Return, by kind of process, which levels of isolation hold in it, or why none tells."""
        workers = {
            "children that run candidates": self.workers.slot,
            "children that build them": self.workers.builders[0].worker,
        }
        replies = {
            kind: worker.call(PROOF, None, PROOF_S, fresh=True) for kind, worker in workers.items()
        }
        return {
            kind: reply.value if isinstance(reply, Returned) else str(reply)
            for kind, reply in replies.items()
        }

    def _get_ready(self) -> None:
        """Start every process, and make the cases while they import."""
        with self.processes.intact():
            self.workers.start_others()
        self.cases.all()
