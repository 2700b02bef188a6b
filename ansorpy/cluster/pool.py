"""The pools of a tuning on several slots: trials are shared, finalists stay on one slot."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from threading import Lock
from typing import Final

from ansorpy.cluster.calls import TaskCalls
from ansorpy.cluster.crew import Crew
from ansorpy.cluster.sharing import Candidate, Scale, SharedRound
from ansorpy.cluster.slots import SlotGroup
from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.pool import Memory, RacePool
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.libraries import Exported
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.paired_benchmark import SizedTimes
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.timing.shortlist import ShortlistTime
from ansorpy.measure.unbound import Unbound
from ansorpy.target import Target
from ansorpy.te.dag import Dag

ROUNDS: Final = 8  # rounds under way at most: proposals without the outcomes of more are worse


class ClusterPool:
    """The pool of one task, as `RacePool`: all slots measure, one of them checks and races.

    Args:
        scale: of the costs of the task; it outlives a pool that is closed and opened again.
    """

    def __init__(self, calls: TaskCalls, settings: MeasureSettings, scale: Scale) -> None:
        self._calls, self._settings, self._scale = calls, settings, scale
        self._turn = Lock()  # rounds of one task are measured one after the other

    def measure(
        self,
        candidates: Sequence[Candidate],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        """Return one outcome per candidate, in order; as `MeasurePool.measure`."""
        timeout_s = self._settings.run_timeout_s
        shared = SharedRound(self._calls, self._scale, candidates, best_s, timeout_s, late)
        with self._turn:
            return shared.run()

    def prebuild(self, *requests: Unbound | Kernel | Export, later: bool = False) -> None:
        """Start to build finalists and libraries; no slot is known for a candidate by now."""
        finals = [one for one in requests if not isinstance(one, Unbound)]
        if finals:
            self._calls.begin("prebuild", *finals, later=later)

    def begin_cases(self) -> None:
        """Start to compute the references of all cases on the slot of the finalists."""
        self._calls.begin("begin_cases")

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        """Return the failure of a kernel, None if all cases pass; as `MeasurePool.verify`."""
        found: Failed | None = self._calls.at_home((Failed, type(None)), "verify", kernel)
        return found

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
        """Race kernels on one slot; as `RacePool.race`, but once begun, no race is too late."""
        beside()
        return self._calls.at_home(
            dict, "race", dict(contestants), numpy, first_case_s, own=list(own), peers=peers
        )

    def rerank(
        self,
        candidates: Sequence[Candidate],
        budget_s: float,
        beside: Kernel | None = None,
    ) -> list[ShortlistTime | None]:
        """Time candidates again on one slot; as `RacePool.rerank`."""
        return self._calls.at_home(list, "rerank", list(candidates), budget_s, beside)

    def time_sizes(
        self, kernel: Program | Kernel, sizes: Sequence[tuple[int, ...]], numpy: bool
    ) -> SizedTimes | Failed:
        """Return the seconds of a call at single sizes; as `RacePool.time_sizes`."""
        found: SizedTimes | Failed = self._calls.at_home(
            (tuple, Failed), "time_sizes", kernel, list(sizes), numpy
        )
        return found

    def begin_call(
        self, files: Mapping[str, bytes], meaning: Dag | None = None
    ) -> Callable[[], Failed | float]:
        """Return a function that calls a delivered file; as `RacePool.begin_call`."""

        def end() -> Failed | float:
            found: Failed | float = self._calls.at_home(
                (Failed, float), "begin_call", dict(files), meaning
            )
            return found

        return end

    def export(self, *exports: Export, first_only: bool = False) -> Exported | Failed:
        """Return the fastest right library; as `RacePool.export`."""
        found: Exported | Failed = self._calls.at_home(
            (Exported, Failed), "export", *exports, first_only=first_only
        )
        return found

    def attainable_flop_per_s(self) -> float:
        """Return the operations per second that no kernel exceeds on the slot of the finalists."""
        return self._calls.at_home(float, "attainable_flop_per_s")

    def close(self) -> None:
        """Close the pool on every slot; may be called twice."""
        self._calls.close()


class ClusterBackEnd:
    """Pools on slots of the kind of a target; the driver may have no core of that kind."""

    def __init__(
        self, slots: SlotGroup, target: Target, settings: MeasureSettings, crew: Crew | None = None
    ) -> None:
        self._slots, self._settings = slots, settings
        self.crew = crew or Crew(slots, target)
        self._numbers = count(1)
        self._scales: dict[tuple[Dag, int], Scale] = {}

    def open(self, dag: Dag, target: Target, cold_bytes: int) -> RacePool:
        """Return a pool for a task; slots open theirs with the first question about it."""
        opening = dag, target, cold_bytes, self._settings
        scale = self._scales.setdefault((dag, cold_bytes), Scale())
        calls = TaskCalls(self.crew, next(self._numbers), opening)
        return ClusterPool(calls, self._settings, scale)

    def memory(self) -> Memory:
        """Return the limit of one candidate; slots tell nothing of their memory."""
        return Memory(candidate_bytes=self._settings.limits.memory_bytes)

    def rounds(self) -> int:
        """Return as many rounds as there are slots, up to a limit."""
        return max(1, min(ROUNDS, len(self.crew.usable())))

    def news(self) -> list[str]:
        """Return the number of slots if it has changed, and why some are not used."""
        return self.crew.news()

    def close(self) -> None:
        """End the work on all slots; may be called twice."""
        self.crew.close()
        self._slots.close()
