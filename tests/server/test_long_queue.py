"""Claims and submissions in long queues: counted rows and instructions, no clocks."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Engine, Select, event, text

from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import JobRow
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.jobs import lease, queries
from ansorpy.server.jobs.claim_order import next_job
from ansorpy.server.jobs.lease import NO_LIMIT
from ansorpy.server.jobs.reuse import newest_reusable
from ansorpy.server.jobs.submission import Submission
from benchmarks.queue import MM, fill
from tests.server.databases import ON_SQLITE, Cluster
from tests.server.test_lease import add_tenant, claim, submit

QUEUED, RUNNING, TENANTS = 2000, 60, 10
TOO_LARGE = Submission(MM, trials=10_000)  # no budget of an equal job covers it


@pytest.fixture
def full(engine: Engine) -> Engine:
    fill(engine, QUEUED, RUNNING, TENANTS)
    if engine.dialect.name == "postgresql":  # as the autovacuum of PostgreSQL does
        with engine.begin() as connection:
            connection.execute(text("ANALYZE"))
    return engine


@contextmanager
def loaded(kind: type[Any]) -> Iterator[list[object]]:
    """Collect the rows of a table that are loaded within the block."""
    rows: list[object] = []

    def note(row: object, _context: object) -> None:
        rows.append(row)

    event.listen(kind, "load", note)
    yield rows
    event.remove(kind, "load", note)


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """Collect the SQL statements within the block."""
    found: list[str] = []

    def note(_c: object, _cursor: object, sql: str, *_: object) -> None:
        found.append(sql)

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


def test_a_claim_loads_one_job(full: Engine) -> None:
    with loaded(JobRow) as rows, statements(full) as sql:
        assert claim(full, 1.0, target="t") is not None
    assert len(rows) == 1
    # The position in the queue, the job, and the limit of its tenant.
    assert len([line for line in sql if line.startswith("SELECT")]) == 3


@pytest.mark.parametrize("submission", [Submission(MM), TOO_LARGE], ids=["found", "all too small"])
def test_a_submission_loads_at_most_one_reusable_job(full: Engine, submission: Submission) -> None:
    with transaction(full) as tx, loaded(JobRow) as rows:
        found = queries.submit(tx, 1, submission, 1.0, max_queued=NO_LIMIT)
    assert found.how == ("coalesced" if submission == Submission(MM) else "created")
    assert len(rows) <= 1


def explained(engine: Engine, query: Select[Any], how: str) -> list[Any]:
    sql = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
    with engine.connect() as connection:
        return [row[-1] for row in connection.exec_driver_sql(f"{how} {sql}")]


@ON_SQLITE
def test_sqlite_answers_from_the_indexes(full: Engine) -> None:
    plan = explained(full, next_job(("", "t"), 8, NO_LIMIT), "EXPLAIN QUERY PLAN")
    head = "USING COVERING INDEX ix_jobs_queue (state=? AND target=? AND tenant_id=?)"
    assert len([line for line in plan if head in line]) == 2
    assert not [line for line in plan if "SCAN jobs" in line]
    for submission, targets in ((Submission(MM), ()), (TOO_LARGE, ()), (Submission(MM), ("t",))):
        for state in ("succeeded", "running", "queued"):
            query = newest_reusable(1, submission, state, targets)
            (line,) = explained(full, query, "EXPLAIN QUERY PLAN")
            covering = (
                "USING COVERING INDEX ix_jobs_workload (tenant_id=? AND workload=? AND state=?)"
            )
            assert covering in line
    (line, *_) = explained(full, queries.newest_of_models(1, ["a", "b"], 9), "EXPLAIN QUERY PLAN")
    assert "USING INDEX ix_jobs_model (tenant_id=? AND model=?)" in line


def steps(engine: Engine, action: Callable[[], object]) -> int:
    """Return the number of instructions of SQLite's virtual machine for an action."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(step, 1)
    action()  # the pool gives the same connection again
    driver.set_progress_handler(None, 1)
    return count


