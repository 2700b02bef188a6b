"""The processes that estimate candidates of one task, and check finalists under the emulator.

Candidates are built in the ordinary builders, by a back end whose machine code is an estimate;
nothing is timed. Finalists are built for the emulator and checked in the ordinary isolated
children, on every case and in both orders of threads (ADR-0143).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn, Protocol, cast

from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Estimated, Failed, Outcome
from ansorpy.measure.pool import MeasurePool, SharedProcesses
from ansorpy.measure.protocols import BuildResult
from ansorpy.measure.timing.batch import BatchMeasurer
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


class EstimatePool(MeasurePool):
    """A pool whose outcomes are estimates; it has no times, and so no race.

    Args:
        dag, target, shared: as `MeasurePool` takes them; the target is a GPU with its facts.
        settings: as `emulated` returns them.
    """

    def __init__(
        self,
        dag: Dag,
        target: Target,
        settings: MeasureSettings | None = None,
        shared: SharedProcesses | None = None,
    ) -> None:
        super().__init__(dag, target, settings or emulated(), shared)
        self.estimates = BatchMeasurer(self.queue, self.slot, ESTIMATOR, target)

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
        with self._intact():
            self.workers.start_others()
            pipeline = BuildRunPipeline[Outcome | None](
                self.queue, None, lambda _, done: _outcome(done), _no_answer, (late, None)
            )
            requests = [self.estimates.request_of(one) for one in candidates]
            return pipeline.run(requests, self.settings.build_timeout_s)

    def prebuild(self, candidates: Sequence[Unbound], later: bool = False) -> None:
        """Start to estimate candidates of a later `measure`; as `MeasurePool.prebuild`."""
        with self._intact():
            self.estimates.prebuild(candidates, self.settings.build_timeout_s, later)

    def race(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: an estimate enters no race."""
        raise TypeError("cannot race kernels that are only estimated")

    def rerank(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: times of the emulator say nothing about a GPU."""
        raise TypeError("cannot time kernels that are only estimated")

    def export(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a kernel for a GPU is no library."""
        raise TypeError("cannot export kernels for a GPU as a library")


def _outcome(done: BuildResult) -> Outcome:
    found = cast(_EstimatedCode, done.built).outcome
    return found if isinstance(found, Failed) else replace(found, build_s=done.build_s)


def _no_answer(*_: object) -> NoReturn:
    raise AssertionError("no slot was asked")
