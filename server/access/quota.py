"""Quotas of a tenant: queued jobs, and trials and seconds within 24 hours."""

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
    """Default limits, for tenants without limits of their own; None: unlimited."""

    queued_jobs: int = 1000
    trials_per_day: int | None = None
    seconds_per_day: float | None = None


def check_quota(tx: Session, tenant_id: int, quota: Quota, now_s: float) -> None:
    """Raise QuotaError if the jobs of the last 24 hours, with a job just added, exceed a limit.

    A job that has not ended counts with its budget, an ended job with its usage.
    """
    tenant = tx.get_one(TenantRow, tenant_id)
    trials = _first(tenant.max_trials_per_day, quota.trials_per_day)
    seconds = _first(tenant.max_seconds_per_day, quota.seconds_per_day)
    if trials is None and seconds is None:
        return
    open_job = JobRow.state.in_(WAITING)
    used_trials = _sum(case((open_job, JobRow.trials), else_=JobRow.trials_done))
    # A job without a time limit counts with the seconds used so far.
    asked_s = func.coalesce(JobRow.seconds, JobRow.seconds_done)
    used_s = _sum(case((open_job, asked_s), else_=JobRow.seconds_done))
    today = (JobRow.created_s > now_s - DAY_S) | open_job
    row = tx.execute(select(used_trials, used_s).where(JobRow.tenant_id == tenant_id, today)).one()
    if trials is not None and row[0] > trials:
        raise QuotaError(
            "cannot queue the job because of the quota of its tenant; expected at most"
            f" {trials} trials within 24 hours",
            RETRY_S,
        )
    if seconds is not None and row[1] > seconds:
        raise QuotaError(
            "cannot queue the job because of the quota of its tenant; expected at most"
            f" {seconds:.0f} seconds of tuning within 24 hours",
            RETRY_S,
        )


def _first(own: float | None, general: float | None) -> float | None:
    return own if own is not None else general


def _sum(column: ColumnElement[float]) -> ColumnElement[float]:
    return func.coalesce(func.sum(column), 0)
