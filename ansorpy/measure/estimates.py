"""The pool that estimates candidates of one task, and checks finalists under the emulator.

Candidates are built in the ordinary builders, by a back end whose machine code is an estimate;
nothing is timed, so there is no race. Finalists are built for the emulator and checked in the
ordinary isolated children, on every case and in both orders of threads (ADR-0143).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NoReturn, Protocol, Self, cast

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.local import LocalPool, LocalProcesses
from ansorpy.measure.outcome import Estimated, Failed, Outcome
from ansorpy.measure.protocols import BuildRequest, BuildResult
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.unbound import Unbound
from ansorpy.measure.workers.pipeline import BuildRunPipeline
from ansorpy.target import Target
from ansorpy.te.dag import Dag

ESTIMATOR: Final = "ansorpy.cost.estimator"
EMULATOR: Final = "ansorpy.codegen.simt.emulator"
CHECK_S: Final = 600.0  # time-out of the cases of one kernel: emulation takes 1000 times as long


class _EstimatedCode(Protocol):
    """Machine code of the back end ESTIMATOR."""

    @property
    def outcome(self) -> Estimated | Failed:
        """The estimate, or the reason why the program cannot run."""
        ...


def emulated(settings: MeasureSettings | None = None) -> MeasureSettings:
    """Return settings whose children run kernels under the emulator."""
    return replace(settings or MeasureSettings(), backend=EMULATOR, race_timeout_s=CHECK_S)


class EstimatePool:
    """A pool whose outcomes are estimates; a context manager.

    Args:
        dag, target, shared: as `LocalPool` takes them; the target is a GPU with its facts.
        settings: as `emulated` returns them.
    """

    def __init__(
        self,
        dag: Dag,
        target: Target,
        settings: MeasureSettings | None = None,
        shared: LocalProcesses | None = None,
    ) -> None:
        self._settings, self._target = settings or emulated(), target
        self._checks = LocalPool(dag, target, self._settings, shared)
        self._processes = self._checks.processes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        """Return one estimate or failure per candidate, in order; `None` if it became late first.

        Args:
            best_s, late: as `MeasurePool.measure` takes them; nothing is timed, so nothing is given
                up early.
        """
        del best_s
        queue = self._processes.queue
        with self._processes.intact():
            self._processes.workers.start_others()
            pipeline = BuildRunPipeline[Outcome | None](
                queue, None, lambda _, done: _outcome(done), _no_answer, (late, None)
            )
            requests = [self._request_of(one) for one in candidates]
            return pipeline.run(requests, self._settings.build_timeout_s)

    def prebuild(self, *requests: Unbound | Kernel | Export, later: bool = False) -> None:
        """Start to estimate candidates of a later `measure`; as `MeasurePool.prebuild`."""
        queue, timeout_s = self._processes.queue, self._settings.build_timeout_s
        candidates = [self._request_of(one) for one in requests if isinstance(one, Unbound)]
        with self._processes.intact():
            queue.prebuild(candidates, timeout_s, later)

    def begin_cases(self) -> None:
        """Start to compute the references of all cases beside other work; return at once."""
        self._checks.begin_cases()

    def verify(self, kernel: Program | Kernel) -> Failed | None:
        """Run every case of a kernel under the emulator; return the failure, None if all pass."""
        return self._checks.verify(kernel)

    def close(self) -> None:
        """End the work for the task; may be called twice."""
        self._checks.close()

    def _request_of(self, what: Program | Unbound) -> BuildRequest:
        return BuildRequest.of(ESTIMATOR, what, self._target)


def _outcome(done: BuildResult) -> Outcome:
    found = cast(_EstimatedCode, done.built).outcome
    return found if isinstance(found, Failed) else replace(found, build_s=done.build_s)


def _no_answer(*_: object) -> NoReturn:
    raise AssertionError("no slot was asked")
