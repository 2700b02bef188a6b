"""The calls of a local slot for one request, with workers that answer from a list."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansorpy.codegen.exported_types import Library
from ansorpy.measure.backend import SHARED
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.protocols import Checked, CheckRequest, TrialRequest
from ansorpy.measure.timing.drift import QUIET
from ansorpy.measure.timing.local_slot import LocalSlot
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.verify.case_folders import CaseFolders
from ansorpy.measure.workers.pool import WorkerPool
from ansorpy.measure.workers.replies import Returned
from ansorpy.measure.workers.worker import Worker
from tests.measure.fake import FakeBuilt

QUICK = Measured((2e-4,))
GOOD_LOUD = Measured((2e-3,), slowdown=20.0)  # cost 0.1 ms
BAD_LOUD = Measured((2e-2,), slowdown=20.0)  # cost 1 ms
BUILT = FakeBuilt("good", ())
FIRST = Path("first")


class Scripted:
    """A worker that answers timings from a list, and every check with success."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self.outcomes = outcomes
        self.calls: list[tuple[str, float, bool]] = []
        self.jobs: list[Any] = []

    def send(self, function: str, argument: Any, timeout_s: float, *, fresh: bool = False) -> None:
        self.calls.append((function.rpartition(":")[2], timeout_s, fresh))
        self.jobs.append(argument)

    def receive(self) -> Returned:
        timed = self.calls[-1][0] in ("trial", "time_parallel")
        return Returned(self.outcomes.pop(0) if timed else Checked(0.0, 0.0))


def slot_of(cores: int, outcomes: list[Outcome]) -> tuple[LocalSlot, Scripted]:
    worker = Scripted(outcomes)
    workers = SimpleNamespace(threads=cores, slot=worker, runner=worker, quiet=frozenset())
    cases = SimpleNamespace(of=lambda meaning, cases=None: cases or Path(), first=lambda: FIRST)
    return LocalSlot(cast(WorkerPool, workers), cast(CaseFolders, cases), MeasureSettings()), worker


def answer_of(slot: LocalSlot, request: TrialRequest | CheckRequest) -> Outcome | Checked:
    slot.submit(request)
    while (answer := slot.advance()) is None:
        pass
    return answer


def asked(cores: int, best_s: float | None, *found: Outcome) -> tuple[Outcome, int]:
    """Return the outcome of a trial whose timings are given, and how many were used."""
    left = list(found)
    slot, _ = slot_of(cores, left)
    outcome = answer_of(slot, TrialRequest(BUILT, None, best_s, fresh=True))
    assert not isinstance(outcome, Checked)
    return outcome, len(found) - len(left)


def test_a_check_runs_every_case_or_only_the_first_in_a_fresh_child() -> None:
    slot, worker = slot_of(1, [])
    assert isinstance(answer_of(slot, CheckRequest(BUILT, None)), Checked)
    assert isinstance(answer_of(slot, CheckRequest(BUILT, None, 2.5)), Checked)
    race_s = MeasureSettings().race_timeout_s
    assert worker.calls == [("check", race_s, True), ("glance_at", 2.5, True)]


def test_a_trial_on_several_threads_is_timed_between_two_checks() -> None:
    slot, worker = slot_of(2, [QUICK])
    assert answer_of(slot, TrialRequest(BUILT, None)) == QUICK
    functions = [function for function, _, _ in worker.calls]
    assert functions == ["glance_at", "prepare", "time_parallel", "check"]


def test_a_library_is_checked_and_timed_through_its_own_functions() -> None:
    slot, worker = slot_of(1, [QUICK])
    library = Library(b"", b"", (), (), "mm", (), 0, 0)
    assert answer_of(slot, TrialRequest(library, None, fresh=True, first_only=True)) == QUICK
    assert [(job.backend, job.folder) for job in worker.jobs] == [(SHARED, str(FIRST))]
    slot, worker = slot_of(2, [QUICK])
    slot.workers.runner = cast(Worker, Scripted([]))
    assert answer_of(slot, TrialRequest(library, None)) == QUICK
    assert [function for function, _, _ in worker.calls] == ["glance_at", "time_parallel", "check"]


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("best_s", "found", "kept", "runs"),
    [
        (None, [QUICK], 0, 1),
        (5e-4, [QUICK], 0, 1),
        (5e-4, [Measured((2e-4 * QUIET,), slowdown=QUIET)], 0, 1),
        (5e-4, [BAD_LOUD], 0, 1),  # behind at any slowdown
        (5e-4, [GOOD_LOUD, Measured((1e-3,), slowdown=1.1)], 1, 2),
        (5e-4, [GOOD_LOUD, Measured((3e-3,), slowdown=30.0)], 0, 2),
        (5e-4, [GOOD_LOUD, Failed("wrong", "C[0] is 1, not 2")], 1, 2),
    ],
)
def test_a_leader_measured_during_a_slowdown_is_timed_again(
    cores: int, best_s: float | None, found: list[Outcome], kept: int, runs: int
) -> None:
    outcome, count = asked(cores, best_s, *found)
    assert count == runs
    if isinstance(outcome, Failed):
        assert outcome.message == "C[0] is 1, not 2"
    else:
        assert outcome == found[kept]
