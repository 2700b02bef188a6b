"""The worker process: claims jobs, keeps their leases, and watches the driver that tunes them.

A driver that dies, hangs or is taken its job away is killed and replaced; what it was doing goes on
elsewhere from the last stored round. The keeper itself does nothing slow, so that its heartbeats
are never late, and a cancelled job stops within `watch_s`.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, delete, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.models import JobRow, WorkerRow
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.lease import Claim
from ansorpy.server.logs import fields
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.description import WorkerDescription, describe
from ansorpy.server.worker.identity import ProcessIdentity
from ansorpy.server.worker.job_monitor import JobMonitor
from ansorpy.server.worker.lease_clock import LeaseClock
from ansorpy.server.worker.leased_job import LeasedJob, LeaseLostError, StorageError
from ansorpy.server.worker.scratch import empty
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.tuner_process import TunerProcess

log = logging.getLogger(__name__)

MAX_JOBS: Final = 64  # of one driver: whatever it leaks is gone after them
STUCK_PAUSE_S: Final = 1.0
FORGET_S: Final = 86_400.0  # how long the row of a worker that is gone is kept


class WorkerLoop:
    """Runs one job at a time, by means of a driver."""

    def __init__(
        self,
        settings: ServiceSettings,
        engine: Engine,
        identity: ProcessIdentity,
        folder: Path,
        stop: StopFlag,
        start_tuner: Callable[[ServiceSettings], TunerProcess] = TunerProcess,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.engine = engine
        self.identity = identity
        self.folder = folder
        self.stop = stop
        self.clock = clock
        self._given_up: Claim | None = None  # its end could not be written
        self._lease_clock = LeaseClock(settings.lease_s, clock)
        self._start_tuner = start_tuner
        self._tuner: TunerProcess | None = None
        self._jobs = 0  # of the present driver
        self._ready = False
        self._state, self._beat_s = "", 0.0  # what the worker's own row says, and since when
        self._own = WorkerDescription()

    def run(self) -> None:
        """Work until asked to stop."""
        self._own = describe()
        try:
            while not self.stop.is_set():
                try:
                    if not self.run_one():
                        self.stop.wait(self.settings.poll_s)
                except DBAPIError as error:
                    reason = type(error).__name__
                    log.warning("the database is away", extra=fields(reason=reason))
                    self.stop.wait(STUCK_PAUSE_S)
        finally:
            self.close()

    def run_one(self) -> bool:
        """Run the most urgent job that waits, if there is one, and say whether there was."""
        self._note("idle", None)
        tuner = self._ready_tuner()
        if tuner is None:
            return False
        with transaction(self.engine) as tx:
            now_s = now(tx)
            self._give_back(tx, now_s)
            self._recover(tx, now_s)
            claim = lease.claim(
                tx, str(self.identity), now_s, self.settings.lease_s, target=self._own.target,
                names=self._own.names, cores=self._own.cores,
                max_running=self.settings.max_running_jobs,
            )  # fmt: skip
        self._given_up = None
        if claim is None:
            return False
        log.info("claimed", extra=fields(job=claim.job_id, token=claim.token, tuner=tuner.pid))
        leased = LeasedJob(self.engine, claim, self.settings.lease_s, self.settings.storage_wait_s)
        try:
            self._note("busy", claim.job_id)
            self._run(leased, tuner)
        except LeaseLostError:
            log.info("taken away", extra=fields(job=claim.job_id))
            self._drop_tuner()
        except StorageError as error:
            log.warning("given up", extra=fields(job=claim.job_id, reason=str(error)))
            self._given_up = claim
            self._drop_tuner()
        return True

    def close(self) -> None:
        """End the driver, and say that the worker has stopped."""
        self._drop_tuner()
        self._note("stopped", None)

    def _run(self, leased: LeasedJob, tuner: TunerProcess) -> None:
        """Have the driver run a job; do what its end asks for."""
        job_id = leased.claim.job_id
        tuner.order(leased.claim, self.folder)
        self._jobs += 1
        watch = JobMonitor(
            leased, tuner, self.settings, lambda: self._note("busy", job_id), self.clock
        )  # fmt: skip
        end = watch.run_to_end(self.stop)
        log.info(end.how, extra=fields(job=job_id, note=end.note))
        if end.how != "done":
            self._drop_tuner()
        match end.how:
            case "done":
                self._note("idle", None, done=1)
            case "taken":
                pass
            case "stuck":
                leased.write(lambda tx, row, now_s: lease.pause_leased(tx, row, end.note, now_s))
            case "stopped":
                leased.write(lambda tx, row, now_s: lease.release(tx, row, now_s))
            case "died":
                limit = self.settings.max_attempts
                leased.write(
                    lambda tx, row, now_s: lease.record_loss(tx, row, limit, now_s, end.note)
                )

    def _ready_tuner(self) -> TunerProcess | None:
        """Return a driver that waits for a job; None while there is none yet."""
        if self._tuner is not None and (self._jobs >= MAX_JOBS or not self._tuner.alive):
            self._drop_tuner()
        if self._tuner is None:
            self._tuner, self._jobs, self._ready = self._start_tuner(self.settings), 0, False
        try:
            while not self._ready:
                if self._tuner.receive(self.settings.poll_s) is None:
                    return None
                self._ready = True
        except EOFError:
            log.warning("no driver", extra=fields(reason=self._tuner.ended()))
            self._drop_tuner()
            self.stop.wait(STUCK_PAUSE_S)
            return None
        return self._tuner

    def _drop_tuner(self) -> None:
        tuner, self._tuner = self._tuner, None
        if tuner is not None:
            tuner.kill()
            empty(self.folder)

    def _give_back(self, tx: Session, now_s: float) -> None:
        """Queue the job again that was given up, now that the database takes writes: no loss."""
        if self._given_up is not None:
            row = lease.lock_leased(tx, self._given_up, now_s, self.settings.lease_s)
            if row is not None:
                lease.release(tx, row, now_s)

    def _recover(self, tx: Session, now_s: float) -> None:
        """Take their jobs from workers whose lease ran out, or that ended on this machine."""
        limit = self.settings.max_attempts
        if self._lease_clock.is_steady(now_s):
            lease.recover(tx, now_s, limit)
        owners = tx.scalars(select(JobRow.lease_owner).where(JobRow.state == "running").distinct())
        for owner in owners.all():
            other = ProcessIdentity.of(owner)
            if other is not None and other.is_gone(self.identity):
                lease.recover(tx, now_s, limit, owner)

    def _note(self, state: str, job_id: str | None, done: int = 0) -> None:
        """Write the worker's own row where it changed, or its heartbeat is due."""
        seen_s = self.clock()
        try:
            self._write_note(state, job_id, done, seen_s)
        except DBAPIError as error:  # the next one will tell
            log.warning("the database is away", extra=fields(reason=type(error).__name__))

    def _write_note(self, state: str, job_id: str | None, done: int, seen_s: float) -> None:
        if (state, done) == (self._state, 0) and seen_s - self._beat_s < self.settings.heartbeat_s:
            return
        with transaction(self.engine) as tx:
            now_s = now(tx)
            row = tx.get(WorkerRow, str(self.identity))
            if row is None:
                tx.execute(delete(WorkerRow).where(WorkerRow.heartbeat_s < now_s - FORGET_S))
                row = WorkerRow(
                    id=str(self.identity), host=self.identity.host, pid=self.identity.pid,
                    started_s=now_s, target=self._own.target, facts=self._own.facts, jobs_done=0,
                )  # fmt: skip
                tx.add(row)
            row.state, row.job_id, row.heartbeat_s = state, job_id, now_s
            row.jobs_done += done
        self._state, self._beat_s = state, seen_s
