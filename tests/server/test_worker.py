"""Tuner process and worker loop with a fake engine; test_service.py has the real one."""

import json
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.exc import OperationalError

from ansorpy.errors import SpecError
from ansorpy.events import (
    BaselineTimed,
    Delivered,
    Derived,
    Event,
    Finished,
    FirstAnswer,
    RoundDone,
    TaskResult,
    TimeSpent,
)
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.records import Record
from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import JobRow, SearchRow, WorkerRow
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.jobs import lease, queries
from ansorpy.server.jobs.lease import Claim
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.scratch import scratch
from ansorpy.server.service.serializers import job_reply
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.journal import JobJournal
from ansorpy.server.worker.leased_job import LeasedJob, LeaseLostError, StorageError
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.tuner_main import Tune, run_job
from ansorpy.server.worker.tuner_process import Message
from ansorpy.server.worker.worker_loop import WorkerLoop
from ansorpy.tuner.tasks.checkpoint import Checkpoint
from tests.server.test_lease import submit

DERIVED = Derived("mm", 3, 9, 0.1)
ROUND = RoundDone("mm", 1, 2, 1e-3, {"wrong": 1}, {"kendall": 0.5}, TimeSpent())
AFTER = Checkpoint(1.5, {"x": 1}, {"state": 2**100}, {}, {"mm": 1.0}, ((2, 1e-3),))


def result(kernel: Path | None) -> TaskResult:
    won = kernel is not None
    return TaskResult(
        "mm", "key", 1e-3 if won else None, 2e-3 if won else None, 16, 1.0, won,
        "tuned" if won else None, kernel, 240, failures={"wrong": 1},
        examples={"wrong": "C[0] is 1, not 2"},
    )  # fmt: skip


def records(first: int = 0) -> Sequence[Record]:
    good = Record("key", "w", "cpu@1", "{}", (first,), Measured((1e-3,)))
    bad = replace(good, row=(first + 1,), outcome=Failed("wrong", "C[0] is 1, not 2"))
    return good, bad


def good(_: Submission, journal: JobJournal, out: Path) -> Iterator[Event]:
    yield DERIVED
    journal.append_round(ROUND, records(), AFTER)
    yield ROUND
    yield Finished((result(zipped(out / "mm.zip")),), 1.0, "trials")


def zipped(path: Path, manifest: str = "{}") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("manifest.json", manifest)
    return path


@pytest.fixture
def settings(tmp_path: Path, url: str) -> ServiceSettings:
    return ServiceSettings(
        data_dir=tmp_path, database_url=url, heartbeat_s=0.05, watch_s=0.02, poll_s=0.02,
        storage_wait_s=0.2,
    )  # fmt: skip


@pytest.fixture
def job_id(engine: Engine) -> str:
    return submit(engine)


def claimed(engine: Engine, at_s: float | None = None) -> Claim:
    with transaction(engine) as tx:
        found = lease.claim(tx, "w", time.time() if at_s is None else at_s, 30.0)
    assert found is not None
    return found


def leased_job(engine: Engine, **options: Any) -> LeasedJob:
    return LeasedJob(engine, claimed(engine), 30.0, 0.2, **options)


def job(engine: Engine, job_id: str) -> JobRow:
    with transaction(engine) as tx:
        return queries.find(tx, 1, job_id)


def events(engine: Engine, job_id: str) -> list[tuple[str, Mapping[str, Any]]]:
    with transaction(engine) as tx:
        rows = queries.events_after(tx, 1, job_id, 0)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    return [(row.kind, json.loads(row.body)) for row in rows]


def drive(
    settings: ServiceSettings, engine: Engine, tune: Tune, folder: Path
) -> list[Mapping[str, Any]]:
    said: list[Mapping[str, Any]] = []
    run_job(
        settings, engine, claimed(engine), folder, tune,
        lambda what, **told: said.append({"is": what, **told}),
    )  # fmt: skip
    return said


# --- the tuner process


