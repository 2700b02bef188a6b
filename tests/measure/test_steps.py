"""What is asked about one candidate, call by call; nothing runs."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.timing.protocol import QUIET, Protocol
from ansorpy.measure.timing.requests import trial
from ansorpy.measure.timing.trial import Checked, Trial
from ansorpy.measure.timing.worker_pool import Crew, Settings
from ansorpy.measure.workers.replies import Returned
from tests.measure.fake import FakeBuilt

QUICK = Measured((2e-4,))
GOOD_LOUD = Measured((2e-3,), slowdown=20.0)  # 0.1 ms, it says
BAD_LOUD = Measured((2e-2,), slowdown=20.0)  # 1 ms


def asked(cores: int, best_s: float | None, *found: Outcome) -> tuple[Outcome, int]:
    """Return what becomes of the outcomes of a candidate's runs, and how many there were."""
    fake = SimpleNamespace(
        target=SimpleNamespace(cores=cores), settings=Settings(), slot=object(), runner=object()
    )
    job = Trial("fake", FakeBuilt("good", ()), "", Protocol(), cores, best_s)
    left = list(found)
    steps = trial(cast(Crew, fake), job, True)
    call = next(steps)
    while True:
        reply: Any = Checked(0.0, 0.0)
        if call.function.endswith((":trial", ":time_parallel")):
            reply = left.pop(0)
        try:
            call = steps.send(Returned(reply))
        except StopIteration as end:
            return end.value, len(found) - len(left)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("best_s", "found", "kept", "runs"),
    [
        (None, [QUICK], 0, 1),
        (5e-4, [QUICK], 0, 1),
        (5e-4, [Measured((2e-4 * QUIET,), slowdown=QUIET)], 0, 1),
        (5e-4, [BAD_LOUD], 0, 1),  # behind whatever the machine did
        (5e-4, [GOOD_LOUD, Measured((1e-3,), slowdown=1.1)], 1, 2),
        (5e-4, [GOOD_LOUD, Measured((3e-3,), slowdown=30.0)], 0, 2),
        (5e-4, [GOOD_LOUD, Failed("wrong", "C[0] is 1, not 2")], 1, 2),
    ],
)
def test_what_leads_in_a_loud_moment_is_timed_once_more(
    cores: int, best_s: float | None, found: list[Outcome], kept: int, runs: int
) -> None:
    outcome, count = asked(cores, best_s, *found)
    assert count == runs
    if isinstance(outcome, Failed):
        assert outcome.message == "C[0] is 1, not 2"
    else:
        assert outcome == found[kept]
