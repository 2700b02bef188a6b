"""What a tenant may use up in a day."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from ansorpy.server.db.models import JobRow, TenantRow
from ansorpy.server.jobs.errors import QuotaError
from ansorpy.server.jobs.states import WAITING

DAY_S: Final = 86_400.0
RETRY_S: Final = 600


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a tenant that has none of its own; None: no limit."""

    queued_jobs: int = 1000
    trials_per_day: int | None = None
    seconds_per_day: float | None = None


def check_quota(tx: Session, tenant_id: int, quota: Quota, now_s: float) -> None:
    """Refuse a job that was just added where it asks for more than what is left of the day.

    A job that waits or runs counts with what it asked for, one that ended with what it used.

    Raises:
        BusyError: names the limit.
    """
    tenant = tx.get_one(TenantRow, tenant_id)
    trials = _first(tenant.max_trials_per_day, quota.trials_per_day)
    seconds = _first(tenant.max_seconds_per_day, quota.seconds_per_day)
    if trials is None and seconds is None:
        return
    open_job = JobRow.state.in_(WAITING)
    used_trials = _sum(case((open_job, JobRow.trials), else_=JobRow.trials_done))
    # A job without a limit of time counts with what it has used so far.
    asked_s = func.coalesce(JobRow.seconds, JobRow.seconds_done)
    used_s = _sum(case((open_job, asked_s), else_=JobRow.seconds_done))
    today = (JobRow.created_s > now_s - DAY_S) | open_job
    row = tx.execute(select(used_trials, used_s).where(JobRow.tenant_id == tenant_id, today)).one()
    if trials is not None and row[0] > trials:
        raise QuotaError(f"more than {trials} trials within 24 hours", RETRY_S)
    if seconds is not None and row[1] > seconds:
        raise QuotaError(f"more than {seconds:.0f} seconds of tuning within 24 hours", RETRY_S)


def _first(own: float | None, general: float | None) -> float | None:
    return own if own is not None else general


def _sum(column: ColumnElement[float]) -> ColumnElement[float]:
    return func.coalesce(func.sum(column), 0)
