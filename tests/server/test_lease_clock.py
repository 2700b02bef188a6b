"""Changes of the lease clock: living workers keep their jobs, dead ones lose them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from ansorpy.server.db.engine import transaction
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.jobs import lease
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.lease_clock import LeaseClock
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.worker_loop import WorkerLoop
from tests.server.test_lease import LEASE_S, claim, is_leased, job, recover, submit
from tests.server.test_worker import Script, claimed

BEAT_S, LOOK_S = 5.0, 2.5  # interval of heartbeats and of recoveries
HOUR_S = 3600.0
JUMPS = [0.0, 1.0, 14.0, 16.0, 29.0, 31.0, 44.0, 46.0, 61.0, HOUR_S]


@dataclass
class Time:
    """A database clock that can be set, and a monotonic clock."""

    steady_s: float = 1000.0
    offset_s: float = 1.7e9

    def now_s(self) -> float:
        """Return the time of the database clock."""
        return self.steady_s + self.offset_s


def run(engine: Engine, jump_s: float) -> tuple[list[str], float]:
    """Lease jobs to two workers, kill one, set the clock; return the recovered owners.

    Returns:
        The owners of the recovered jobs, in order, and the seconds from the jump to the last.
    """
    time = Time()
    clock = LeaseClock(LEASE_S, lambda: time.steady_s)
    jobs = {submit(engine): "living", submit(engine): "dead"}
    claims = {owner: claim(engine, time.now_s(), owner) for owner in jobs.values()}
    assert clock.is_steady(time.now_s())
    time.steady_s += LOOK_S
    jumped_s, robbed, late_s = time.steady_s, list[str](), 0.0
    time.offset_s += jump_s
    while time.steady_s < jumped_s + 3 * LEASE_S:
        if clock.is_steady(time.now_s()) and recover(engine, time.now_s()):
            taken = [jobs[each] for each in jobs if job(engine, each).state == "queued"]
            robbed += [owner for owner in taken if owner not in robbed]
            late_s = time.steady_s - jumped_s
        if (time.steady_s - jumped_s) % BEAT_S == LOOK_S:
            assert is_leased(engine, claims["living"], time.now_s())
        time.steady_s += LOOK_S
    return robbed, late_s


@pytest.mark.parametrize("jump_s", [*(-each for each in JUMPS), *JUMPS[1:]])
def test_a_clock_jump_takes_no_leases_and_delays_recovery_by_two_leases_at_most(
    engine: Engine, jump_s: float
) -> None:
    robbed, late_s = run(engine, jump_s)
    assert robbed == ["dead"]
    assert late_s <= 2 * LEASE_S


def test_a_lease_from_before_the_clock_was_set_back_has_ended(engine: Engine) -> None:
    job_id = submit(engine)
    claim(engine, HOUR_S)
    assert recover(engine, HOUR_S - LEASE_S / 2) == 0  # a small correction
    assert recover(engine, 0.0) == 1
    assert job(engine, job_id).state == "queued"


def test_a_worker_with_a_longer_lease_keeps_its_job(engine: Engine) -> None:
    submit(engine)
    with transaction(engine) as tx:
        assert lease.claim(tx, "w", 0.0, 10 * LEASE_S) is not None
    assert recover(engine, 0.0) == 0


def test_a_small_clock_correction_does_not_stop_expiry() -> None:
    steady_s = 0.0
    clock = LeaseClock(LEASE_S, lambda: steady_s)
    for second in range(100):
        steady_s = float(second)
        assert clock.is_steady(1e9 + second * 1.01)


@pytest.fixture
def settings(tmp_path: Path, url: str) -> ServiceSettings:
    return ServiceSettings(
        data_dir=tmp_path, database_url=url, heartbeat_s=0.05, watch_s=0.02, poll_s=0.02,
        storage_wait_s=0.1,
    )  # fmt: skip


def worker_loop(
    settings: ServiceSettings,
    engine: Engine,
    folder: Path,
    script: Script,
    clock: Callable[[], float],
) -> WorkerLoop:
    return WorkerLoop(
        settings, engine, ProcessIdentity.current(), folder, StopFlag(),
        start_tuner=lambda _: script, clock=clock,  # type: ignore[arg-type,return-value]
    )  # fmt: skip


def test_three_jumps_forward_count_no_losses(
    settings: ServiceSettings, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    monkeypatch.setattr("ansorpy.server.worker.worker_loop.now", lambda _: time.now_s())
    job_id = submit(engine)
    far = replace(ProcessIdentity.current(), host="elsewhere")
    living = claim(engine, time.now_s(), str(far))
    idle = worker_loop(settings, engine, tmp_path, Script(), lambda: time.steady_s)
    for _ in range(3):
        idle.run_one()
        time.offset_s += HOUR_S
        idle.run_one()
        time.steady_s += BEAT_S
        assert is_leased(engine, living, time.now_s())
    assert (job(engine, job_id).state, job(engine, job_id).lost) == ("running", 0)


def test_a_job_given_up_on_a_full_disk_is_queued_later_without_a_loss(
    settings: ServiceSettings, engine: Engine, tmp_path: Path
) -> None:
    folder, job_id, full = tmp_path / "scratch", submit(engine), [False]
    folder.mkdir()

    def refuse(_connection: object) -> None:
        if full[0]:
            raise OperationalError("COMMIT", None, Exception("database or disk is full"))

    def fill(_look: int) -> None:
        full[0] = True

    event.listen(engine, "commit", refuse)
    script = Script("stuck", before=fill)
    works = worker_loop(settings, engine, folder, script, lambda: 0.0)
    works.run_one()
    assert script.killed
    script.killed, script.orders[:] = False, []
    with pytest.raises(OperationalError):  # the disk is still full
        works.run_one()
    full[0] = False
    assert job(engine, job_id).state == "running"
    script.steps[:], script.before = ["done"], lambda _: None
    works.run_one()
    row = job(engine, job_id)
    assert (len(script.orders), row.lost, row.attempts) == (1, 0, 2)


def test_a_given_up_job_of_another_worker_is_not_released(
    settings: ServiceSettings, engine: Engine, tmp_path: Path
) -> None:
    job_id = submit(engine)
    works = worker_loop(settings, engine, tmp_path, Script(), lambda: 0.0)
    works._given_up = claimed(engine)
    with transaction(engine) as tx:
        assert lease.recover(tx, 0.0, 3, "w") == 1
    taken = claimed(engine)
    works.run_one()
    assert (job(engine, job_id).lease_token, job(engine, job_id).state) == (taken.token, "running")