def test_a_job_is_tuned_and_stored(
    settings: ServiceSettings, engine: Engine, job_id: str, tmp_path: Path
) -> None:
    said = drive(settings, engine, good, tmp_path)
    assert [message["is"] for message in said] == ["alive", "alive", "alive", "done"]
    row = job(engine, job_id)
    assert (row.state, row.trials_done, row.rounds_done, row.best_s) == ("succeeded", 2, 1, 1e-3)
    with transaction(engine) as tx:
        (kernel,) = queries.kernels_of(tx, 1, job_id)
        package = queries.package(tx, 1, kernel.sha256)
        assert (kernel.task, kernel.final, package.manifest) == ("mm", True, "{}")
        told = queries.explain(tx, 1, job_id)
        assert [(f.kind, f.count, f.examples) for f in told.failures] == [
            ("wrong", 1, ("C[0] is 1, not 2",))
        ]
        assert len(queries.records_after(tx, 1, job_id=job_id)) == 2
    kinds = [kind for kind, _ in events(engine, job_id)]
    assert kinds == [
        "state", "state", "derived", "improved", "round", "kernel", "finished", "state",
    ]  # fmt: skip
    assert list(tmp_path.glob("job-*")) == []


def test_a_job_that_is_cancelled_after_its_first_answer_keeps_it_and_the_baseline(
    settings: ServiceSettings, engine: Engine, job_id: str, tmp_path: Path
) -> None:
    def early(_: Submission, journal: JobJournal, out: Path) -> Iterator[Event]:
        yield DERIVED
        yield FirstAnswer("mm", zipped(out / "first.zip"), 4e-3, 0.5, ("all",))
        yield BaselineTimed("mm", 8e-3, 6e-3)
        journal.append_round(ROUND, records(), AFTER)
        yield ROUND
        yield Delivered("mm", zipped(out / "library.zip", '{"n": 2}'), 9e-4)
        with transaction(engine) as tx:
            queries.cancel(tx, 1, job_id, time.time())
        yield Delivered("mm", zipped(out / "late.zip", '{"n": 3}'), 8e-4)

    assert drive(settings, engine, early, tmp_path)[-1]["is"] == "lost"
    told = events(engine, job_id)
    assert [kind for kind, _ in told] == [
        "state", "state", "derived", "kernel", "baseline", "improved", "round", "kernel", "state",
    ]  # fmt: skip
    (first, second), baseline = (
        [body for kind, body in told if kind == "kernel"],
        dict(told)["baseline"],
    )
    assert (first["best_s"], first["latency_s"], first["final"]) == (4e-3, 4e-3, False)
    assert (second["best_s"], second["latency_s"]) == (9e-4, 9e-4)
    assert baseline == {
        "task": "mm", "baseline_s": 6e-3, "naive_s": 8e-3, "numpy_s": 6e-3, "numpy_note": "",
        "seconds": 0.5,
    }  # fmt: skip
    row = job(engine, job_id)
    with transaction(engine) as tx:
        reply = job_reply(row, queries.kernels_of(tx, 1, job_id), None)
        manifest = queries.package(tx, 1, str(reply.tasks[0].kernel)).manifest
    (task,) = reply.tasks
    assert (reply.state, reply.best_s, manifest) == ("cancelled", 9e-4, '{"n": 2}')
    assert (task.best_s, task.baseline_s, task.trials, task.final) == (9e-4, 6e-3, 2, False)


def test_a_job_has_a_latency_once_each_task_has_its_first_answer(
    settings: ServiceSettings, engine: Engine, tmp_path: Path
) -> None:
    two = (
        "def a(float(4) A) -> (B) { B(i) = A(i) + 1 } def b(float(4) A) -> (B) { B(i) = A(i) + 2 }"
    )
    with transaction(engine) as tx:
        asked = Submission(parse(two), weights={"b": 3.0})
        one = queries.submit(tx, 1, asked, 0.0, idempotency_key=None, max_queued=5)

    def answers(_: Submission, _journal: JobJournal, out: Path) -> Iterator[Event]:
        yield FirstAnswer("a", zipped(out / "a.zip", "1"), 4e-3, 0.5, ("all",))
        yield FirstAnswer("b", zipped(out / "b.zip", "2"), 2e-3, 0.9, ("all",))
        yield Delivered("a", zipped(out / "a2.zip", "3"), 1e-3)
        raise SpecError("it ends here")

    drive(settings, engine, answers, tmp_path)
    told = [body["latency_s"] for kind, body in events(engine, one.job.id) if kind == "kernel"]
    assert told == [None, pytest.approx(10e-3), pytest.approx(7e-3)]


