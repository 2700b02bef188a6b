"""The worker process: claims a job, tunes it, stores what it is handed; and its supervisor.

A job is leased. A worker that dies loses its lease: its job is queued again (what was measured is
in the record store, so that nothing is measured twice), or fails with the reason once it took
`max_attempts` workers with it.
"""

import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from ansorpy.errors import AnsorError
from ansorpy.events import Derived, Event, Finished, RoundDone, TaskResult
from server.db.engine import now, transaction
from server.db.models import JobRow, PackageRow
from server.db.records import SqlStore
from server.db.upgrade import open_database
from server.jobs import lease
from server.jobs.lease import Claim
from server.jobs.submission import Submission
from server.settings import Settings

log = logging.getLogger(__name__)

# What a worker does with a request: the events of a tuning whose zips go to the folder.
Tune = Callable[[Submission, SqlStore, Path], Iterator[Event]]


class LostError(AnsorError):
    """The lease was overtaken: another worker owns the job now."""


class StopError(AnsorError):
    """The worker was asked to stop."""


def run_forever(settings: Settings, owner: str) -> None:
    """Work until SIGTERM, or until the process that started this one is gone."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    stop = threading.Event()

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us through the supervisor
    worker = Worker(settings, open_database(settings.url), owner, tune_request, stop)
    parent = os.getppid()
    while not stop.is_set() and os.getppid() == parent:
        if not worker.run_one():
            stop.wait(settings.poll_s)


def tune_request(request: Submission, store: SqlStore, out: Path) -> Iterator[Event]:
    """Yield the events of the tuning that `request` asks for."""
    # Here, because they load the numeric floors, which the API process does not need.
    from ansorpy.measure.host import local_target
    from ansorpy.tune import Request, run

    return run(
        Request(
            dags=request.dags,
            target=local_target(request.cores),
            trials=request.budget.trials,
            seconds=request.budget.seconds,
            seed=request.seed,
            weights=request.weights,
            fresh=request.fresh,
        ),
        store=store,
        out=out,
    )


class Worker:
    """Runs one job at a time."""

    def __init__(
        self, settings: Settings, engine: Engine, owner: str, tune: Tune, stop: threading.Event
    ) -> None:
        self.settings = settings
        self.engine = engine
        self.owner = owner
        self.tune = tune
        self.stop = stop

    def run_one(self) -> bool:
        """Run the most urgent job that waits, if there is one, and say whether there was."""
        with transaction(self.engine) as tx:
            lease.recover(tx, now(tx), self.settings.max_attempts)
            claim = lease.claim(tx, self.owner, now(tx), self.settings.lease_s)
        if claim is None:
            return False
        try:
            self._run(claim)
        except LostError:
            log.warning("job %s: another worker owns it now", claim.job_id)
        except StopError:
            with self._held(claim) as (tx, row):
                lease.release(tx, row, now(tx))
        except AnsorError as error:
            self._fail(claim, str(error))
        except Exception as error:  # the process boundary: one job must not end us
            log.exception("job %s", claim.job_id)
            self._fail(claim, f"internal error: {type(error).__name__}: {error}")
        return True

    def _run(self, claim: Claim) -> None:
        progress: dict[str, dict[str, Any]] = {}
        store = SqlStore(self.engine, claim.tenant_id)
        with self._lease(claim) as lost, tempfile.TemporaryDirectory() as folder:
            for event in self.tune(Submission.of(claim.request), store, Path(folder)):
                if self.stop.is_set():
                    raise StopError
                if lost.is_set():
                    raise LostError
                self._note(claim, progress, event)
                if isinstance(event, Finished):
                    self._finish(claim, event)

    @contextmanager
    def _held(self, claim: Claim) -> Iterator[tuple[Session, JobRow]]:
        """Lock the job for one transaction that extends its lease; LostError where it is gone."""
        with transaction(self.engine) as tx:
            row = lease.hold(tx, claim, now(tx), self.settings.lease_s)
            if row is None:
                raise LostError
            yield tx, row

    @contextmanager
    def _lease(self, claim: Claim) -> Iterator[threading.Event]:
        """Keep the lease while the block runs; the event says that it was lost."""
        ended, lost = threading.Event(), threading.Event()

        def beat() -> None:
            while not ended.wait(self.settings.heartbeat_s):
                try:
                    with self._held(claim):
                        pass
                except LostError:
                    lost.set()
                    return

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            ended.set()
            thread.join()

    def _note(self, claim: Claim, progress: dict[str, dict[str, Any]], event: Event) -> None:
        """Store the progress."""
        match event:
            case Derived(task=task, sketches=sketches):
                progress[task] = {"sketches": sketches}
            case RoundDone(task=task, trials=trials, best_s=best_s, failures=failures):
                facts = {"trials": trials, "best_s": best_s, "failures": dict(failures)}
                progress.setdefault(task, {}).update(facts)
            case _:
                return
        with self._held(claim) as (tx, row):
            lease.note_progress(row, progress, now(tx))

    def _finish(self, claim: Claim, end: Finished) -> None:
        """End the job and keep its kernels, in one transaction."""
        made = [result for result in end.results if result.kernel is not None]
        if not made:
            reasons = {f"{kind}: {text}" for r in end.results for kind, text in r.examples.items()}
            self._fail(claim, "no candidate survived: " + "; ".join(sorted(reasons)[:3]))
            return
        with self._held(claim) as (tx, row):
            for result in made:
                assert result.kernel is not None
                package = package_of(result.kernel, now(tx))
                lease.add_kernel(tx, row, result.name, package, result.best_s, True, now(tx))
            lease.finish(tx, row, list(map(result_to_wire, end.results)), end.stopped, now(tx))

    def _fail(self, claim: Claim, reason: str) -> None:
        with suppress(LostError), self._held(claim) as (tx, row):
            lease.fail(tx, row, reason, now(tx))


def result_to_wire(result: TaskResult) -> Mapping[str, Any]:
    """Return the stored form of a result: the fields of `schemas.TaskReply`."""
    fields = asdict(result)
    for name in ("key", "examples", "from_store"):
        del fields[name]
    return {**fields, "failures": dict(result.failures), "kernel": result.kernel is not None}


def package_of(path: Path, now_s: float) -> PackageRow:
    """Return the row of a zip."""
    content = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        manifest = file.read("manifest.json").decode()
    return PackageRow(
        sha256=sha256(content).hexdigest(), size_bytes=len(content), content=content,
        manifest=manifest, created_s=now_s,
    )  # fmt: skip


class Supervisor:
    """Keeps one worker process alive and gives back the job of one that died."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.settings = settings
        self.engine = engine
        self.state = "stopped"
        self.pid: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        """Start the worker, and a thread that watches it."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the worker to stop, wait for it, and kill it if it does not."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        # Spawned, never forked: this process has threads.
        context = multiprocessing.get_context("spawn")
        lives = 0
        while not self._ended.is_set():
            lives += 1
            owner = f"{os.getpid()}.{lives}"
            child = context.Process(target=run_forever, args=(self.settings, owner), name="worker")
            child.start()
            self.state, self.pid = "running", child.pid
            while child.is_alive() and not self._ended.is_set():
                child.join(0.2)
            if self._ended.is_set():
                child.terminate()
                child.join(10.0)
                child.kill()
                child.join()
                break
            self.pid = None
            self.state = f"restarting (exit code {child.exitcode})"
            log.error("worker %s died with exit code %s", owner, child.exitcode)
            with transaction(self.engine) as tx:
                lease.recover(tx, now(tx), self.settings.max_attempts, owner)
            self._ended.wait(min(10.0, 0.5 * lives))  # no storm where it dies at once
        self.state = "stopped"
