"""The tuning process, `python -m ansorpy.server.worker.tuner_main`; a keeper starts and watches it.

    stdin   {settings}, then one {claim} per job; its end is the end of the driver
    stdout  {"is": "ready"} once; of a job any number of {"is": "alive"}, then one of
            {"is": "done"}   the job ended, with success or without: the database says how
            {"is": "lost"}   the job was taken away
            {"is": "stuck", "reason": ...}   the database did not take what was to be stored

Killed at any moment, it leaves the job at its last stored round. All that it writes goes through
`Held`, so that a driver that was taken for dead can do no harm.
"""

import ctypes
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO

from sqlalchemy import Engine

from ansorpy.errors import AnsorError
from ansorpy.events import Delivered, Derived, Event, Finished
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.lease import Claim
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.logs import configure, fields
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.journal import JobJournal
from ansorpy.server.worker.leased_job import LeasedJob, LeaseLostError, StorageError

log = logging.getLogger(__name__)

PDEATHSIG: Final = 1  # prctl option

# What a driver does with a submission: the events of a tuning whose rounds go to the journal.
Tune = Callable[[Submission, JobJournal, Path], Iterator[Event]]
Say = Callable[..., None]  # what, and facts


def main(load: "Callable[[ServiceSettings], Tune] | None" = None) -> None:
    """Take the settings, load the engine, run jobs until the keeper closes our input.

    Args:
        load: another engine than the real one.
    """
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
    speak = _private_output()
    settings = ServiceSettings.model_validate_json(sys.stdin.readline())
    configure(settings.log_format)
    if os.getppid() != parent:  # it died before the line above
        return
    tune = (load or load_engine)(settings)
    engine = open_database(settings.url)
    _say(speak, "ready")
    for line in sys.stdin:
        order = json.loads(line)
        claim, folder = Claim(**order["claim"]), Path(order["folder"])
        run_job(
            settings, engine, claim, folder, tune, lambda what, **told: _say(speak, what, **told)
        )
    engine.dispose()


def run_job(
    settings: ServiceSettings,
    engine: Engine,
    claim: Claim,
    folder: Path,
    tune: Tune,
    say: Say,
) -> None:
    """Run one job and say how it went; files go to a folder in `folder`."""
    leased = LeasedJob(engine, claim, settings.lease_s, settings.storage_wait_s)
    try:
        try:
            _tune(leased, folder, tune, say)
        except (LeaseLostError, StorageError):
            raise
        except AnsorError as error:
            _fail(leased, str(error))
        except Exception as error:  # the process boundary: one job must not end us
            log.exception("a job failed", extra=fields(job=claim.job_id))
            _fail(leased, f"internal error: {type(error).__name__}: {error}")
    except LeaseLostError:
        say("lost")
    except StorageError as error:
        say("stuck", reason=str(error))
    else:
        say("done")


def _tune(leased: LeasedJob, folder: Path, tune: Tune, say: Say) -> None:
    journal = JobJournal(leased)
    with TemporaryDirectory(dir=folder, prefix="job-") as out:
        for event in tune(Submission.of(leased.claim.request), journal, Path(out)):
            match event:
                case Derived():
                    journal.derived(event)
                case Delivered():
                    journal.deliver(event)
                case Finished():
                    journal.finish(event)
                case _:  # rounds reach the journal by themselves, with their records
                    pass
            say("alive")


def _fail(leased: LeasedJob, reason: str) -> None:
    leased.write(lambda tx, row, now_s: lease.fail(tx, row, reason, now_s))


def load_engine(settings: ServiceSettings) -> Tune:
    """Load the numeric floors, and return the tuning of a submission."""
    from ansorpy.cost import gbm
    from ansorpy.measure import pool
    from ansorpy.measure.host import local_target
    from ansorpy.measure.timing.worker_pool import Settings as PoolSettings
    from ansorpy.tuner.pools import Pools
    from ansorpy.tuner.request import Request
    from ansorpy.tuner.tune import run

    gbm.preload()

    def tune(submission: Submission, journal: JobJournal, out: Path) -> Iterator[Event]:
        machine = local_target(submission.cores)
        # Not the first answer: a kernel of the service has a kernel.py.
        request = Request.of(submission, submission.dags, machine, first_answer=False)
        measuring = PoolSettings(folder=str(out.parent), sandbox=settings.sandbox)
        open_pool = lambda dag, target: pool.MeasurePool(dag, target, measuring)  # noqa: E731
        return run(request, store=journal, out=out, pools=lambda: Pools(open_pool), journal=journal)

    return tune


def _private_output() -> TextIO:
    """Return standard output for ourselves alone; what anything else prints goes to the log."""
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return private


def _say(speak: TextIO, what: str, **told: Any) -> None:
    speak.write(json.dumps({"is": what, **told}) + "\n")
    speak.flush()


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the keeper is gone, and so are we
        main()
