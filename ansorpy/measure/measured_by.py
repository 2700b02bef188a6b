"""The slot of a task whose trials a measuring back end of another package times (ADR-0156).

A `LocalPool` with this slot builds candidates in the ordinary builders. Leaders are checked, timed
and raced by the slot of this machine.
"""

import os
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from threading import Thread
from typing import Protocol

from ansorpy.errors import PluginError
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.protocols import Checked, CheckRequest, Measurer, Slot, TrialRequest
from ansorpy.te.dag import Dag


class TimedMeasurer(Measurer, Protocol):
    """A measuring back end whose calls have a time-out."""

    @property
    def timeout_s(self) -> float:
        """The seconds after which a call counts as hanging."""

    def measure(self, trial: TrialRequest, dag: Dag) -> Measured | Failed:
        """Return as `Measurer.measure`; raise PluginError alone."""

    def overdue(self) -> PluginError:
        """Return the error of a call that hangs."""


class MeasurerSlot:
    """The slot of a measuring back end, each call of which has a thread of its own.

    Builders pause and other jobs wait as for `place`, the slot of this machine: the back end may
    use the machine. The thread of a call that hangs is left alone; it ends with the process.
    """

    def __init__(self, measurer: TimedMeasurer, dag: Dag, place: Slot) -> None:
        self._measurer, self._dag, self._place = measurer, dag, place
        self._answer: Measured | Failed | PluginError | None = None
        self._end_s = 0.0  # the time-out of the call, by time.monotonic
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
        """Start to time the machine code of a trial; checks go to the slot of this machine."""
        assert isinstance(request, TrialRequest)
        self._end_s = time.monotonic() + self._measurer.timeout_s
        Thread(target=self._measure, args=(request,), daemon=True).start()

    def _measure(self, request: TrialRequest) -> None:
        try:
            self._answer = self._measurer.measure(request, request.meaning or self._dag)
        except PluginError as error:  # raised again in the thread of the tuning
            self._answer = error
        os.eventfd_write(self._descriptor, 1)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is an answer."""
        return self._descriptor

    def patience_s(self) -> float:
        """Return the seconds that the call in progress has left."""
        return max(0.0, self._end_s - time.monotonic())

    def advance(self) -> Outcome | Checked | None:
        """Return the answer; raise the error of the back end, or of a call that hangs."""
        try:
            os.eventfd_read(self._descriptor)
        except BlockingIOError:
            raise self._measurer.overdue() from None
        answer, self._answer = self._answer, None
        if isinstance(answer, PluginError):
            raise answer
        return answer


def slot_of(measurer: TimedMeasurer) -> Callable[[Dag, Slot], Slot]:
    """Return a function from a Dag and the slot of this machine to the slot of a measurer."""
    return lambda dag, place: MeasurerSlot(measurer, dag, place)
