"""The order in which waiting jobs are claimed.

The higher priority first; of equals the job whose tenant has fewest running; then the oldest.
"""

from functools import lru_cache

from sqlalchemy import ScalarSelect, Select, func, select
from sqlalchemy.orm import aliased

from ansorpy.server.db.models import JobRow, TenantRow


@lru_cache(maxsize=16)  # building it costs SQLAlchemy more time than the database needs to run it
def next_job(
    targets: tuple[str, ...], cores: int, max_running: int, passed: tuple[int, ...] = ()
) -> Select[int]:
    """Return the query for the number of the most urgent job.

    It reads the running jobs once, and per tenant and target the head of a queue: one index
    entry, however long the queue is.

    Args:
        targets: what the job may ask for.
        cores: most that it may ask for.
        max_running: jobs of one tenant at a time, where the tenant has no limit of its own.
        passed: numbers of jobs that are left out.
    """
    busy = (
        select(JobRow.tenant_id, func.count().label("jobs"))
        .where(JobRow.state == "running")
        .group_by(JobRow.tenant_id)
        .subquery()
    )
    head, running = aliased(JobRow), func.coalesce(busy.c.jobs, 0)
    heads = [_head_of_queue(target, cores, passed) for target in targets]
    return (
        select(head.seq)
        .select_from(TenantRow)
        .join(head, head.seq.in_(heads))
        .outerjoin(busy, busy.c.tenant_id == TenantRow.id)
        .where(running < func.coalesce(TenantRow.max_running_jobs, max_running))
        .order_by(head.priority.desc(), running, head.seq)
        .limit(1)
    )


def _head_of_queue(target: str, cores: int, passed: tuple[int, ...]) -> ScalarSelect[int]:
    """Return the subquery for the first waiting job of a tenant for this very target."""
    job = aliased(JobRow)
    query = select(job.seq).where(
        job.state == "queued",
        job.target == target,
        job.tenant_id == TenantRow.id,
        job.cores <= cores,
    )
    if passed:
        query = query.where(job.seq.not_in(passed))
    query = query.order_by(job.priority.desc(), job.seq).limit(1)
    return query.correlate(TenantRow).scalar_subquery()
