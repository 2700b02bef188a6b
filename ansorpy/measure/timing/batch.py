"""The measurement of batches of candidates by builders and a slot of any kind."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import MachineCode
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.protocols import (
    BuildRequest,
    BuildResult,
    Checked,
    CheckRequest,
    Slot,
    TrialRequest,
)
from ansorpy.measure.timing.drift import QUIET, REFERENCE_RATIO
from ansorpy.measure.unbound import Unbound
from ansorpy.measure.workers.build_queue import BuildQueue
from ansorpy.measure.workers.pipeline import BuildRunPipeline
from ansorpy.target import Target

REFERENCE_S: Final = 0.25  # longest cost of a reference kernel; slow spells are shorter than that


class BatchMeasurer:
    """The trials of one task: each candidate is built, checked and timed beside a reference kernel.

    Args:
        backend: name of the code generator of the builders.
    """

    def __init__(self, queue: BuildQueue, slot: Slot, backend: str, target: Target) -> None:
        self.queue, self.slot = queue, slot
        self._backend, self._target = backend, target
        self.reference: tuple[MachineCode, float] | None = None  # machine code and its usual cost

    def request_of(self, what: Program | Kernel | Unbound) -> BuildRequest:
        """Return the build request of a candidate."""
        return BuildRequest.of(self._backend, what, self._target)

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None,
        late: Callable[[], bool],
        timeout_s: float,
    ) -> list[Outcome | None]:
        """Return one outcome per candidate; as `MeasurePool.measure`."""
        fresh = True

        def trial_of(number: int, done: BuildResult) -> TrialRequest | Measured | None:
            nonlocal fresh
            if late():
                return None
            meaning = candidates[number].meaning
            if isinstance(candidates[number], Unbound):
                known = self.queue.cache.outcome(meaning, done)
                if known is not None:
                    return known
            first, fresh = fresh, False
            return TrialRequest(done.built, meaning, best_s, self.reference, first)

        def outcome_of(
            number: int, done: BuildResult, outcome: Outcome | Checked
        ) -> Outcome | None:
            nonlocal best_s
            if isinstance(outcome, Failed):
                return outcome
            assert isinstance(outcome, Measured), "a slot times a trial"
            self.note_reference(done.built, outcome)
            if outcome.slowdown <= QUIET:
                self.queue.cache.put_outcome(candidates[number].meaning, done.built, outcome)
            best_s = outcome.cost_s if best_s is None else min(best_s, outcome.cost_s)
            return replace(outcome, build_s=done.build_s)

        self.slot.prepare({one.meaning for one in candidates})
        pipeline = BuildRunPipeline[Outcome | None](
            self.queue, self.slot, trial_of, outcome_of, (late, None)
        )
        return pipeline.run([self.request_of(one) for one in candidates], timeout_s)

    def check(
        self,
        candidates: Sequence[Program | Kernel],
        glance_s: Sequence[float | None],
        timeout_s: float,
    ) -> list[tuple[BuildResult, Checked] | Failed]:
        """Build and check candidates; return machine code and report, or the failure.

        Args:
            glance_s: None to run every case, else the time-out of the first one.
        """

        def check_of(number: int, done: BuildResult) -> CheckRequest:
            return CheckRequest(done.built, candidates[number].meaning, glance_s[number])

        def verdict_of(
            _number: int, done: BuildResult, answer: Outcome | Checked
        ) -> tuple[BuildResult, Checked] | Failed:
            if isinstance(answer, Failed):
                return answer
            assert isinstance(answer, Checked)
            return done, answer

        pipeline = BuildRunPipeline[tuple[BuildResult, Checked] | Failed](
            self.queue, self.slot, check_of, verdict_of
        )
        return pipeline.run([self.request_of(one) for one in candidates], timeout_s)

    def note_reference(self, built: MachineCode, outcome: Measured) -> None:
        """Make a kernel the reference if it is much faster than the present one.

        A kernel that is only a little faster may have been lucky, and luck would add up. While the
        machine is slowed down, the old reference kernel hardly ran: the cost of the new one would
        be too small, and so would all later costs.
        """
        if outcome.slowdown > QUIET:
            return
        limit_s = REFERENCE_S if self.reference is None else REFERENCE_RATIO * self.reference[1]
        if outcome.cost_s < limit_s and not outcome.aborted:
            self.reference = built, outcome.cost_s
