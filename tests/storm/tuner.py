"""A tuner process with crashing and hanging candidates; everything else is real."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ansorpy.events import Derived, Event, Finished, RoundDone, TaskResult, TimeSpent
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed, Outcome
from ansorpy.measure.timing.settings import MeasureSettings as Measuring
from ansorpy.records import Record
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.journal import JobJournal
from ansorpy.server.worker.tuner_main import main
from ansorpy.target import Target
from ansorpy.tuner.tasks.checkpoint import Checkpoint
from tests.measure.fake import BACKEND, matmul, program

CRASHES, HANGS, ROUNDS = 100, 10, 10
RUN_TIMEOUT_S = 2.0
DAG = matmul()


def storm(
    settings: ServiceSettings, _: Submission, journal: JobJournal, out: Path
) -> Iterator[Event]:
    """Yield the events of a tuning without survivors."""
    begin_s = time.monotonic()
    yield Derived("mm", 1, 1, 0.0)
    failures: Counter[str] = Counter()
    measuring = Measuring(
        backend=BACKEND, run_timeout_s=RUN_TIMEOUT_S, folder=str(out.parent),
        sandbox=settings.sandbox,
    )  # fmt: skip
    with LocalPool(DAG, Target(cores=1), measuring) as pool:
        for number in range(1, ROUNDS + 1):
            names = ["crash"] * (CRASHES // ROUNDS) + ["hang"] * (HANGS // ROUNDS)
            found = pool.measure([program(name, DAG) for name in names])
            outcomes = [outcome for outcome in found if outcome is not None]
            failures.update(o.kind for o in outcomes if isinstance(o, Failed))
            done = RoundDone(
                "mm", number, number * len(names), None, dict(failures), {}, TimeSpent()
            )
            after = Checkpoint(time.monotonic() - begin_s, {}, {}, {}, {})
            journal.append_round(done, records(number, outcomes), after)
            yield done
    yield Finished((nothing(failures),), time.monotonic() - begin_s, "trials")


def records(number: int, outcomes: Sequence[Outcome]) -> list[Record]:
    return [
        Record("storm", "w", "cpu@0", "{}", (number, place), outcome, created_s=time.time())
        for place, outcome in enumerate(outcomes)
    ]


def nothing(failures: Counter[str]) -> TaskResult:
    return TaskResult(
        "mm", "storm", None, None, sum(failures.values()), 0.0, False, None, None,
        failures=dict(failures), examples=dict.fromkeys(failures, "as planned"),
    )  # fmt: skip


if __name__ == "__main__":
    main(lambda settings: partial(storm, settings))
