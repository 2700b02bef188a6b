"""The pool of a task whose trials a measuring back end of another package times (ADR-0168).

Candidates are built in the ordinary builders. Leaders are checked, timed and raced by the slot of
this machine.
"""

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.pool import MeasurePool, SharedProcesses
from ansorpy.measure.protocols import Checked, CheckRequest, Measurer, Slot, TrialRequest
from ansorpy.measure.timing.batch import BatchMeasurer
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.unbound import Unbound
from ansorpy.target import Target
from ansorpy.te.dag import Dag

PATIENCE_S: Final = 1.0  # an answer is there before it is asked for


class MeasurerSlot:
    """The slot of a measuring back end, which answers while a request is submitted.

    Builders pause and other jobs wait as for `place`, the slot of this machine: the back end may
    use the machine.
    """

    def __init__(self, measurer: Measurer, dag: Dag, place: Slot) -> None:
        self._measurer, self._dag, self._place = measurer, dag, place
        self._answer: Measured | Failed | None = None
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._descriptor)

    @property
    def cores(self) -> frozenset[int]:
        """The cores of the slot of this machine."""
        return self._place.cores

    def prepare(self, meanings: Iterable[Dag | None], first_only: bool = False) -> None:
        """Do nothing: the back end has no cases of ours."""

    def reserve(self) -> AbstractContextManager[None]:
        """Keep other jobs of this machine from timing."""
        return self._place.reserve()

    def submit(self, request: TrialRequest | CheckRequest) -> None:
        """Time the machine code of a trial; checks go to the slot of this machine."""
        assert isinstance(request, TrialRequest)
        self._answer = self._measurer.measure(request, request.meaning or self._dag)
        os.eventfd_write(self._descriptor, 1)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is an answer."""
        return self._descriptor

    def patience_s(self) -> float:
        """Return the seconds to wait for the descriptor."""
        return PATIENCE_S

    def advance(self) -> Outcome | Checked | None:
        """Return the answer."""
        os.eventfd_read(self._descriptor)
        answer, self._answer = self._answer, None
        return answer


class MeasurerPool(MeasurePool):
    """A pool whose trials are timed by a measuring back end of another package.

    Args:
        measurer: serves the pools of all tasks.
        dag, target, settings, shared: as `MeasurePool` takes them.
    """

    def __init__(
        self,
        measurer: Measurer,
        dag: Dag,
        target: Target,
        settings: MeasureSettings | None = None,
        shared: SharedProcesses | None = None,
    ) -> None:
        super().__init__(dag, target, settings, shared)
        slot = MeasurerSlot(measurer, dag, self.slot)
        self.trials = BatchMeasurer(self.queue, slot, self.settings.backend, target)

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        """Return one outcome per candidate; as `MeasurePool.measure`.

        Outcomes by equal machine code are those of the back end: the cache is of this tuning.
        """
        with self._intact():
            self.workers.start_others()
            return self.trials.measure(candidates, best_s, late, self.settings.build_timeout_s)
