"""The survey thread of a worker, with a stand-in for the process that imports Ray."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from ansorpy.cluster.ray.environment import TOKEN_FILE
from ansorpy.errors import SpecError
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.models import SlotRow, SurveyRow
from ansorpy.server.identity import ProcessIdentity
from ansorpy.server.jobs.slots import take_survey
from ansorpy.server.worker import surveyor as module
from ansorpy.server.worker.surveyor import Surveyor, surveying
from tests.server.databases import ON_SQLITE
from tests.server.process import until
from tests.server.surveys import line, slot, starter

pytestmark = ON_SQLITE  # tests/server/test_slots.py runs the statements on both databases
AT = "head:6379"


@contextmanager
def running(engine: Engine, file: Path, owner: str = "a", **changes: Any) -> Iterator[Surveyor]:
    given: dict[str, Any] = {"start": starter(file), "again_s": 0.05, "beat_s": 0.2, **changes}
    one = Surveyor(engine, owner, AT, **given)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def names(engine: Engine) -> list[str]:
    with transaction(engine) as tx:
        return list(tx.scalars(select(SlotRow.name).order_by(SlotRow.name)))


def survey(engine: Engine) -> SurveyRow:
    with transaction(engine) as tx:
        return tx.scalars(select(SurveyRow)).one()


def test_lines_are_stored_and_garbage_between_them_is_not(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    bad = ("no JSON", "", '{"slots": 1}', line(slot("bad/0", trials=-1)), "\x00\x1b")
    file.write_text("\n".join((line(slot("a/0")), *bad, line(slot("b/0")), line(slot("c/0")))))
    with running(engine, file):
        until(lambda: names(engine) == ["a/0", "b/0", "c/0"])
    assert file.with_suffix(".ends").read_text() == "end\n", "the process ended by itself"
    assert survey(engine).until_s == 0.0, "the lease is given back"


def test_a_process_that_ends_is_started_again(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(line(slot("a/0")) + "\nEXIT\n")
    with running(engine, file):
        until(lambda: names(engine) == ["a/0"])
        file.write_text(line(slot("b/0")))
        until(lambda: names(engine) == ["a/0", "b/0"])


def test_a_process_that_tells_nothing_valid_is_replaced(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("garbage\n")
    with running(engine, file, silent_s=0.3):
        until(lambda: file.with_suffix(".ends").exists())
        file.write_text(line(slot("a/0")))
        until(lambda: names(engine) == ["a/0"])


def test_an_endless_line_ends_its_process(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1 << 12)
    monkeypatch.setattr(module, "END_S", 0.1)
    file = tmp_path / "lines"
    file.write_text("x" * (1 << 18))
    starts = []

    def start(cluster: str) -> "subprocess.Popen[bytes]":
        starts.append(cluster)
        return starter(file)(cluster)

    with running(engine, file, start=start):
        until(lambda: len(starts) > 1)


def test_one_of_two_workers_surveys_and_the_other_follows(engine: Engine, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(line(slot("a/0")))
    second.write_text(line(slot("b/0")))
    with running(engine, second, "b") as other:
        until(lambda: names(engine) == ["b/0"])
        with running(engine, first, "a"):
            with transaction(engine) as tx:
                assert not take_survey(tx, AT, "a", now(tx))
            other.stop()
            until(lambda: survey(engine).owner == "a")
            until(lambda: names(engine) == ["a/0", "b/0"])


def test_a_worker_that_lost_the_lease_ends_its_process(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(line(slot("a/0")))
    with running(engine, file):
        until(lambda: names(engine) == ["a/0"])
        with transaction(engine) as tx:
            row = tx.scalars(select(SurveyRow)).one()
            row.owner, row.until_s = "b", now(tx) + 30.0
        until(lambda: file.with_suffix(".ends").exists())
    assert survey(engine).owner == "b"


def test_a_process_that_ignores_its_end_is_killed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_S", 0.1)
    children = []

    def start(_: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", f"print({line(slot())!r}, flush=True);import time;"
                   "time.sleep(600)"]  # fmt: skip
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        children.append(child)
        return child

    with running(engine, Path(), start=start):
        until(lambda: names(engine) == ["north/0"])
    assert [child.returncode for child in children] == [-9]


def test_a_process_ends_with_its_worker(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(line(slot("a/0")))
    code = (
        "import sys, time; from pathlib import Path;"
        "from ansorpy.server.db.upgrade import open_database;"
        "from ansorpy.server.worker.surveyor import Surveyor;"
        "from tests.server.surveys import starter;"
        f"Surveyor(open_database(sys.argv[1]), 'a', {AT!r}, starter(Path(sys.argv[2]))).start();"
        "time.sleep(600)"
    )
    env = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    worker = subprocess.Popen([sys.executable, "-c", code, str(engine.url), str(file)], env=env)
    until(lambda: names(engine) == ["a/0"])
    worker.kill()
    worker.wait()
    until(lambda: file.with_suffix(".ends").exists())


def test_the_reason_of_a_cluster_that_cannot_be_surveyed_is_stored(
    engine: Engine, tmp_path: Path
) -> None:
    def start(_: str) -> "subprocess.Popen[bytes]":
        raise SpecError("cannot use a cluster because Ray is not installed")

    with running(engine, tmp_path, start=start):
        until(lambda: "Ray is not installed" in _reason(engine))


def _reason(engine: Engine) -> str:
    with transaction(engine) as tx:
        return tx.scalar(select(SurveyRow.reason)) or ""


@pytest.mark.parametrize("address", ["", "here:4", "nonsense"])
def test_without_a_cluster_of_several_machines_there_is_no_survey(
    engine: Engine, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSORPY_CLUSTER", address)
    with surveying(engine, ProcessIdentity.current()), transaction(engine) as tx:
        assert tx.scalar(select(SurveyRow.owner)) is None


def test_a_worker_without_the_secret_tells_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSORPY_CLUSTER", AT)
    monkeypatch.delenv(TOKEN_FILE, raising=False)
    with surveying(engine, ProcessIdentity.current()):
        until(lambda: _reason(engine).startswith("cannot use a cluster because"))
