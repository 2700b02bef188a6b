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
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import Engine

from ansorpy.errors import AnsorError
from ansorpy.events import Derived, Event, Finished, RoundDone, TaskResult
from server.db.engine import open_database, transaction
from server.db.store import (
    Claim,
    SqlStore,
    claim_job,
    fail_job,
    finish_job,
    heartbeat,
    recover_jobs,
    release_job,
)
from server.jobs import read_dags
from server.schemas import JobRequest
from server.settings import Settings

log = logging.getLogger(__name__)

# What a worker does with a request: the events of a tuning whose zips go to the folder.
Tune = Callable[[JobRequest, SqlStore, Path], Iterator[Event]]


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


def tune_request(request: JobRequest, store: SqlStore, out: Path) -> Iterator[Event]:
    """Yield the events of the tuning that `request` asks for."""
    # Here, because they load the numeric floors, which the API process does not need.
    from ansorpy.measure.host import local_target
    from ansorpy.tune import Request, run

    dags = read_dags(request.text, request.dags, request.bind)
    return run(
        Request(
            dags=dags,
            target=local_target(request.cores),
            trials=request.trials,
            seconds=request.seconds,
            seed=request.seed,
            weights=request.weights,
        ),
        store=store,
        out=out,
    )


class Worker:
    """Runs one job at a time."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        owner: str,
        tune: Tune,
        stop: threading.Event,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.engine = engine
        self.owner = owner
        self.tune = tune
        self.stop = stop
        self.clock = clock

    def run_one(self) -> bool:
        """Run the oldest job that waits, if there is one, and say whether there was."""
        with transaction(self.engine) as tx:
            recover_jobs(tx, self.clock(), self.settings.max_attempts)
            claim = claim_job(tx, self.owner, self.clock(), self.settings.lease_s)
        if claim is None:
            return False
        try:
            self._run(claim)
        except LostError:
            log.warning("job %s: another worker owns it now", claim.job_id)
        except StopError:
            self._write(release_job, claim)
        except AnsorError as error:
            self._write(fail_job, claim, str(error))
        except Exception as error:  # the process boundary: one job must not end us
            log.exception("job %s", claim.job_id)
            self._write(fail_job, claim, f"internal error: {type(error).__name__}: {error}")
        return True

    def _run(self, claim: Claim) -> None:
        request = JobRequest.model_validate(claim.request)
        progress: dict[str, dict[str, Any]] = {}
        with self._lease(claim) as lost, tempfile.TemporaryDirectory() as folder:
            for event in self.tune(request, SqlStore(self.engine), Path(folder)):
                if self.stop.is_set():
                    raise StopError
                if lost.is_set() or not self._note(claim, progress, event):
                    raise LostError
                if isinstance(event, Finished):
                    self._finish(claim, event.results)

    @contextmanager
    def _lease(self, claim: Claim) -> Iterator[threading.Event]:
        """Keep the lease while the block runs; the event says that it was lost."""
        ended, lost = threading.Event(), threading.Event()

        def beat() -> None:
            while not ended.wait(self.settings.heartbeat_s):
                with transaction(self.engine) as tx:
                    if not heartbeat(tx, claim, self.clock(), self.settings.lease_s, None):
                        lost.set()
                        return

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            ended.set()
            thread.join()

    def _note(self, claim: Claim, progress: dict[str, dict[str, Any]], event: Event) -> bool:
        """Store the progress; False where the lease was lost."""
        match event:
            case Derived(task=task, sketches=sketches):
                progress[task] = {"sketches": sketches}
            case RoundDone(task=task, trials=trials, best_s=best_s, failures=failures):
                facts = {"trials": trials, "best_s": best_s, "failures": dict(failures)}
                progress.setdefault(task, {}).update(facts)
            case _:
                return True
        with transaction(self.engine) as tx:
            return heartbeat(tx, claim, self.clock(), self.settings.lease_s, progress)

    def _finish(self, claim: Claim, results: tuple[TaskResult, ...]) -> None:
        """Move the zips to their digests, then end the job in one transaction."""
        kernels = {
            result.name: keep_kernel(result.kernel, self.settings.kernel_dir)
            for result in results
            if result.kernel is not None
        }
        wires = [result_to_wire(result) for result in results]
        if not kernels:
            reasons = {f"{kind}: {text}" for r in results for kind, text in r.examples.items()}
            error = "no candidate survived: " + "; ".join(sorted(reasons)[:3])
            self._write(fail_job, claim, error)
            return
        with transaction(self.engine) as tx:
            if not finish_job(tx, claim, self.clock(), wires, kernels):
                raise LostError

    def _write(self, write: Callable[..., bool], claim: Claim, *arguments: str) -> None:
        with transaction(self.engine) as tx:
            write(tx, claim, self.clock(), *arguments)


def result_to_wire(result: TaskResult) -> Mapping[str, Any]:
    """Return the stored form of a result: the fields of `schemas.TaskReply`."""
    fields = asdict(result)
    for name in ("key", "examples", "from_store"):
        del fields[name]
    return {**fields, "failures": dict(result.failures), "kernel": result.kernel is not None}


def keep_kernel(path: Path, folder: Path) -> tuple[str, int]:
    """Copy a zip to `folder/<sha256>.zip`, atomically; return digest and size in bytes."""
    data = path.read_bytes()
    digest = sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{digest}.{os.getpid()}"
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / f"{digest}.zip")
    return digest, len(data)


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
                recover_jobs(tx, time.time(), self.settings.max_attempts, owner)
            self._ended.wait(min(10.0, 0.5 * lives))  # no storm where it dies at once
        self.state = "stopped"
