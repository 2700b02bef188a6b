"""One database in one data folder for commands, Python and the service (ADR-0021)."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import ansorpy
from ansorpy.folders import data_dir
from ansorpy.records import (
    IMPORTED,
    MEASURED,
    JsonlStore,
    MemoryStore,
    file_store,
    file_store_path,
)
from ansorpy.server.db.old_records import take_in
from ansorpy.server.db.records import SqlStore
from ansorpy.server.settings import ServiceSettings
from ansorpy.tuner.parts.stores import store_of
from tests.server.test_cli import MM
from tests.test_records import KEY, trial
from tests.tuner.test_plugins import events

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANSORPY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ANSORPY_DATABASE_URL", raising=False)
    return tmp_path / "data"


def test_one_variable_names_the_folder_everywhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_dir() == ServiceSettings().data_dir == folder
    assert file_store_path() == folder / "records.jsonl"
    for value in ("", None):
        if value is None:
            monkeypatch.delenv("ANSORPY_DATA_DIR")
        else:
            monkeypatch.setenv("ANSORPY_DATA_DIR", value)
        assert data_dir() == ServiceSettings().data_dir == tmp_path / "home" / "ansorpy"


def test_python_opens_the_database_of_the_commands(folder: Path) -> None:
    store = store_of(None)
    assert isinstance(store, SqlStore)
    assert store.engine.url.database == str(folder / "ansorpy.db")


def test_records_of_python_are_exported_by_the_command_and_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(events(folder / "kernels", trials=4, store=store_of(None)))
    command = [sys.executable, "-m", "ansorpy", "records", "export"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(told.splitlines()) == store_of(None).count() > 0
    last = list(events(folder / "kernels", trials=4, store=store_of(None)))[-1]
    assert getattr(last, "stopped", "") == "store"


def test_the_variable_of_the_commands_names_the_store_of_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANSORPY_STORE", "memory")
    assert type(store_of(None)) is MemoryStore
    monkeypatch.setenv("ANSORPY_STORE", "nowhere")
    with pytest.raises(ansorpy.SpecError, match="store 'nowhere'"):
        ansorpy.tune(MM, bind={"N": 8})


def test_records_of_the_file_are_taken_in_once_with_their_origins(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = file_store()
    old.append([trial(1.0, row=(1, 1)), trial(2.0, row=(2, 2))], MEASURED)
    old.append([trial(3.0, row=(3, 3))], IMPORTED)
    with caplog.at_level(logging.WARNING):
        store = store_of(None)
    origins = {record.row: record.origin for record in store.all(KEY)}
    assert origins == {(1, 1): MEASURED, (2, 2): MEASURED, (3, 3): IMPORTED}
    moved = folder / "records.jsonl.imported"
    assert caplog.messages == [
        f"took 3 records of {old.path} into the database; it is {moved}",
    ]
    assert not old.path.exists()
    assert not old.measured_path.exists()
    assert [one.origin for one in JsonlStore(moved).all(KEY)] == [MEASURED, MEASURED, IMPORTED]
    file_store().append([trial(4.0, row=(4, 4))], MEASURED)  # the store `file` goes on
    assert store_of(None).count() == 3
    assert file_store_path().exists()


def test_a_crash_while_records_are_taken_in_loses_none(folder: Path) -> None:
    old = file_store()
    old.append([trial(float(n), row=(n, n)) for n in range(1, 9)], MEASURED)
    store = store_of("memory")
    first = store_of("memory")
    first.append(list(old.export())[:5], MEASURED)
    take_in(old.path, first)
    assert first.count() == 8
    take_in(old.path, store)
    assert store.count() == 0, "taken in once"


def test_a_file_with_a_wrong_line_stays_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir()
    path = file_store_path()
    path.write_text('{"nonsense": 1}\n')
    with caplog.at_level(logging.WARNING):
        assert store_of(None).count() == 0
    (told,) = caplog.messages
    assert told.startswith(f"cannot take in the records of {path} because of {path}")
    assert path.exists()


def test_another_database_takes_no_file_in(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_store().append([trial(1.0)], MEASURED)
    monkeypatch.setenv("ANSORPY_DATABASE_URL", f"sqlite:///{tmp_path}/team.db")
    assert store_of(None).count() == 0
    assert file_store_path().exists()


WRITER = """
import sys
from ansorpy.records import MEASURED
from ansorpy.tuner.parts.stores import store_of
from tests.test_records import trial

me = int(sys.argv[1])
for number in range(40):
    store_of(None).append([trial(1.0 + number, row=(me, n, number)) for n in range(5)], MEASURED)
"""


def test_processes_that_tune_at_once_lose_no_record(folder: Path) -> None:
    file_store().append([trial(9.0, row=(n,)) for n in range(1, 701)], MEASURED)
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, str(n)], cwd=ROOT) for n in (1, 2)]
    assert [one.wait(300) for one in writers] == [0, 0]
    store = store_of(None)
    assert store.count() == 700 + 2 * 40 * 5
    assert {record.origin for record in store.export()} == {MEASURED}
