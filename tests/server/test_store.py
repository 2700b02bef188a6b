from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from ansorpy.records import Store
from server.db.engine import open_database, transaction
from server.db.models import JobRow
from server.db.store import (
    MOVES,
    SqlStore,
    add_job,
    claim_job,
    count_queued,
    fail_job,
    find_job,
    find_kernel,
    finish_job,
    heartbeat,
    recover_jobs,
    release_job,
)
from tests.test_records import StoreContract

LEASE_S = 30.0


class TestSqlStore(StoreContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Store]:
        url = f"sqlite:///{tmp_path / 'deep' / 'records.db'}"
        return lambda: SqlStore(open_database(url))


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_database(f"sqlite:///{tmp_path / 'jobs.db'}")


def submit(engine: Engine, at_s: float = 0.0) -> str:
    with transaction(engine) as tx:
        return add_job(tx, {"n": at_s}, at_s).id


def job(engine: Engine, job_id: str) -> JobRow:
    with transaction(engine) as tx:
        row = find_job(tx, job_id)
    assert row is not None
    return row


def test_sqlite_is_durable_and_waits_for_other_writers(engine: Engine) -> None:
    with transaction(engine) as tx:
        pragmas = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        connection = tx.connection()
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]
    assert values == ["wal", 2, 30000, 1]


def test_the_oldest_job_is_claimed_first_and_only_once(engine: Engine) -> None:
    first, second = submit(engine, 1.0), submit(engine, 2.0)
    with transaction(engine) as tx:
        claims = [claim_job(tx, "w", 10.0, LEASE_S) for _ in range(3)]
    assert [claim and claim.job_id for claim in claims] == [first, second, None]
    assert claims[0] is not None
    assert claims[0].request == {"n": 1.0}


def test_an_expired_lease_is_claimed_again_and_fences_the_first_owner(engine: Engine) -> None:
    job_id = submit(engine)
    with transaction(engine) as tx:
        paused = claim_job(tx, "a", 0.0, LEASE_S)
        assert paused is not None
        assert recover_jobs(tx, 29.0, max_attempts=3) == 0
        assert claim_job(tx, "b", 29.0, LEASE_S) is None
        assert recover_jobs(tx, 31.0, max_attempts=3) == 1
        second = claim_job(tx, "b", 31.0, LEASE_S)
        assert second is not None
        assert not heartbeat(tx, paused, 32.0, LEASE_S, {"trials": 1})
        assert not finish_job(tx, paused, 32.0, [], {"main": ("00", 1)})
        assert not fail_job(tx, paused, 32.0, "late")
        assert find_kernel(tx, job_id, "main") is None
        assert heartbeat(tx, second, 33.0, LEASE_S, {"trials": 2})
        assert finish_job(tx, second, 34.0, [{"name": "main"}], {"main": ("00", 1)})
        assert find_kernel(tx, job_id, "main") is not None
    row = job(engine, job_id)
    assert (row.state, row.attempt, row.progress) == ("done", 2, '{"trials": 2}')


def test_a_heartbeat_keeps_the_lease(engine: Engine) -> None:
    submit(engine)
    with transaction(engine) as tx:
        claim = claim_job(tx, "a", 0.0, LEASE_S)
        assert claim is not None
        assert heartbeat(tx, claim, 25.0, LEASE_S, None)
        assert recover_jobs(tx, 40.0, max_attempts=3) == 0


def test_a_job_whose_worker_was_lost_is_requeued_then_called_poison(engine: Engine) -> None:
    job_id = submit(engine)
    for attempt in (1, 2, 3):
        with transaction(engine) as tx:
            assert claim_job(tx, "w7", float(attempt), LEASE_S) is not None
            assert recover_jobs(tx, attempt + 0.5, max_attempts=3, owner="someone else") == 0
            assert recover_jobs(tx, attempt + 0.5, max_attempts=3, owner="w7") == 1
        assert job(engine, job_id).state == ("queued" if attempt < 3 else "failed")
    assert "lost 3 times" in job(engine, job_id).error
    assert "w7" in job(engine, job_id).error


def test_expired_leases_are_recovered_without_knowing_the_owner(engine: Engine) -> None:
    job_id = submit(engine)
    with transaction(engine) as tx:
        claim_job(tx, "w", 0.0, LEASE_S)
        assert recover_jobs(tx, 10.0, max_attempts=3) == 0
        assert recover_jobs(tx, 31.0, max_attempts=3) == 1
        assert count_queued(tx) == 1
    assert job(engine, job_id).state == "queued"


def test_a_released_job_does_not_lose_an_attempt(engine: Engine) -> None:
    job_id = submit(engine)
    with transaction(engine) as tx:
        claim = claim_job(tx, "w", 0.0, LEASE_S)
        assert claim is not None
        assert release_job(tx, claim, 1.0)
        assert not release_job(tx, claim, 1.0)
    assert (job(engine, job_id).state, job(engine, job_id).attempt) == ("queued", 0)


def test_a_transaction_that_raises_leaves_nothing(engine: Engine) -> None:
    def interrupted() -> None:
        with transaction(engine) as tx:
            add_job(tx, {}, 0.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    with transaction(engine) as tx:
        assert count_queued(tx) == 0


def test_an_ended_job_moves_nowhere() -> None:
    assert all(MOVES[state] == () for state in ("done", "failed"))
