import json
import threading
from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, insert, select

from ansorpy.frontends.tc.text import parse
from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import JobEventRow, JobRow, PackageRow, TenantRow
from ansorpy.server.jobs import lease, queries
from ansorpy.server.jobs.errors import StateError
from ansorpy.server.jobs.latency import Latency
from ansorpy.server.jobs.lease import Claim
from ansorpy.server.jobs.states import ENDED, MOVES
from ansorpy.server.jobs.submission import Submission

MM = parse("def mm(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
LEASE_S = 30.0


def submit(engine: Engine, at_s: float = 0.0, tenant: int = 1, **fields: object) -> str:
    submission = Submission(MM, **{"fresh": True, **fields})  # type: ignore[arg-type]
    with transaction(engine) as tx:
        return queries.submit(tx, tenant, submission, at_s).job.id


def claim(engine: Engine, at_s: float, owner: str = "w", **options: object) -> Claim | None:
    with transaction(engine) as tx:
        return lease.claim(tx, owner, at_s, LEASE_S, **options)  # type: ignore[arg-type]


def recover(engine: Engine, at_s: float, owner: str | None = None) -> int:
    with transaction(engine) as tx:
        return lease.recover(tx, at_s, 3, owner)


def is_leased(engine: Engine, claimed: Claim | None, at_s: float) -> bool:
    assert claimed is not None
    with transaction(engine) as tx:
        return lease.lock_leased(tx, claimed, at_s, LEASE_S) is not None


def job(engine: Engine, job_id: str) -> JobRow:
    with transaction(engine) as tx:
        return queries.find(tx, 1, job_id)


def states(engine: Engine, job_id: str) -> list[str]:
    query = select(JobEventRow).where(JobEventRow.job_id == job_id, JobEventRow.kind == "state")
    with transaction(engine) as tx:
        rows: Sequence[JobEventRow] = tx.scalars(query.order_by(JobEventRow.seq)).all()
    return [json.loads(row.body)["state"] for row in rows]


def add_tenant(engine: Engine, name: str, max_running: int | None = None) -> int:
    values = {"name": name, "created_s": 0.0, "max_running_jobs": max_running}
    with transaction(engine) as tx:
        tx.execute(insert(TenantRow), values)
        return tx.scalars(select(TenantRow.id).where(TenantRow.name == name)).one()


def ids(claims: Sequence[Claim | None]) -> list[str | None]:
    return [None if claimed is None else claimed.job_id for claimed in claims]


def test_the_oldest_job_is_claimed_first_and_only_once(engine: Engine) -> None:
    first, second = submit(engine, 1.0), submit(engine, 2.0)
    assert ids([claim(engine, 10.0) for _ in range(3)]) == [first, second, None]


def test_the_job_of_higher_priority_is_claimed_first(engine: Engine) -> None:
    late, urgent = submit(engine), submit(engine, priority=5)
    assert ids([claim(engine, 1.0), claim(engine, 1.0)]) == [urgent, late]


def test_a_tenant_with_fewer_running_jobs_comes_first(engine: Engine) -> None:
    greedy = [submit(engine) for _ in range(3)]
    small = submit(engine, tenant=add_tenant(engine, "small"))
    assert ids([claim(engine, 1.0) for _ in range(3)]) == [greedy[0], small, greedy[1]]


def test_a_tenant_runs_no_more_jobs_than_allowed(engine: Engine) -> None:
    limited = add_tenant(engine, "limited", max_running=1)
    first = submit(engine, tenant=limited)
    submit(engine, tenant=limited)
    assert ids([claim(engine, 1.0), claim(engine, 1.0)]) == [first, None]
    own = submit(engine)
    submit(engine)
    assert ids([claim(engine, 1.0, max_running=1) for _ in range(2)]) == [own, None]


def test_workers_that_claim_at_once_run_no_more_jobs_than_allowed(engine: Engine) -> None:
    limited = add_tenant(engine, "limited", max_running=1)
    first = submit(engine, tenant=limited)
    submit(engine, tenant=limited)
    claims: list[Claim | None] = []
    other = threading.Thread(target=lambda: claims.append(claim(engine, 1.0, "b")))
    with transaction(engine) as tx:
        own = lease.claim(tx, "a", 1.0, LEASE_S)
        other.start()
        other.join(0.5)  # it waits for the commit, or has claimed the second job by then
    other.join()
    assert ids([own, *claims]) == [first, None]


def test_a_worker_claims_only_its_target_and_sets_the_digest(
    engine: Engine,
) -> None:
    special = submit(engine, target="avx")
    anywhere = submit(engine)
    assert ids([claim(engine, 1.0, target="neon") for _ in range(2)]) == [anywhere, None]
    assert job(engine, anywhere).target == "neon"
    assert ids([claim(engine, 1.0, target="avx")]) == [special]


def test_an_expired_lease_is_claimed_again_and_fences_the_first_owner(engine: Engine) -> None:
    job_id = submit(engine)
    paused = claim(engine, 0.0, "a")
    assert (recover(engine, 29.0), claim(engine, 29.0, "b")) == (0, None)
    assert recover(engine, 31.0) == 1
    assert not is_leased(engine, paused, 31.5)
    second = claim(engine, 31.0, "b")
    assert not is_leased(engine, paused, 32.0)
    assert is_leased(engine, second, 33.0)
    assert (job(engine, job_id).attempts, job(engine, job_id).lost) == (2, 1)
    assert states(engine, job_id) == ["queued", "running", "queued", "running"]


def test_a_heartbeat_extends_the_lease(engine: Engine) -> None:
    submit(engine)
    assert is_leased(engine, claim(engine, 0.0), 25.0)
    assert recover(engine, 40.0) == 0


def test_a_lost_job_is_requeued_and_finally_fails_as_poison(engine: Engine) -> None:
    job_id = submit(engine)
    for attempt in (1, 2, 3):
        assert claim(engine, float(attempt), "w7") is not None
        assert recover(engine, attempt + 0.5, "someone else") == 0
        assert recover(engine, attempt + 0.5, "w7") == 1
        assert job(engine, job_id).state == ("queued" if attempt < 3 else "failed")
    assert job(engine, job_id).reason.startswith("poison: the worker was lost 3 times")
    assert "w7" in job(engine, job_id).reason


def test_a_released_job_counts_no_loss(engine: Engine) -> None:
    job_id = submit(engine)
    claimed = claim(engine, 0.0)
    assert claimed is not None
    with transaction(engine) as tx:
        row = lease.lock_leased(tx, claimed, 1.0, LEASE_S)
        assert row is not None
        lease.release(tx, row, 1.0)
    assert not is_leased(engine, claimed, 1.0)
    assert (job(engine, job_id).state, job(engine, job_id).lost) == ("queued", 0)


@pytest.mark.parametrize("steer", [queries.cancel, queries.pause])
def test_cancel_and_pause_invalidate_the_lease(engine: Engine, steer: object) -> None:
    assert callable(steer)
    job_id = submit(engine)
    claimed = claim(engine, 0.0)
    with transaction(engine) as tx:
        steer(tx, 1, job_id, 1.0)
    assert not is_leased(engine, claimed, 2.0)
    assert claim(engine, 3.0) is None


def test_a_paused_job_is_resumed_and_a_cancelled_one_is_not(engine: Engine) -> None:
    job_id = submit(engine)
    with transaction(engine) as tx:
        queries.pause(tx, 1, job_id, 1.0)
        queries.pause(tx, 1, job_id, 1.5)
        assert queries.resume(tx, 1, job_id, 2.0).state == "queued"
        assert queries.resume(tx, 1, job_id, 2.5).state == "queued"
    assert ids([claim(engine, 3.0)]) == [job_id]
    with transaction(engine) as tx:
        assert queries.resume(tx, 1, job_id, 3.5).state == "running"
        assert queries.cancel(tx, 1, job_id, 4.0).ended_s == 4.0
        queries.cancel(tx, 1, job_id, 5.0)
        with pytest.raises(
            StateError, match="from cancelled to queued because no such transition exists"
        ):
            queries.resume(tx, 1, job_id, 6.0)
    expected = ["queued", "paused", "queued", "running", "cancelled"]
    assert states(engine, job_id) == expected


def test_every_change_increments_the_version(engine: Engine) -> None:
    job_id = submit(engine)
    seen = [job(engine, job_id).version]
    claimed = claim(engine, 0.0)
    seen.append(job(engine, job_id).version)
    assert is_leased(engine, claimed, 1.0)
    assert job(engine, job_id).version == seen[-1]  # a heartbeat changes nothing for readers
    with transaction(engine) as tx:
        queries.pause(tx, 1, job_id, 2.0)
    seen.append(job(engine, job_id).version)
    assert seen == sorted(set(seen))


def test_a_kernel_delivered_again_is_the_newest(engine: Engine) -> None:
    job_id = submit(engine)
    claimed = claim(engine, 0.0)
    assert claimed is not None

    def package(digest: str) -> PackageRow:
        return PackageRow(
            sha256=digest * 64, size_bytes=2, content=b"PK", manifest="{}", created_s=0.0
        )

    for digest in "aba":
        with transaction(engine) as tx:
            row = lease.lock_leased(tx, claimed, 1.0, LEASE_S)
            assert row is not None
            lease.add_kernel(
                tx, row, "mm", package(digest), Latency(1e-3, "race"), False, 1.0, None
            )
    with transaction(engine) as tx:
        (kernel,) = queries.kernels_of(tx, 1, job_id)
        assert kernel.sha256 == "a" * 64
        assert queries.package(tx, 1, "b" * 64).content == b"PK"


def test_an_ended_job_changes_no_state() -> None:
    assert set(ENDED) == {"succeeded", "failed", "cancelled"}
    assert {after for afters in MOVES.values() for after in afters} <= set(MOVES)


def test_a_failed_transaction_is_rolled_back(engine: Engine) -> None:
    def interrupted() -> None:
        with transaction(engine) as tx:
            queries.submit(tx, 1, Submission(MM), 0.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    with transaction(engine) as tx:
        assert queries.count(tx, 1, "queued") == 0
