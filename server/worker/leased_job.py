"""A leased job, whose writes are fenced, durable, and retried while the database is away."""

import logging
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from sqlalchemy import Engine, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from ansorpy.errors import AnsorError
from ansorpy.server.db.engine import now, reading, transaction
from ansorpy.server.db.models import JobRow
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.lease import Claim
from ansorpy.server.logs import fields

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.05  # before the first retry; doubled by each retry
LONGEST_PAUSE_S = 2.0

T = TypeVar("T")
Write = Callable[[Session, JobRow, float], T]  # transaction, locked job, time


class LeaseLostError(AnsorError):
    """The lease was lost: the job was cancelled or paused, or another worker claimed it."""


class StorageError(AnsorError):
    """The database accepted no write for longer than `ANSORPY_STORAGE_WAIT_S`."""


class LeasedJob:
    """A claim and its database."""

    def __init__(
        self,
        engine: Engine,
        claim: Claim,
        lease_s: float,
        patience_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine = engine
        self.claim = claim
        self._lease_s = lease_s
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep

    def write(self, change: Write[T]) -> T:
        """Run `change` on the locked job and extend the lease, in one transaction.

        The transaction is retried while the database is away or full. `change` must be idempotent,
        because an earlier attempt may have been committed although its reply was lost.

        Raises:
            LeaseLostError: the lease was lost; nothing was written.
            StorageError: the retries lasted longer than `patience_s`.
        """
        begin_s, pause_s = self._clock(), FIRST_PAUSE_S
        while True:
            try:
                return self._write_once(change)
            except IntegrityError:
                raise  # a retry cannot succeed
            except DBAPIError as error:
                reason = (
                    str(error.orig).splitlines()[0] if str(error.orig) else type(error).__name__
                )
                if self._clock() - begin_s > self._patience_s:
                    raise StorageError(f"storage: {reason}") from error
                log.warning("retrying a write", extra=fields(job=self.claim.job_id, reason=reason))
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def extend_lease(self) -> None:
        """Extend the lease."""
        self.write(lambda tx, row, now_s: None)

    def ownership(self) -> Literal["ours", "ended", "taken"]:
        """Return whether the claim is still valid, without a lock.

        ours     the claim is valid, or the database does not answer
        ended    the job succeeded or failed, mostly by a write of this claim
        taken    the job was cancelled or paused, or another worker claimed it
        """
        query = select(JobRow.lease_token, JobRow.state).where(JobRow.id == self.claim.job_id)
        try:
            with reading(self.engine) as tx:
                token, state = tx.execute(query).one()
        except DBAPIError:
            return "ours"  # the next write waits for the database and finds out
        if state in ("succeeded", "failed"):
            return "ended"
        return "ours" if (token, state) == (self.claim.token, "running") else "taken"

    def _write_once(self, change: Write[T]) -> T:
        with transaction(self.engine) as tx:
            now_s = now(tx)
            row = lease.lock_leased(tx, self.claim, now_s, self._lease_s)
            if row is None:
                raise LeaseLostError(f"the lease of job {self.claim.job_id} was lost")
            return change(tx, row, now_s)
