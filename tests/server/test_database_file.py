"""The SQLite file: private from its creation, and never replaced while it is open."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from ansorpy.records import JsonlStore
from ansorpy.server.db.engine import connect, reading, transaction
from ansorpy.server.db.sqlite_file import BESIDE
from ansorpy.server.db.upgrade import open_database
from ansorpy.server.doctor import storage
from ansorpy.server.jobs import queries
from ansorpy.server.settings import ServiceSettings
from tests.server.service import service
from tests.server.test_lease import submit
from tests.test_records import trial


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Set a umask that makes new files readable for all users."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ansorpy.db"


def modes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in (folder, *folder.iterdir())}


def test_a_new_database_is_private_with_all_its_files(path: Path) -> None:
    engine = open_database(f"sqlite:///{path}")
    submit(engine)
    assert modes(path.parent) == {
        "data": 0o700, "ansorpy.db": 0o600, "ansorpy.db-wal": 0o600, "ansorpy.db-shm": 0o600,
    }  # fmt: skip
    engine.dispose()


def test_the_file_is_private_before_sqlite_opens_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = connect(f"sqlite:///{path}")
    seen: list[int] = []

    opened = engine.dialect.connect

    def connected(*given: Any, **named: Any) -> Any:
        seen.append(path.stat().st_mode & 0o777)
        return opened(*given, **named)

    monkeypatch.setattr(engine.dialect, "connect", connected)
    engine.connect().close()
    assert seen == [0o600]
    engine.dispose()


def test_the_files_of_an_earlier_version_are_tightened(path: Path) -> None:
    first = open_database(f"sqlite:///{path}")
    submit(first)
    for each in path.parent.iterdir():
        each.chmod(0o666)
    open_database(f"sqlite:///{path}").dispose()
    assert set(modes(path.parent).values()) == {0o700, 0o600}
    assert {each.name for each in path.parent.iterdir()} <= {path.name + end for end in BESIDE}
    first.dispose()


def moved(path: Path) -> None:
    path.rename(path.with_name("old.db"))


def replaced(path: Path) -> None:
    moved(path)
    open_database(f"sqlite:///{path}").dispose()


def deleted(path: Path) -> None:
    for each in path.parent.iterdir():
        each.unlink()


@pytest.mark.parametrize("attack", [moved, replaced, deleted], ids=lambda f: f.__name__)
def test_a_missing_file_fails_readiness_and_submissions(path: Path, attack: object) -> None:
    assert callable(attack)
    url = f"sqlite:///{path}"
    with service(url) as running:
        running.submit(fresh=True)
        assert running.client.get("/readyz").status_code == 200
        attack(path)
        body = {"text": "def f(float(4) A) -> (B) { B(i) = A(i) }"}
        for reply in (
            running.client.get("/readyz"),
            running.client.post("/v1/jobs", json=body),
            running.client.get("/v1/jobs"),
        ):
            assert (reply.status_code, reply.json()["code"]) == (503, "database")
            assert "Retry-After" in reply.headers
        assert running.client.get("/healthz").status_code == 200
    if attack is not replaced:
        assert not path.exists()  # no empty database was created


def test_a_restored_file_is_used_again(path: Path) -> None:
    with service(f"sqlite:///{path}") as running:
        moved(path)
        assert running.client.get("/readyz").status_code == 503
        path.with_name("old.db").rename(path)
        assert running.client.get("/readyz").status_code == 200
        running.submit()


def test_a_move_within_a_transaction_refuses_its_commit(path: Path) -> None:
    engine = open_database(f"sqlite:///{path}")

    def interrupted() -> None:
        with transaction(engine) as tx:
            tx.execute(text("UPDATE tenants SET name = 'other'"))
            moved(path)

    with pytest.raises(OperationalError, match="was moved away or replaced"):
        interrupted()
    path.with_name("old.db").rename(path)
    with reading(engine) as tx:
        assert tx.scalar(text("SELECT name FROM tenants")) == "local"
    engine.dispose()


def test_new_connections_refuse_a_replaced_file(path: Path) -> None:
    engine = open_database(f"sqlite:///{path}")
    replaced(path)
    with reading(open_database(f"sqlite:///{path}")) as tx:
        assert queries.list_jobs(tx, 1) == ([], None)  # the replacement is a database, too
    engine.dispose()
    with pytest.raises(OperationalError, match="was moved away or replaced"):
        engine.connect()


def test_records_of_the_library_are_private(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "data" / "records.jsonl")
    store.append([trial(1e-3)])
    assert modes(tmp_path / "data") == {"data": 0o700, "records.jsonl": 0o600}


def test_doctor_reports_files_readable_by_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(path.parent / "home"))
    settings = ServiceSettings(data_dir=path.parent)
    engine = open_database(settings.url)
    store = JsonlStore(path.parent / "home" / "ansorpy" / "records.jsonl")
    store.append([trial(1e-3)])
    assert storage.private(settings).state == "ok"
    for wrong, mode, remedy in (
        (path.parent, 0o755, 0o700),
        (path, 0o644, 0o600),
        (Path(f"{path}-wal"), 0o640, 0o600),
        (store.path, 0o604, 0o600),
        (store.path.parent, 0o770, 0o700),
    ):
        wrong.chmod(mode)
        found = storage.private(settings)
        assert found.state == "bad"
        told = f"{wrong} has mode {mode:o}; expected {remedy:o}: `chmod {remedy:o} {wrong}`"
        assert told in found.text
        wrong.chmod(remedy)
    assert storage.private(settings).state == "ok"
    engine.dispose()


def test_a_database_in_memory_has_no_file() -> None:
    engine = connect("sqlite://")
    with transaction(engine) as tx:
        assert tx.scalar(text("SELECT 1")) == 1
    engine.dispose()
