"""A slot of local worker processes; see `measure.protocols.Slot`.

On one thread the slot worker checks and times a kernel in one call. On several threads, and in
copies side by side, the slot worker looks at the first case, the runner times (the slot worker, if
it is a library), and the slot worker checks every case of a kernel that leads.
"""

import time
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from ansorpy.codegen.exported_types import Library
from ansorpy.measure.backend import SHARED, MachineCode
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.protocols import Checked, CheckRequest, TrialRequest
from ansorpy.measure.timing.drift import QUIET
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.timing.trial import Trial
from ansorpy.measure.verify.case_folders import CaseFolders
from ansorpy.measure.workers.failure_kinds import failed_run
from ansorpy.measure.workers.pool import WorkerPool
from ansorpy.measure.workers.replies import Reply, Returned
from ansorpy.measure.workers.worker import START_S, Worker
from ansorpy.measure.workers.worker_main import PREPARE
from ansorpy.te.dag import Dag

TRIAL: Final = "ansorpy.measure.timing.trial"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerCall:
    """One call of a worker."""

    worker: Worker
    function: str
    argument: object
    timeout_s: float
    fresh: bool = False


Calls = Generator[WorkerCall, Reply, T]  # calls one after the other, each answered, then a result


class LocalSlot:
    """The slot worker and the runner of a pool."""

    def __init__(self, workers: WorkerPool, cases: CaseFolders, settings: MeasureSettings) -> None:
        self.workers, self.cases, self.settings = workers, cases, settings
        self._calls: Calls[Outcome | Checked] | None = None
        self._worker = workers.slot  # the worker of the call in progress

    @property
    def cores(self) -> frozenset[int]:
        """The cores of the slot and their SMT siblings."""
        return self.workers.quiet

    def prepare(self, meanings: Iterable[Dag | None], first_only: bool = False) -> None:
        """Make the cases of these meanings, or the first one only."""
        for meaning in meanings:
            self._folder(meaning, first_only)

    def reserve(self) -> AbstractContextManager[None]:
        """Keep other jobs of this machine from timing on the cores of the slot."""
        return self.workers.reserve()

    def submit(self, request: TrialRequest | CheckRequest) -> None:
        """Start the first call of a request."""
        self._calls = self._calls_of(request)
        self._send(next(self._calls))

    def fileno(self) -> int:
        """Return the descriptor of the worker in use."""
        return self._worker.fileno()

    def patience_s(self) -> float:
        """Return the seconds until a silent worker counts as lost."""
        return self._worker.patience_s()

    def advance(self) -> Outcome | Checked | None:
        """Take the reply to a call; start the next one, or return the answer."""
        assert self._calls is not None
        try:
            self._send(self._calls.send(self._worker.receive()))
        except StopIteration as end:
            self._calls = None
            answer: Outcome | Checked = end.value
            return answer
        return None

    def _folder(self, meaning: Dag | None, first_only: bool) -> Path:
        return self.cases.of(meaning, self.cases.first() if first_only else None)

    def _send(self, call: WorkerCall) -> None:
        self._worker = call.worker
        call.worker.send(call.function, call.argument, call.timeout_s, fresh=call.fresh)

    def _trial(
        self,
        built: MachineCode,
        cases: Path,
        best_s: float | None = None,
        reference: tuple[MachineCode, float] | None = None,
    ) -> Trial:
        """Return the argument of a worker that checks or times machine code."""
        settings, threads = self.settings, self.workers.threads
        backend = SHARED if isinstance(built, Library) else settings.backend
        return Trial(backend, built, str(cases), settings.sampling, threads, best_s, reference)

    def _calls_of(self, request: TrialRequest | CheckRequest) -> Calls[Outcome | Checked]:
        if isinstance(request, TrialRequest):
            cases = self._folder(request.meaning, request.first_only)
            job = self._trial(request.built, cases, request.best_s, request.reference)
            return self._trial_calls(job, request.fresh)
        job = self._trial(request.built, self._folder(request.meaning, False))
        if request.glance_s is None:
            return self._check(job, True, self.settings.race_timeout_s)
        return self._check(job, True, request.glance_s, "glance_at")

    def _trial_calls(self, job: Trial, fresh: bool) -> Calls[Outcome]:
        """Check and time a kernel; time it again if it leads while the machine is slowed down.

        All later candidates are compared with the leader, and the race has near ones only.
        """
        first = yield from self._one_trial(job, fresh)
        if not isinstance(first, Measured) or first.slowdown <= QUIET or not job.led_by(first):
            return first
        again = yield from self._one_trial(job, False)
        if not isinstance(again, Measured):
            return again
        return min(first, again, key=lambda one: one.slowdown)

    def _one_trial(self, job: Trial, fresh: bool) -> Calls[Outcome]:
        workers, timeout_s = self.workers, self.settings.run_timeout_s
        if workers.threads == 1:
            return (yield from self._time(workers.slot, "trial", job, fresh))
        glanced = yield from self._check(job, fresh, timeout_s, "glance_at")
        if isinstance(glanced, Failed):
            return glanced
        # A library starts threads of its own, which OpenMP in the runner would have bound. Copies
        # have one thread each, which binds itself to its core. The fork server of the slot has
        # loaded all modules: it replaces the child with these threads in some milliseconds.
        own_threads = job.backend == SHARED and not job.sampling.cores
        runner = workers.slot if own_threads else workers.runner
        if not own_threads:  # a runner that was replaced imports first, outside of the time-out
            yield WorkerCall(runner, PREPARE, job.backend, START_S)
        outcome = yield from self._time(runner, "time_parallel", job, False)
        if not isinstance(outcome, Measured):
            return outcome
        check_s = outcome.check_s + glanced.check_s
        if job.led_by(outcome):
            checked = yield from self._check(job, False, timeout_s)
            if isinstance(checked, Failed):
                return checked
            check_s += checked.check_s
        return replace(outcome, check_s=check_s)

    def _check(
        self, job: Trial, fresh: bool, timeout_s: float, function: str = "check"
    ) -> Calls[Checked | Failed]:
        """Run every case on one thread, or the first one only ("glance_at")."""
        start = time.monotonic()
        reply = yield WorkerCall(self.workers.slot, f"{TRIAL}:{function}", job, timeout_s, fresh)
        if isinstance(reply, Returned) and isinstance(reply.value, Checked):
            return reply.value
        return failed_run(reply, time.monotonic() - start)

    def _time(self, worker: Worker, function: str, job: Trial, fresh: bool) -> Calls[Outcome]:
        start = time.monotonic()
        reply = yield WorkerCall(
            worker, f"{TRIAL}:{function}", job, self.settings.run_timeout_s, fresh
        )
        if isinstance(reply, Returned) and isinstance(reply.value, Measured):
            return reply.value
        return failed_run(reply, time.monotonic() - start)
