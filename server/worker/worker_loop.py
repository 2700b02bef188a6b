"""The loop of a worker: claim jobs, hold their leases, monitor the tuner process.

A tuner process that dies, hangs or loses its lease is killed and replaced; its job continues after
the last stored round. The loop itself never blocks for long, so that heartbeats are on time
and cancelled jobs stop within `watch_s`.
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
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.lease import Claim
from ansorpy.server.logs import fields
from ansorpy.server.scratch import empty
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.description import WorkerDescription, describe
from ansorpy.server.worker.job_monitor import JobMonitor
from ansorpy.server.worker.lease_clock import LeaseClock
from ansorpy.server.worker.leased_job import LeasedJob, LeaseLostError, StorageError
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.tuner_process import TunerProcess

log = logging.getLogger(__name__)

MAX_JOBS: Final = 64  # jobs per tuner process, to bound the effect of leaks
STUCK_PAUSE_S: Final = 1.0  # pause after an error of the database or tuner process
FORGET_S: Final = 86_400.0  # age at which the row of a dead worker is deleted


class WorkerLoop:
    """Runs one job at a time in a tuner process."""

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
        self._given_up: Claim | None = None  # a claim whose end could not be written
        self._lease_clock = LeaseClock(settings.lease_s, clock)
        self._start_tuner = start_tuner
        self._tuner: TunerProcess | None = None
        self._jobs = 0  # jobs of the current tuner process
        self._ready = False
        self._state, self._beat_s = "", 0.0  # state and time of the last write to the worker's row
        self._own = WorkerDescription()

    def run(self) -> None:
        """Run jobs until `stop` is set."""
        self._own = describe()
        try:
            while not self.stop.is_set():
                try:
                    if not self.run_one():
                        self.stop.wait(self.settings.poll_s)
                except DBAPIError as error:
                    reason = type(error).__name__
                    log.warning("database does not answer", extra=fields(reason=reason))
                    self.stop.wait(STUCK_PAUSE_S)
        finally:
            self.close()

    def run_one(self) -> bool:
        """Claim and run the next job; return False if there was none."""
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
                names=self._own.names, estimates=self._own.estimates, cores=self._own.cores,
                max_running=self.settings.max_running_jobs,
            )  # fmt: skip
        self._given_up = None
        if claim is None:
            return False
        log.info("job claimed", extra=fields(job=claim.job_id, token=claim.token, tuner=tuner.pid))
        leased = LeasedJob(self.engine, claim, self.settings.lease_s, self.settings.storage_wait_s)
        try:
            self._note("busy", claim.job_id)
            self._run(leased, tuner)
        except LeaseLostError:
            log.info("lease lost", extra=fields(job=claim.job_id))
            self._drop_tuner()
        except StorageError as error:
            log.warning("job given up", extra=fields(job=claim.job_id, reason=str(error)))
            self._given_up = claim
            self._drop_tuner()
        return True

    def close(self) -> None:
        """End the tuner process, and store that the worker has stopped."""
        self._drop_tuner()
        self._note("stopped", None)

    def _run(self, leased: LeasedJob, tuner: TunerProcess) -> None:
        """Run a leased job in the tuner process, and store its end."""
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
        """Return a tuner process that waits for a job, or None while it is starting."""
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
            log.warning("no tuner process", extra=fields(reason=self._tuner.ended()))
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
        """Queue a given-up job again, without counting a loss."""
        if self._given_up is not None:
            row = lease.lock_leased(tx, self._given_up, now_s, self.settings.lease_s)
            if row is not None:
                lease.release(tx, row, now_s)

    def _recover(self, tx: Session, now_s: float) -> None:
        """Recover jobs with an expired lease, and jobs of ended workers of this machine."""
        limit = self.settings.max_attempts
        if self._lease_clock.is_steady(now_s):
            lease.recover(tx, now_s, limit)
        owners = tx.scalars(select(JobRow.lease_owner).where(JobRow.state == "running").distinct())
        for owner in owners.all():
            other = ProcessIdentity.of(owner)
            if other is not None and other.is_gone(self.identity):
                lease.recover(tx, now_s, limit, owner)

    def _note(self, state: str, job_id: str | None, done: int = 0) -> None:
        """Write the row of the worker if its state changed or its heartbeat is due."""
        seen_s = self.clock()
        try:
            self._write_note(state, job_id, done, seen_s)
        except DBAPIError as error:  # retried by the next heartbeat
            log.warning("database does not answer", extra=fields(reason=type(error).__name__))

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
