"""SQL query for the next job to claim.

The order is: highest priority, then fewest running jobs of the tenant, then oldest.
"""

from functools import lru_cache

from sqlalchemy import ScalarSelect, Select, func, select
from sqlalchemy.orm import aliased

from ansorpy.server.db.models import JobRow, TenantRow


@lru_cache(maxsize=16)  # SQLAlchemy takes longer to build the query than the database to run it
def next_job(
    targets: tuple[str, ...], cores: int, max_running: int, passed: tuple[int, ...] = ()
) -> Select[int]:
    """Return the query for the number (`seq`) of the next job.

    The query reads the running jobs once, and one index entry per tenant and target (the head of
    its queue), for any length of the queue.

    Args:
        targets: targets of matching jobs.
        cores: maximum number of threads of matching jobs.
        max_running: running jobs of a tenant that has no limit of its own.
        passed: numbers of jobs to leave out.
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
    """Return the subquery for the first queued job of a tenant with exactly this target."""
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
