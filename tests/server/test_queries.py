from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from ansorpy.errors import SpecError
from ansorpy.frontends.tc.text import parse
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.models import WorkerRow
from ansorpy.server.jobs import lease, machines, queries
from ansorpy.server.jobs.errors import KeyReusedError, NotFoundError, QuotaError
from ansorpy.server.jobs.submission import Submission
from tests.server.test_lease import LEASE_S, MM, add_tenant, claim, submit

OTHER = parse("def mm(float(4,5) A, float(5,7) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")


def ask(
    engine: Engine, submission: Submission, key: str | None = None, tenant: int = 1
) -> queries.SubmitResult:
    with transaction(engine) as tx:
        return queries.submit(tx, tenant, submission, 0.0, idempotency_key=key, max_queued=5)


def succeed(engine: Engine, best_s: float | None = None) -> None:
    claimed = claim(engine, 1.0, target="t")
    assert claimed is not None
    with transaction(engine) as tx:
        row = lease.lock_leased(tx, claimed, 2.0, LEASE_S)
        assert row is not None
        row.best_s = best_s
        lease.finish(tx, row, [], "trials", 2.0)


def test_a_document_round_trips() -> None:
    submission = Submission(
        MM, trials=7, seconds=1.5, target_latency_s=1e-3, stop_if_gain_below=0.01, patience=5,
        weights={"mm": 2.0}, cores=2, seed=5, fresh=True, allow=["winograd2"],
        without=["SplitPhases"], target="t", priority=-3, text="def mm...",
    )  # fmt: skip
    assert Submission.of(submission.document) == submission
    assert Submission.of(submission.document).sha256 == submission.sha256


def test_submissions_are_validated() -> None:
    with pytest.raises(SpecError, match="cannot weight x because it is no task; expected mm"):
        Submission(MM, weights={"x": 1.0})
    two = (*MM, replace(MM[0], name="other"))
    with pytest.raises(
        SpecError, match=r"2 tasks with 1 trials because .* expected at least 2, or 0"
    ):
        Submission(two, trials=1)
    assert Submission(two, trials=0).trials == 0, "first answers alone"


def test_the_same_idempotency_key_is_the_same_job(engine: Engine) -> None:
    first = ask(engine, Submission(MM, fresh=True), "k")
    again = ask(engine, Submission(MM, fresh=True), "k")
    assert (first.how, again.how, again.job.id) == ("created", "repeated", first.job.id)
    with pytest.raises(KeyReusedError):
        ask(engine, Submission(MM, seed=1), "k")
    other = ask(engine, Submission(MM, seed=1), "k", add_tenant(engine, "b"))
    assert other.how == "created"


def test_equal_queued_or_running_jobs_are_coalesced(engine: Engine) -> None:
    first = ask(engine, Submission(MM))
    assert ask(engine, Submission(MM, trials=32), "k").job.id == first.job.id
    assert ask(engine, Submission(MM, trials=32), "k").how == "repeated"
    claim(engine, 1.0, target="t")
    same = ask(engine, Submission(MM, target="t"))
    assert (same.how, same.job.id) == ("coalesced", first.job.id)
    for different in (
        Submission(MM, trials=65),
        Submission(OTHER),
        Submission(MM, cores=2),
        Submission(MM, target="u"),
    ):
        assert ask(engine, different).how == "created"


def test_fresh_requests_and_other_tenants_get_new_jobs(engine: Engine) -> None:
    ask(engine, Submission(MM))
    assert ask(engine, Submission(MM, fresh=True)).how == "created"
    assert ask(engine, Submission(MM), tenant=add_tenant(engine, "b")).how == "created"


def test_finished_jobs_answer_requests_of_at_most_their_budget(engine: Engine) -> None:
    first = ask(engine, Submission(MM, trials=64, seconds=10.0))
    succeed(engine, best_s=2e-3)
    assert ask(engine, Submission(MM, trials=64, seconds=10.0)).how == "answered"
    assert ask(engine, Submission(MM, trials=8, seconds=5.0)).job.id == first.job.id
    reached: dict[str, Any] = {"trials": 10_000, "target_latency_s": 3e-3}
    assert ask(engine, Submission(MM, **reached)).how == "answered"
    asked: list[dict[str, Any]] = [
        {"trials": 65, "seconds": 10.0},
        {"trials": 64},
        {"trials": 10_000, "target_latency_s": 1e-3},
    ]
    for more in asked:
        assert ask(engine, Submission(MM, **more)).how == "created", more


