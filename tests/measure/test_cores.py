"""Jobs of one machine take turns on its cores."""

import logging
import os
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from ansorpy.measure import cores
from ansorpy.measure.cores import exclusive
from ansorpy.measure.workers.replies import Returned
from ansorpy.measure.workers.spec import WorkerSpec
from ansorpy.measure.workers.worker import Worker

PATIENCE_S = 30.0


def waits(folder: Path) -> None:
    """Return when somebody has the turn."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        if (folder / "core-3.turn").exists() and is_locked(folder / "core-3.turn"):
            return
        time.sleep(0.001)
    raise AssertionError("nobody waits")


def is_locked(path: Path) -> bool:
    """Return whether the file is among the locks of this machine."""
    inode = str(path.stat().st_ino)
    return any(f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines())


def test_a_waiting_job_gets_the_lock_next(tmp_path: Path) -> None:
    order = []

    def other() -> None:
        with exclusive({3}, tmp_path):
            order.append("other")

    for _ in range(20):
        with exclusive({3}, tmp_path):
            thread = threading.Thread(target=other)
            thread.start()
            waits(tmp_path)
        with exclusive({3}, tmp_path):  # at once: faster than a waiting thread wakes up
            order.append("again")
        thread.join()
    assert order == ["other", "again"] * 20


def test_a_long_wait_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cores._tell.cache_clear()

    def other() -> None:
        with exclusive({3}, tmp_path, told_after_s=0.01):
            pass

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with exclusive({3}, tmp_path):
                thread = threading.Thread(target=other)
                thread.start()
                waits(tmp_path)
                time.sleep(0.1)
            thread.join()
    told = "core 3: another job of this machine is timing on it; waiting"
    assert caplog.messages == [told]


def test_other_cores_are_not_waited_for(tmp_path: Path) -> None:
    with exclusive({1}, tmp_path), exclusive({0, 2}, tmp_path):
        assert is_locked(tmp_path / "core-1.lock")


def test_on_two_cores_workers_import_on_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for usable, own, expected in (
        ((0, 1), {0}, {1}), ((2, 5), {2, 5}, {5}), ((3,), {3}, {3}), ((0, 1, 2), {0}, {0}),
    ):  # fmt: skip
        monkeypatch.setattr(cores, "usable_cores", lambda usable=usable: usable)
        assert cores.importing_cores(frozenset(own)) == expected


def own_cores(_: object) -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0))


def test_a_process_that_is_ready_keeps_to_its_own_cores(tmp_path: Path) -> None:
    first, *_, last = (*cores.usable_cores(), *cores.usable_cores())
    spec = WorkerSpec(frozenset({first}), importing=frozenset({last}), folder=str(tmp_path))
    with closing(Worker(spec)) as worker:
        answer = worker.call(f"{__name__}:own_cores", None, 10.0)
    assert isinstance(answer, Returned)
    assert answer.value == {first}
