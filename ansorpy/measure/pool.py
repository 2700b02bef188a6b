"""The measuring back end of a tuning, and its pool of one task: the seam between search and time.

Local processes (`local`), estimates without a GPU (`estimates`), a measurer of another package
(`measured_by`) and a remote machine take part by implementing these protocols. A request names no
file, process or core of the caller, and machine code stays behind the seam. Times of one pool
compare with times of the same pool only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.libraries import Exported
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.paired_benchmark import SizedTimes
from ansorpy.measure.timing.shortlist import ShortlistTime
from ansorpy.measure.unbound import Unbound
from ansorpy.target import Target
from ansorpy.te.dag import Dag


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of memory of the machine that measures.

    free_bytes       for the checks of a task; None if the machine does not tell
    candidate_bytes  limit of one candidate; None without a limit
    """

    free_bytes: int | None = None
    candidate_bytes: int | None = None


class MeasurePool(Protocol):
    """The builds, checks and trials of one task."""

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

    def prebuild(self, *requests: Unbound | Kernel | Export, later: bool = False) -> None:
        """Start to build candidates, finalists or libraries of a later call; return at once.

        Candidates and libraries are built on all cores but one: with one core, or before the
        builders have started, none is.

        Args:
            later: start once the next `measure` has nothing left to build, unless it is late then.
        """

    def begin_cases(self) -> None:
        """Start to compute the references of all cases beside other work; return at once."""

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        """Build a kernel and run every case; return the failure, None if all pass."""

    def close(self) -> None:
        """End the work for the task; may be called twice."""


@runtime_checkable
class RacePool(MeasurePool, Protocol):
    """A pool that also times kernels against one another, and calls them as delivered."""

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

    def time_sizes(
        self, kernel: Program | Kernel, sizes: Sequence[tuple[int, ...]], numpy: bool
    ) -> SizedTimes | Failed:
        """Return the seconds of a call at single sizes of the dims, in their order.

        The kernel has raced; it is neither checked nor compared again.

        Args:
            numpy: NumPy's evaluation has raced, too: it takes turns, and is the second of each.
        """

    def begin_call(
        self, files: Mapping[str, bytes], meaning: Dag | None = None
    ) -> Callable[[], Failed | float]:
        """Start to import a delivered `kernel.py` and to run the first case through its `run`.

        The call goes on beside later work if a core is free for it.

        Args:
            files: `kernel.py` and the files beside it, by name.
            meaning: the Dag that it computes after a reformulation.

        Returns:
            A function that waits and returns the seconds of import, compilation and call, or the
            failure: results, dtypes and shapes are checked. It is called once.
        """

    def export(self, *exports: Export, first_only: bool = False) -> Exported | Failed:
        """Build libraries, run every case through their own functions, and time them.

        Args:
            first_only: run the first case only, dense random numbers, for a first answer.

        Returns:
            The fastest library that passed every case; if none did, the failure of the first one.
        """

    def attainable_flop_per_s(self) -> float:
        """Return the operations per second that no kernel of the task exceeds; 0.0 if unknown."""


Pool_co = TypeVar("Pool_co", bound=MeasurePool, covariant=True)


class BackEnd(Protocol[Pool_co]):
    """A place that measures the tasks of a tuning."""

    def open(self, dag: Dag, target: Target, cold_bytes: int) -> Pool_co:
        """Return a pool for a task; its processes may serve other pools of the tuning, too.

        Args:
            cold_bytes: size of all copies of the weights that timed calls go round; 0: hot.
        """

    def memory(self) -> Memory:
        """Return the memory of the machine that measures, before a search needs it."""

    def rounds(self) -> int:
        """Return how many rounds of trials may be under way at once, each in a thread."""

    def news(self) -> list[str]:
        """Return changes of the places that measure, each once."""

    def close(self) -> None:
        """End the work for all tasks; may be called twice."""