@ON_SQLITE
def test_sqlite_takes_equal_steps_for_long_and_short_queues(url: str) -> None:
    engine = open_database(url)
    fill(engine, 100, RUNNING, TENANTS)
    short = steps(engine, lambda: claim(engine, 1.0, target="t"))
    fill(engine, 20 * 100, 1, 1)
    long = steps(engine, lambda: claim(engine, 1.0, target="t"))
    assert 0 < long <= 1.1 * short
    engine.dispose()


def visited(plan: dict[str, Any]) -> float:
    """Return the number of rows read by all nodes of a PostgreSQL plan."""
    own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return float(own) + sum(map(visited, plan.get("Plans", ())))


@pytest.mark.db
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_postgres_reads_running_jobs_and_heads_of_queues(full: Engine) -> None:
    query = next_job(("", "t"), 8, NO_LIMIT)
    ((found,),) = explained(full, query, "EXPLAIN (ANALYZE, FORMAT JSON)")
    assert visited(found["Plan"]) <= 6 * (RUNNING + 2 * TENANTS) < QUEUED
    query = newest_reusable(1, Submission(MM), "queued")
    ((found,),) = explained(full, query, "EXPLAIN (ANALYZE, FORMAT JSON)")
    assert visited(found["Plan"]) <= RUNNING + 4  # its planner may walk back from the newest job


@pytest.mark.db
def test_two_claims_at_once_take_two_jobs(
    postgres: Cluster, template: Callable[[Cluster | None], str]
) -> None:
    engine = open_database(postgres.new_database(template(postgres)))
    jobs = [submit(engine), submit(engine)]
    with transaction(engine) as first, transaction(engine) as second, transaction(engine) as third:
        claims = [lease.claim(tx, "w", 1.0, 30.0) for tx in (first, second, third)]
    assert [None if each is None else each.job_id for each in claims] == [*jobs, None]
    engine.dispose()


@dataclass(frozen=True)
class Wish:
    """The fields of a job that determine its position in the queue."""

    job_id: str
    tenant: int
    priority: int
    target: str
    cores: int


def expected(
    jobs: Sequence[Wish], limits: dict[int, int | None], targets: Sequence[str], cores: int
) -> list[str]:
    """Return the documented order of claims: priority, fewest running, oldest."""
    waiting, running = list(enumerate(jobs)), dict.fromkeys(limits, 0)
    order: list[str] = []
    while True:
        able = [
            (-job.priority, running[job.tenant], seq)
            for seq, job in waiting
            if job.target in targets
            and job.cores <= cores
            and running[job.tenant] < (limits[job.tenant] or NO_LIMIT)
        ]
        if not able:
            return order
        seq = min(able)[2]
        waiting = [each for each in waiting if each[0] != seq]
        running[jobs[seq].tenant] += 1
        order.append(jobs[seq].job_id)


@pytest.mark.parametrize("seed", range(3))
def test_claims_follow_the_documented_order(engine: Engine, seed: int) -> None:
    rng = random.Random(seed)
    limits: dict[int, int | None] = {1: None}
    for name, limit in (("a", 2), ("b", None), ("c", 1)):
        limits[add_tenant(engine, name, limit)] = limit
    jobs = []
    for _ in range(24):
        tenant, target = rng.choice(list(limits)), rng.choice(("", "t", "cpu", "u"))
        priority, cores = rng.choice((0, 0, 5)), rng.choice((1, 2, 2, 4))
        made = submit(engine, tenant=tenant, priority=priority, target=target, cores=cores)
        jobs.append(Wish(made, tenant, priority, target, cores))
    order = expected(jobs, limits, ("", "t", "cpu"), 2)
    claims = [
        claim(engine, 1.0, target="t", names=("cpu",), cores=2) for _ in range(len(order) + 1)
    ]
    assert [None if each is None else each.job_id for each in claims] == [*order, None]