def test_a_job_without_survivors_fails_with_the_reasons(
    settings: ServiceSettings, engine: Engine, job_id: str, tmp_path: Path
) -> None:
    def hopeless(_: Submission, _journal: JobJournal, _out: Path) -> Iterator[Event]:
        yield Finished((result(None),), 1.0, "trials")

    assert drive(settings, engine, hopeless, tmp_path)[-1]["is"] == "done"
    row = job(engine, job_id)
    expected = "no candidate survived: wrong: C[0] is 1, not 2"
    assert (row.state, row.reason) == ("failed", expected)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SpecError("more than 2048 sketches"), "more than 2048 sketches"),
        (ZeroDivisionError("oh"), "internal error: ZeroDivisionError: oh"),
    ],
)
def test_an_error_fails_the_job_and_not_the_tuner_process(
    settings: ServiceSettings,
    engine: Engine,
    job_id: str,
    tmp_path: Path,
    error: Exception,
    message: str,
) -> None:
    def broken(_: Submission, _journal: JobJournal, _out: Path) -> Iterator[Event]:
        yield DERIVED
        raise error

    assert drive(settings, engine, broken, tmp_path)[-1]["is"] == "done"
    assert (job(engine, job_id).state, job(engine, job_id).reason) == ("failed", message)


def test_a_tuner_process_without_lease_writes_nothing(
    settings: ServiceSettings, engine: Engine, job_id: str, tmp_path: Path
) -> None:
    def robbed(asked: Submission, journal: JobJournal, out: Path) -> Iterator[Event]:
        with transaction(engine) as tx:
            queries.pause(tx, 1, job_id, time.time())
        yield from good(asked, journal, out)

    assert drive(settings, engine, robbed, tmp_path)[-1]["is"] == "lost"
    row = job(engine, job_id)
    assert (row.state, row.progress, row.results) == ("paused", "{}", "[]")


def test_a_tuner_process_without_a_database_is_stuck(
    settings: ServiceSettings, engine: Engine, job_id: str, tmp_path: Path
) -> None:
    def full(_: Submission, journal: JobJournal, _out: Path) -> Iterator[Event]:
        yield DERIVED
        raise StorageError("storage: database or disk is full")

    said = drive(settings, engine, full, tmp_path)
    assert said[-1] == {"is": "stuck", "reason": "storage: database or disk is full"}
    assert job(engine, job_id).state == "running"


# --- the leased job


def test_writes_are_retried_until_the_database_is_back(engine: Engine, job_id: str) -> None:
    pauses: list[float] = []
    leased = leased_job(engine, sleep=pauses.append, clock=lambda: 0.0)
    failures = iter([True, True, False])

    def change(_tx: object, row: JobRow, _now_s: float) -> str:
        if next(failures):
            raise OperationalError("x", {}, Exception("database is locked"))
        return row.id

    assert leased.write(change) == job_id
    assert pauses == [0.05, 0.1]


def test_retries_of_writes_end(engine: Engine, job_id: str) -> None:
    times = iter(range(100))
    leased = leased_job(engine, sleep=lambda _: None, clock=lambda: 0.1 * next(times))

    def change(*_: object) -> None:
        raise OperationalError("x", {}, Exception("disk I/O error"))

    with pytest.raises(StorageError, match="storage: disk I/O error"):
        leased.write(change)
    assert job(engine, job_id).state == "running"


# --- the journal


def test_a_round_with_an_unacknowledged_commit_is_stored_once(engine: Engine, job_id: str) -> None:
    journal = JobJournal(leased_job(engine))
    journal.append_round(ROUND, records(), AFTER)
    journal._round -= 1  # as if the reply had been lost
    journal.append_round(ROUND, records(), AFTER)
    assert len(journal.stored().rounds) == 1
    assert [kind for kind, _ in events(engine, job_id)].count("round") == 1


