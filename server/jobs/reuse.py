"""SQL query for a job of the same workload that makes a submission unnecessary."""

import operator
from collections.abc import Callable, Collection
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from ansorpy.server.db.models import JobRow
from ansorpy.server.jobs.states import State
from ansorpy.server.jobs.submission import Submission


def newest_reusable(
    tenant_id: int, submission: Submission, state: State, targets: Collection[str] = ()
) -> Select[int]:
    """Return the query for the newest job in `state` that makes a submission unnecessary.

    All columns that the query reads are in the index `ix_jobs_workload`.

    Args:
        targets: acceptable targets of the job; empty: any.
    """
    covers, latency_s = _covers(submission), submission.target_latency_s
    if state == "succeeded" and latency_s is not None:
        covers = or_(covers, JobRow.best_s <= latency_s)
    query = select(JobRow.seq).where(
        JobRow.tenant_id == tenant_id,
        JobRow.workload == submission.workload,
        JobRow.state == state,
        covers,
    )
    if targets:
        query = query.where(JobRow.target.in_(sorted(targets)))
    return query.order_by(JobRow.seq.desc()).limit(1)


def _covers(asked: Submission) -> ColumnElement[bool]:
    """Return the SQL condition that the budget of a job covers the budget of `asked`."""
    return and_(
        JobRow.trials >= asked.least_trials,
        _unless_unlimited(JobRow.seconds, asked.seconds, operator.ge),
        _unless_unlimited(JobRow.target_latency_s, asked.target_latency_s, operator.le),
        _unless_unlimited(JobRow.stop_if_gain_below, asked.stop_if_gain_below, operator.le),
    )


def _unless_unlimited(
    own: InstrumentedAttribute[float | None],
    asked: float | None,
    compare: Callable[[Any, float], ColumnElement[bool]],
) -> ColumnElement[bool]:
    return own.is_(None) if asked is None else or_(own.is_(None), compare(own, asked))