@pytest.mark.parametrize(
    ("own", "other", "covers"),
    [
        ({}, {}, True),
        (
            {},
            {"seconds": 1.0, "target_latency_s": 1.0, "stop_if_gain_below": 0.5},
            True,
        ),
        ({"seconds": 2.0}, {"seconds": 1.0}, True),
        ({"seconds": 1.0}, {"seconds": 2.0}, False),
        ({"seconds": 1.0}, {}, False),
        ({"target_latency_s": 1.0}, {}, False),
        ({"target_latency_s": 1.0}, {"target_latency_s": 2.0}, True),
        ({"stop_if_gain_below": 0.1}, {"stop_if_gain_below": 0.05}, False),
    ],
)
def test_a_job_coalesces_requests_of_at_most_its_budget(
    engine: Engine, own: dict[str, Any], other: dict[str, Any], covers: bool
) -> None:
    ask(engine, Submission(MM, **own))
    assert ask(engine, Submission(MM, **other)).how == ("coalesced" if covers else "created")


def test_a_full_queue_is_refused(engine: Engine) -> None:
    for seed in range(5):
        ask(engine, Submission(MM, seed=seed, fresh=True))
    with pytest.raises(QuotaError, match="expected at most 5 queued jobs") as told:
        ask(engine, Submission(MM, fresh=True))
    assert told.value.retry_after_s > 0
    assert ask(engine, Submission(MM)).how == "coalesced"


def test_jobs_are_listed_newest_first_page_by_page(engine: Engine) -> None:
    made = [submit(engine) for _ in range(5)]
    submit(engine, tenant=add_tenant(engine, "b"))
    seen: list[str] = []
    before: int | None = None
    with transaction(engine) as tx:
        while True:
            rows, before = queries.list_jobs(tx, 1, before=before, limit=2)
            seen += [row.id for row in rows]
            if before is None:
                break
        assert queries.list_jobs(tx, 1, state="running") == ([], None)
    assert seen == made[::-1]


def test_resources_of_another_tenant_are_unknown(engine: Engine) -> None:
    job_id, other = submit(engine), add_tenant(engine, "b")
    with transaction(engine) as tx:
        for ask_for in (queries.find, queries.kernels_of, queries.explain):
            with pytest.raises(NotFoundError):
                ask_for(tx, other, job_id)
        for steer in (queries.cancel, queries.pause, queries.resume):
            with pytest.raises(NotFoundError):
                steer(tx, other, job_id, 1.0)
        with pytest.raises(NotFoundError):
            queries.events_after(tx, other, job_id, 0)


def test_events_are_numbered_and_read_on(engine: Engine) -> None:
    job_id = submit(engine)
    claim(engine, 1.0)
    with transaction(engine) as tx:
        queries.cancel(tx, 1, job_id, 2.0)
        rows = queries.events_after(tx, 1, job_id, 0)
        assert [row.seq for row in rows] == [1, 2, 3]
        assert [row.seq for row in queries.events_after(tx, 1, job_id, 1, limit=1)] == [2]
        assert queries.events_after(tx, 1, job_id, 3) == []


def test_an_explanation_has_the_submission(engine: Engine) -> None:
    job_id = submit(engine)
    with transaction(engine) as tx:
        told = queries.explain(tx, 1, job_id)
    assert (told.submission.dags, told.failures, told.job.trials_done) == (MM, (), 0)


def test_jobs_are_listed_by_a_prefix_of_their_id(engine: Engine) -> None:
    ids = [submit(engine) for _ in range(8)]
    other = submit(engine, tenant=add_tenant(engine, "b"))
    with transaction(engine) as tx:
        for job_id in ids:
            for length in (1, 8, 32):
                rows, _ = queries.list_jobs(tx, 1, prefix=job_id[:length])
                wanted = [i for i in reversed(ids) if i.startswith(job_id[:length])]
                assert [row.id for row in rows] == wanted
        assert queries.list_jobs(tx, 1, prefix=other) == ([], None)


def test_living_workers_have_a_recent_heartbeat(engine: Engine) -> None:
    with transaction(engine) as tx:
        seen = (("a", 100.0, "idle"), ("b", 1.0, "busy"), ("c", 100.0, "stopped"))
        for name, beat_s, state in seen:
            tx.add(
                WorkerRow(
                    id=name, host="h", pid=1, state=state, target="t", facts='{"target": {}}',
                    started_s=0.0, heartbeat_s=beat_s,
                )
            )  # fmt: skip
    with transaction(engine) as tx:
        assert [row.id for row in machines.workers(tx, 110.0)] == ["a"]
        assert machines.targets(tx, 110.0) == {"t": {}}


def test_the_clock_is_that_of_the_database(engine: Engine) -> None:
    with transaction(engine) as tx:
        first, second = now(tx), now(tx)
    assert 1.7e9 < first <= second