def test_a_larger_search_space_is_stored_with_earlier_progress(engine: Engine, job_id: str) -> None:
    journal = JobJournal(leased_job(engine))
    for event in (DERIVED, DERIVED):  # repeated by a resumed search
        journal.derived(event)
    journal.append_round(ROUND, records(), AFTER)
    journal.derived(replace(DERIVED, plans=46))
    journal.derived(DERIVED)
    assert [kind for kind, _ in events(engine, job_id)].count("derived") == 2
    known = json.loads(job(engine, job_id).progress)["mm"]
    assert (known["sketches"], known["plans"], known["trials"]) == (3, 46, 2)


def test_stored_rounds_are_read_back_in_order(engine: Engine, job_id: str) -> None:
    journal = JobJournal(leased_job(engine))
    assert journal.stored().checkpoint is None
    journal.append_round(ROUND, records(), AFTER)
    journal.append_round(replace(ROUND, round=2, trials=4), records(2), replace(AFTER, seconds=9.0))
    journal.append_race("mm", records()[0])
    kept = JobJournal(journal._leased).stored()
    assert kept.checkpoint is not None
    assert (kept.checkpoint.seconds, kept.checkpoint.picking) == (9.0, {"state": 2**100})
    assert kept.rounds == (("mm", records()), ("mm", records(2)))


def test_no_trial_of_a_job_is_stored_twice(engine: Engine, job_id: str) -> None:
    journal = JobJournal(leased_job(engine))
    journal.append_round(ROUND, records(), AFTER)
    with pytest.raises(Exception, match=r"(?i)unique"):
        journal.append_round(ROUND, [replace(records()[0], created_s=5.0)], AFTER)


def test_a_journal_has_the_records_from_before_the_job(engine: Engine, job_id: str) -> None:
    other = submit(engine)
    first = JobJournal(leased_job(engine))
    first.append_round(ROUND, records(), AFTER)
    second = JobJournal(leased_job(engine))
    first.append_round(replace(ROUND, round=2), records(2), AFTER)
    assert job(engine, other).state == "running"
    assert first.all("key") == ()
    assert second.all("key") == records()
    assert (second.count(), second.count("key"), second.count("x")) == (2, 2, 0)
    assert second.best("key") == records()[0]
    assert tuple(second.export()) == records()
    assert {record.origin for record in second.export()} == {"measured"}


def test_a_stored_round_resets_the_losses(engine: Engine, job_id: str) -> None:
    for _ in range(2):
        first = leased_job(engine)
        first.write(lambda tx, row, now_s: lease.record_loss(tx, row, 3, now_s))
    assert job(engine, job_id).lost == 2
    JobJournal(leased_job(engine)).append_round(ROUND, records(), AFTER)
    assert job(engine, job_id).lost == 0


# --- the worker loop


class Script:
    """Fake tuner process: one step per call; None is silence, an exception is raised."""

    def __init__(self, *steps: object, before: Callable[[int], None] = lambda _: None) -> None:
        self.steps = list(steps)
        self.before = before
        self.orders: list[Claim] = []
        self.killed = False
        self.pid = 1
        self.looks = 0

    @property
    def alive(self) -> bool:
        return not self.killed

    def order(self, claim: Claim, _folder: Path) -> None:
        self.orders.append(claim)

    def receive(self, timeout_s: float) -> Message | None:
        if not self.orders:
            return {"is": "ready"}
        self.looks += 1
        self.before(self.looks)
        step = self.steps.pop(0) if self.steps else None
        if step is None:
            time.sleep(min(timeout_s, 0.01))
            return None
        if isinstance(step, Exception):
            raise step
        return {"is": str(step), "reason": "because"}

    def ended(self) -> str:
        return "the tuner process was killed by SIGSEGV"

    def kill(self) -> int:
        self.killed = True
        return -9


