"""Main module of the tuner process, `python -m ansorpy.server.worker.tuner_main`.

The worker loop starts the process and talks to it in lines of JSON:

    stdin   {settings}, then one {claim} per job; end of file ends the process
    stdout  {"is": "ready"} once; per job any number of {"is": "alive"}, then one of
            {"is": "done"}   the job has ended; its state in the database has the outcome
            {"is": "lost"}   the lease was lost
            {"is": "stuck", "reason": ...}   the database did not accept a write

A kill leaves the job at its last stored round. All writes go through `LeasedJob`, so that a process
that has lost its lease can write nothing.
"""

import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from sqlalchemy import Engine

from ansorpy.cluster.share import share_variables
from ansorpy.errors import AnsorError
from ansorpy.graph.remedies import as_fields
from ansorpy.model.compile import ModelResult
from ansorpy.model.events import ModelEvent
from ansorpy.parent import end_with_parent
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.lease import Claim
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.logs import configure, fields
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.journal import JobJournal
from ansorpy.server.worker.leased_job import LeasedJob, LeaseLostError, StorageError
from ansorpy.server.worker.model_journal import ModelJournal
from ansorpy.state.rule import Rule

log = logging.getLogger(__name__)


# Tune a submission: store its rounds in the journal, write kernels to the folder, yield events.
Journal = JobJournal | ModelJournal
Tune = Callable[[Submission, Any, Path], Iterator[ModelEvent | ModelResult]]
Say = Callable[..., None]  # sends a message: its kind, and fields


def main(load: "Callable[[ServiceSettings], Tune] | None" = None) -> None:
    """Read the settings, load the engine, run jobs until end of file on standard input.

    Args:
        load: replaces the engine, for tests.
    """
    parent = os.getppid()
    end_with_parent()
    speak = _private_output()
    settings = ServiceSettings.model_validate_json(sys.stdin.readline())
    configure(settings.log_format)
    if os.getppid() != parent:  # the parent died before prctl
        return
    tune = (load or load_engine)(settings)
    engine = open_database(settings.url)
    _say(speak, "ready")
    for line in sys.stdin:
        order = json.loads(line)
        claim, folder = Claim(**order["claim"]), Path(order["folder"])
        os.environ["TMPDIR"] = str(folder)  # emptied by the worker loop if this process is killed
        tempfile.tempdir = None
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
    """Run one job and report its end; files are written to a temporary folder in `folder`."""
    leased = LeasedJob(engine, claim, settings.lease_s, settings.storage_wait_s)
    try:
        try:
            _tune(leased, folder, tune, say, settings)
        except (LeaseLostError, StorageError):
            raise
        except AnsorError as error:
            _fail(leased, as_fields(str(error)))
        except Exception as error:  # process boundary: an error of one job must not end the process
            log.exception("job failed", extra=fields(job=claim.job_id))
            _fail(leased, f"internal error: {type(error).__name__}: {error}")
    except LeaseLostError:
        say("lost")
    except StorageError as error:
        say("stuck", reason=str(error))
    else:
        say("done")


def _tune(leased: LeasedJob, folder: Path, tune: Tune, say: Say, settings: ServiceSettings) -> None:
    claim = leased.claim
    submission = Submission.of(claim.request)
    os.environ |= share_variables(str(claim.tenant_id), submission.priority, claim.job_id)
    journal: Journal
    if submission.model is None:
        journal = JobJournal(leased)
    else:
        journal = ModelJournal(leased, settings.max_tensor_bytes)
    with TemporaryDirectory(dir=folder, prefix="job-") as out:
        for event in tune(submission, journal, Path(out)):
            journal.take(event)
            say("alive")


def _fail(leased: LeasedJob, reason: str) -> None:
    leased.write(lambda tx, row, now_s: lease.fail(tx, row, reason, now_s))


def load_engine(settings: ServiceSettings) -> Tune:
    """Import the engine, and return the function that tunes a submission."""
    from ansorpy.cost import gbm
    from ansorpy.measure.host import local_target
    from ansorpy.measure.timing.settings import MeasureSettings
    from ansorpy.server.worker.model_tuning import tune_model
    from ansorpy.tuner.options.targets import named_gpu
    from ansorpy.tuner.parts.pools import Pools, pools_of
    from ansorpy.tuner.requests.request import Request
    from ansorpy.tuner.rule_sets.sets import find_rules
    from ansorpy.tuner.tune import run

    gbm.preload()

    def rules_of(kind: str, asked: Submission) -> tuple[Rule, ...]:
        return find_rules(kind, asked.allow, asked.without, settings.rules_dir)

    def tune(
        submission: Submission, journal: Journal, out: Path
    ) -> Iterator[ModelEvent | ModelResult]:
        measuring = MeasureSettings(folder=str(out.parent), sandbox=settings.sandbox)

        def pools(asked: Request) -> Pools:
            return pools_of(asked, measuring)

        if isinstance(journal, ModelJournal):
            return tune_model(submission, journal, out, pools, rules_of("cpu", submission))
        kind, _, arch = submission.target.partition(":")
        machine = named_gpu(arch) if kind == "cuda" else local_target(submission.cores)
        request = Request.of(submission, submission.dags, machine, early=True)
        rules = rules_of(machine.kind, submission)
        return run(
            request, rules, store=journal, out=out, pools=lambda: pools(request), journal=journal
        )

    return tune


def _private_output() -> TextIO:
    """Return the original standard output; redirect file descriptor 1 to standard error."""
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return private


def _say(speak: TextIO, what: str, **message: Any) -> None:
    speak.write(json.dumps({"is": what, **message}) + "\n")
    speak.flush()


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the worker loop has ended
        main()
