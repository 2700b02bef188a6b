"""What is asked of the slot and the runner about one candidate, call by call."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from ansorpy.codegen.exported_types import Library
from ansorpy.measure.backend import SHARED
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.timing.protocol import QUIET
from ansorpy.measure.timing.trial import Checked, Trial
from ansorpy.measure.timing.worker_pool import CHILD, Crew, build_of
from ansorpy.measure.workers.failure_kinds import failed_run
from ansorpy.measure.workers.pipeline import Call, Steps
from ansorpy.measure.workers.replies import Returned
from ansorpy.measure.workers.worker import START_S, Worker
from ansorpy.measure.workers.worker_main import BuildDone, BuildJob

TRIAL: Final = "ansorpy.measure.timing.trial"


def built(crew: Crew, job: BuildJob, timeout_s: float) -> Steps[BuildDone | Failed]:
    """Build one thing."""
    start = time.monotonic()
    reply = yield Call(crew.builders[0], f"{CHILD}:build", job, timeout_s)
    return build_of(reply, time.monotonic() - start)


def trial(crew: Crew, job: Trial, fresh: bool) -> Steps[Outcome]:
    """Check and time machine code; once more where it leads in a moment that was not quiet.

    All others are measured against what leads, and who is far behind does not race.
    """
    found = yield from _trial(crew, job, fresh)
    if not isinstance(found, Measured) or found.slowdown <= QUIET or not job.led_by(found):
        return found
    again = yield from _trial(crew, job, False)
    if not isinstance(again, Measured):
        return again
    return min(found, again, key=lambda one: one.slowdown)


def _trial(crew: Crew, job: Trial, fresh: bool) -> Steps[Outcome]:
    if crew.target.cores == 1:
        return (yield from _run(crew, crew.slot, "trial", job, fresh))
    looked = yield from check(crew, job, fresh, crew.settings.run_timeout_s, "look")
    if isinstance(looked, Failed):
        return looked
    # A runner that was replaced imports first; that is not the candidate's time.
    yield Call(crew.runner, f"{CHILD}:prepare", job.backend, START_S)
    outcome = yield from _run(crew, crew.runner, "time_parallel", job, False)
    if not isinstance(outcome, Measured):
        return outcome
    check_s = outcome.check_s + looked.check_s
    if job.led_by(outcome):
        checked = yield from check(crew, job, False, crew.settings.run_timeout_s)
        if isinstance(checked, Failed):
            return checked
        check_s += checked.check_s
    return replace(outcome, check_s=check_s)


def trial_of_library(crew: Crew, library: Library, cases: Path) -> Steps[Outcome]:
    """Check and time a library through its own functions, with the cases of a folder."""
    job = crew.trial_in(cases, library, None, SHARED)
    if crew.target.cores == 1:
        return (yield from _run(crew, crew.slot, "trial", job, True))
    checked = yield from check(crew, job, True, crew.settings.run_timeout_s)
    if isinstance(checked, Failed):
        return checked
    # A process of its own: OpenMP in the runner has bound the threads it would start.
    runner = crew.bare_worker()
    try:
        yield Call(runner, f"{CHILD}:prepare", SHARED, START_S)
        return (yield from _run(crew, runner, "time_parallel", job, False))
    finally:
        runner.close()


def check(
    crew: Crew, job: Trial, fresh: bool, timeout_s: float, how: str = "check"
) -> Steps[Checked | Failed]:
    """Run every case on one thread, or only `look` at the first."""
    start = time.monotonic()
    reply = yield Call(crew.slot, f"{TRIAL}:{how}", job, timeout_s, fresh)
    if isinstance(reply, Returned) and isinstance(reply.value, Checked):
        return reply.value
    return failed_run(reply, time.monotonic() - start)


def _run(crew: Crew, worker: Worker, function: str, job: Trial, fresh: bool) -> Steps[Outcome]:
    start = time.monotonic()
    timeout_s = crew.settings.run_timeout_s
    reply = yield Call(worker, f"{TRIAL}:{function}", job, timeout_s, fresh)
    if isinstance(reply, Returned) and isinstance(reply.value, Measured):
        return reply.value
    return failed_run(reply, time.monotonic() - start)