def worker_loop(
    settings: ServiceSettings, engine: Engine, folder: Path, *scripts: Script
) -> WorkerLoop:
    waiting = iter(scripts)
    return WorkerLoop(
        settings, engine, ProcessIdentity.current(), folder, StopFlag(),
        start_tuner=lambda _: next(waiting),  # type: ignore[arg-type,return-value]
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "scratch"
    found.mkdir()
    return found


def test_without_a_job_the_loop_does_nothing(
    settings: ServiceSettings, engine: Engine, folder: Path
) -> None:
    assert not worker_loop(settings, engine, folder, Script()).run_one()


def test_a_tuner_process_runs_one_job_after_another(
    settings: ServiceSettings, engine: Engine, folder: Path
) -> None:
    made = [submit(engine), submit(engine)]
    script = Script("alive", "done", "alive", "done")
    keeps = worker_loop(settings, engine, folder, script)
    assert [keeps.run_one(), keeps.run_one()] == [True, True]
    assert [order.job_id for order in script.orders] == made
    with transaction(engine) as tx:
        row = tx.scalars(select(WorkerRow)).one()
    assert (row.state, row.jobs_done, row.pid) == ("idle", 2, os.getpid())


def test_a_dead_tuner_process_is_counted_and_replaced(
    settings: ServiceSettings, engine: Engine, folder: Path, job_id: str
) -> None:
    scripts = [Script(EOFError()) for _ in range(3)]
    keeps = worker_loop(settings, engine, folder, *scripts)
    for _ in scripts:
        assert keeps.run_one()
    row = job(engine, job_id)
    assert row.state == "failed"
    assert row.reason.startswith("poison: the worker was lost 3 times")
    assert row.reason.endswith("the tuner process was killed by SIGSEGV")
    assert all(script.killed for script in scripts)


@pytest.mark.parametrize("steer", [queries.cancel, queries.pause])
def test_a_lost_lease_stops_the_tuner_process_at_once(
    settings: ServiceSettings, engine: Engine, folder: Path, job_id: str, steer: Any
) -> None:
    def take(look: int) -> None:
        if look == 2:
            with transaction(engine) as tx:
                steer(tx, 1, job_id, time.time())

    script = Script(before=take)
    assert worker_loop(settings, engine, folder, script).run_one()
    assert script.killed
    assert script.looks < 20


def test_a_tuner_process_has_time_to_report_an_ended_job(
    settings: ServiceSettings, engine: Engine, folder: Path, job_id: str
) -> None:
    def end(look: int) -> None:
        if look == 2:
            leased = LeasedJob(engine, script.orders[0], 30.0, 0.2)
            leased.write(lambda tx, row, now_s: lease.fail(tx, row, "no", now_s))
        if look == 6:
            script.steps = ["done"]

    script = Script(before=end)
    assert worker_loop(settings, engine, folder, script).run_one()
    assert not script.killed


def test_the_lease_is_extended_during_a_long_round(
    settings: ServiceSettings, engine: Engine, folder: Path, job_id: str
) -> None:
    leases: list[float] = []

    def look(number: int) -> None:
        leases.append(job(engine, job_id).lease_until_s)
        if leases[-1] > leases[0] or number > 500:
            script.steps = ["done"]

    script = Script(before=look)
    worker_loop(settings, engine, folder, script).run_one()
    assert leases[-1] > leases[0]


def test_a_silent_tuner_process_is_lost(
    settings: ServiceSettings, engine: Engine, folder: Path, job_id: str
) -> None:
    script = Script("alive")
    worker_loop(settings.model_copy(update={"stall_s": 0.1}), engine, folder, script).run_one()
    assert script.killed
    assert (job(engine, job_id).state, job(engine, job_id).lost) == ("queued", 1)


def test_a_stopping_worker_releases_its_job(
    settings: ServiceSettings, engine: Engine, folder: Path, job_id: str
) -> None:
    keeps = worker_loop(settings, engine, folder, Script(before=lambda _: keeps.stop.set()))
    keeps.run()
    assert (job(engine, job_id).state, job(engine, job_id).lost) == ("queued", 0)
    with transaction(engine) as tx:
        assert tx.scalars(select(WorkerRow.state)).one() == "stopped"


def test_a_job_that_cannot_be_stored_is_paused(
    settings: ServiceSettings, engine: Engine, folder: Path, job_id: str
) -> None:
    worker_loop(settings, engine, folder, Script("stuck")).run_one()
    assert (job(engine, job_id).state, job(engine, job_id).reason) == ("paused", "because")


def test_the_job_of_an_ended_local_worker_is_recovered_at_once(
    settings: ServiceSettings, engine: Engine, folder: Path, job_id: str
) -> None:
    dead = replace(ProcessIdentity.current(), started=1)
    far = replace(dead, host="elsewhere")
    for owner, state in ((dead, True), (far, False)):
        with transaction(engine) as tx:
            assert lease.claim(tx, str(owner), time.time(), 30.0) is not None
        script = Script("done")
        assert worker_loop(settings, engine, folder, script).run_one() is state
        if state:
            with transaction(engine) as tx:
                queries.pause(tx, 1, job_id, time.time())
                queries.resume(tx, 1, job_id, time.time())


# --- identity and scratch


def test_an_identity_is_gone_after_the_end_of_its_process() -> None:
    identity = ProcessIdentity.current()
    assert ProcessIdentity.of(str(identity)) == identity
    assert not identity.is_gone(identity)
    assert replace(identity, started=identity.started + 1).is_gone(identity)
    assert not replace(identity, host="elsewhere", started=0).is_gone(identity)
    for text in ("", "w7", "a:b:c", "a:b:c:d", "a:b:1:x"):
        assert ProcessIdentity.of(text) is None


def test_scratch_folders_of_ended_workers_are_removed(tmp_path: Path) -> None:
    identity = ProcessIdentity.current()
    dead = replace(identity, started=1)
    (tmp_path / f"worker-{dead}").mkdir()
    (tmp_path / f"worker-{replace(identity, host='far')}").mkdir()
    with scratch(tmp_path, identity) as folder:
        (folder / "file").write_text("x")
        names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"worker-{identity}", f"worker-{replace(identity, host='far')}"}
    assert not folder.exists()


