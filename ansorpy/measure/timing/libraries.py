"""The fastest of several libraries of one task: one is built while another is checked and timed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorpy.codegen.exported_types import Export, Library
from ansorpy.measure.backend import SHARED, MachineCode
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.protocols import BuildRequest, BuildResult, Checked, Slot, TrialRequest
from ansorpy.measure.timing.batch import REFERENCE_S
from ansorpy.measure.workers.build_queue import BuildQueue
from ansorpy.measure.workers.pipeline import BuildRunPipeline
from ansorpy.target import Target


@dataclass(frozen=True, slots=True)
class Exported:
    """A library whose own functions passed every case, and their times."""

    library: Library
    outcome: Measured


def fastest(
    queue: BuildQueue,
    slot: Slot,
    exports: Sequence[Export],
    target: Target,
    first_only: bool,
    timeout_s: float,
) -> Exported | Failed:
    """Return the library of least cost that passed every case; if none did, the first failure.

    The first library that runs is the reference kernel of the others. A library that is slower than
    one before it passed the first case only, and its timing ends early.

    Args:
        first_only: the first case is every case.
        timeout_s: seconds for each build.
    """
    leader: Exported | None = None
    reference: tuple[MachineCode, float] | None = None
    fresh = True

    def trial_of(number: int, done: BuildResult) -> TrialRequest:
        nonlocal fresh
        first, fresh = fresh, False
        best_s = None if leader is None else leader.outcome.cost_s
        meaning = exports[number].program.meaning
        return TrialRequest(done.built, meaning, best_s, reference, first, first_only)

    def outcome_of(_number: int, done: BuildResult, outcome: Outcome | Checked) -> Outcome:
        nonlocal leader, reference
        if isinstance(outcome, Failed):
            return outcome
        assert isinstance(done.built, Library)
        assert isinstance(outcome, Measured), "a slot times a library"
        outcome = replace(outcome, build_s=done.build_s)
        if leader is None or outcome.cost_s < leader.outcome.cost_s:  # else not every case was run
            leader = Exported(done.built, outcome)
        if reference is None and outcome.cost_s < REFERENCE_S:
            reference = done.built, outcome.cost_s
        return outcome

    requests = [BuildRequest(SHARED, what, target) for what in exports]
    queue.prebuild_one(requests[0], timeout_s)  # while the cases are made
    slot.prepare({what.program.meaning for what in exports}, first_only)
    pipeline = BuildRunPipeline[Outcome](queue, slot, trial_of, outcome_of)
    found = pipeline.run(requests, timeout_s)
    if leader is not None:
        return leader
    return next(one for one in found if isinstance(one, Failed))
