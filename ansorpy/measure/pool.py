"""The measuring processes of one task: candidates to outcomes, finalists to a race.

Candidates pass the build-run pipeline (`workers.pipeline`) between builders and a slot
(`protocols`), which are local processes here.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Self

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import SHARED
from ansorpy.measure.code_cache import CodeCache
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.protocols import BuildRequest
from ansorpy.measure.roofline import attainable_flop_per_s
from ansorpy.measure.timing import delivered_call, final_race, libraries, shortlist
from ansorpy.measure.timing.batch import BatchMeasurer
from ansorpy.measure.timing.delivered_call import DeliveredCall
from ansorpy.measure.timing.final_race import CheckedLibraries
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.libraries import Exported
from ansorpy.measure.timing.local_slot import LocalSlot
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.timing.shortlist import ShortlistTime
from ansorpy.measure.unbound import Unbound
from ansorpy.measure.verify.case_folders import CaseFolders
from ansorpy.measure.workers.build_queue import BuildQueue
from ansorpy.measure.workers.pool import WorkerPool
from ansorpy.measure.workers.replies import Reply, Returned
from ansorpy.target import Target
from ansorpy.te.dag import Dag

SOURCE_BUILDERS: Final = 2  # builders that load numba before the race: finalists build side by side
CORE_PEAK: Final = "ansorpy.measure.roofline:core_peak"


class SharedProcesses:
    """Workers and the queue of their builders, for the pools of tasks of one target.

    To start them takes longer than to check a kernel.
    """

    def __init__(self, target: Target, settings: MeasureSettings) -> None:
        count = max(target.host_threads, len(settings.sampling.cores))
        self.workers = WorkerPool(count, settings)
        self.queue = BuildQueue(self.workers.builders, self.workers.quiet, CodeCache())

    def close(self) -> None:
        """End every process and remove the folder; may be called twice."""
        self.workers.close()


class MeasurePool:
    """The measuring processes of one task; a context manager that leaves none behind.

    Args:
        shared: processes that pools of other tasks use, too, one pool after the other; they stay
            open when this pool is closed.
    """

    def __init__(
        self,
        dag: Dag,
        target: Target,
        settings: MeasureSettings | None = None,
        shared: "SharedProcesses | None" = None,
    ) -> None:
        self.dag = dag
        self.target = target
        self.settings = settings or MeasureSettings()
        self._owned = SharedProcesses(target, self.settings) if shared is None else None
        processes = shared or self._owned
        assert processes is not None  # one or the other
        self.workers, self.queue = processes.workers, processes.queue
        self.cases = CaseFolders(dag, self.settings.seed, self.settings.edges, self.workers.sealed)
        self.slot = LocalSlot(self.workers, self.cases, self.settings)
        self.batches = BatchMeasurer(self.queue, self.slot, self.settings.backend, target)
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
        """Return one outcome per candidate, in order; `None` if it became late first.

        An unbound candidate that cannot become loops is a failed build. Unbound candidates with
        equal machine code share one measurement.

        Args:
            best_s: the least cost so far: timing of a much slower kernel ends early.
            late: once it is true, nothing more is built or measured.
        """
        self._get_ready()
        with self._intact():
            timeout_s = self.settings.build_timeout_s
            return self.batches.measure(candidates, best_s, late, timeout_s)

    def begin_cases(self) -> None:
        """Start to compute the references of all cases beside other work; return at once."""
        self.cases.begin_others()

    def prebuild(self, candidates: Sequence[Unbound], later: bool = False) -> None:
        """Start to build candidates of a later `measure` on all cores but one; return at once.

        With one core, or before the builders have started, nothing happens.

        Args:
            later: start once the next `measure` has nothing left to build, unless it is late then.
        """
        with self._intact():
            self.batches.prebuild(candidates, self.settings.build_timeout_s, later)

    def prebuild_libraries(self, *exports: Export) -> None:
        """Start to build libraries of a later `export`, as `prebuild` does candidates."""
        requests = [BuildRequest(SHARED, what, self.target) for what in exports]
        with self._intact():
            self.queue.prebuild(requests, self.settings.build_timeout_s)

    def prebuild_source(self, kernel: Kernel) -> None:
        """Start to build a kernel that is going to race, on two builders; return at once."""
        with self._intact():
            request = self.batches.request_of(kernel)
            self.queue.prebuild_one(request, self.settings.source_timeout_s, SOURCE_BUILDERS)

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
        """Check the contestants, then time them in turns in several fresh processes.

        With `numpy`, NumPy's evaluation takes part under that name, if there is one; if it fails,
        the kernels race without it, and its entry is the failure. A contestant that is clearly
        beaten in the first process does not run in the others.

        Args:
            first_case_s: names of contestants that run the first case only, with its time-out in
                seconds; `verify` such a kernel before its delivery.
            late: once it is true, no further process is started.
            beside: work of this process, done in a thread until the timing begins.
            own: kernels of the user's own, which race as "own: NAME" if they pass every case.
            peers: installed libraries race as "peer: NAME" if they have operators for the Dag.
        """
        self._get_ready()
        with self._intact():
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
        """Time candidates that passed their trials again, in turns in one fresh process.

        They are not checked again: finalists are checked before their race.

        Args:
            budget_s: seconds of timing for all together; each is sampled three times at least.
            beside: a kernel that is probably going to race: it is built meanwhile, if there is a
                builder on another core.

        Returns:
            Time and machine code of each candidate; None if it cannot be built or timed.
        """
        self._get_ready()
        with self._intact():
            return shortlist.rerank(self.batches, self.slot, candidates, budget_s, beside)

    def attainable_flop_per_s(self) -> float:
        """Return the operations per second that no kernel of the task exceeds; 0.0 if unknown.

        The peak of a core is measured before a race, while its first contestant is built.
        """
        with self._intact():
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
        if self.target.kind != "cpu":
            return
        self.workers.slot.call_in_background(
            CORE_PEAK, self.target, self.settings.run_timeout_s, self._note_peak, fresh=True
        )

    def _note_peak(self, reply: Reply) -> None:
        self._peak = reply

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        """Build a kernel and run every case; return the failure, None if all pass."""
        self.cases.all()
        with self._intact():
            timeout_s = self.settings.source_timeout_s
            (verdict,) = self.batches.check([kernel], [None], timeout_s)
        return verdict if isinstance(verdict, Failed) else None

    def begin_call(self, files: Mapping[str, bytes], meaning: Dag | None = None) -> DeliveredCall:
        """Start to import a delivered `kernel.py` and to run the first case through its `run`.

        The call goes on beside later work if a core is free for it; `end_call` has its result.

        Args:
            files: `kernel.py` and the files beside it, by name.
            meaning: the Dag that it computes after a reformulation.
        """
        self.cases.all()
        with self._intact():
            return delivered_call.begin_call(self.slot, files, meaning)

    def end_call(self, call: DeliveredCall) -> Failed | float:
        """Return the seconds of a call with import and compilation, or its failure.

        Results, dtypes and shapes are checked.
        """
        with self._intact():
            return delivered_call.end_call(self.slot, call)

    def export(self, *exports: Export, first_only: bool = False) -> Exported | Failed:
        """Build libraries, run every case through their own functions, and time them.

        Args:
            first_only: run the first case only, dense random numbers, for a first answer.

        Returns:
            The fastest library that passed every case; if none did, the failure of the first one.
        """
        with self._intact():
            timeout_s = self.settings.build_timeout_s
            found = libraries.fastest(
                self.queue, self.slot, exports, self.target, first_only, timeout_s
            )
            self.workers.start_others()  # not earlier: their imports would delay a first answer
        return found

    def _get_ready(self) -> None:
        """Start every process, and make the cases while they import."""
        with self._intact():
            self.workers.start_others()
        self.cases.all()

    @contextmanager
    def _intact(self) -> Generator[None]:
        """Kill the processes if the block raises: half a frame may be in a pipe."""
        try:
            yield
        except BaseException:
            self.workers.abandon()
            self.queue.forget()
            raise