def test_a_search_row_has_the_state_of_the_search(engine: Engine, job_id: str) -> None:
    JobJournal(leased_job(engine)).append_round(ROUND, records(), AFTER)
    with transaction(engine) as tx:
        row = tx.get_one(SearchRow, job_id)
    assert (row.round, json.loads(row.body)["seconds"]) == (1, 1.5)


def test_a_lost_lease_is_reported(engine: Engine, job_id: str) -> None:
    leased = leased_job(engine)
    assert leased.ownership() == "ours"
    leased.write(lambda tx, row, now_s: lease.release(tx, row, now_s))
    assert leased.ownership() == "taken"
    with pytest.raises(LeaseLostError):
        leased.extend_lease()


def test_an_equal_task_shows_the_progress_of_the_task_it_is_tuned_as(
    engine: Engine, tmp_path: Path
) -> None:
    text = "def {}(float(8) {}) -> (B) {{ B(i) = {}(i) * 2 }}"
    dags = parse("\n".join((text.format("mm", "A", "A"), text.format("twin", "X", "X"))))
    with transaction(engine) as tx:
        job_id = queries.submit(tx, 1, Submission(dags, fresh=True), 0.0).job.id
    journal = JobJournal(leased_job(engine))
    journal.derived(DERIVED)
    journal.append_round(ROUND, records(), AFTER)
    mm, twin = job_reply(job(engine, job_id), (), None).tasks
    assert (mm.same_as, mm.trials, mm.best_s, mm.failures) == ("", 2, 1e-3, {"wrong": 1})
    assert (twin.same_as, twin.trials, twin.best_s, twin.failures) == ("mm", 0, 1e-3, {})
    assert twin.sketches == mm.sketches == 3
    for name in ("mm", "twin"):
        path = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("manifest.json", "{}")
            file.writestr("name", name)
        journal.deliver(Delivered(name, path, 9e-4))
        assert job(engine, job_id).best_s == 2e-3  # the search goes on
        ((told, _),) = [(b, k) for k, b in events(engine, job_id) if k == "kernel"][-1:]
        assert told["latency_s"] == pytest.approx(2 * 9e-4)  # for both names
    won = result(None)
    journal.finish(
        Finished((won, replace(won, name="twin", trials=0, same_as="mm")), 1.0, "trials")
    )
    mm, twin = job_reply(job(engine, job_id), (), None).tasks
    assert (mm.same_as, twin.same_as) == ("", "mm")
