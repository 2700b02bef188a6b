"""Stores by name: of Python and of commands, with errors that name package and method."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansorpy.errors import PluginError, SpecError
from ansorpy.events import Finished
from ansorpy.records import MEASURED, JsonlStore, MemoryStore, RecordStore
from ansorpy.tuner.options.plugins import STORES, plugins
from ansorpy.tuner.parts.stores import PluggedStore, store_of
from tests.test_records import KEY, StoreContract, trial
from tests.tuner.test_plugins import Install, events, install_example, installer

pytestmark = pytest.mark.usefixtures("few_candidates")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path / "site", monkeypatch)


class TestExampleStore(StoreContract):
    @pytest.fixture
    def make(
        self, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[], RecordStore]:
        install_example(install)
        monkeypatch.setenv("EXAMPLE_PARTS_RECORDS", str(tmp_path / "shared"))
        return lambda: store_of("shared-folder")


def test_records_of_an_example_store_answer_on_the_machine_that_measured_them(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_example(install)
    monkeypatch.setenv("EXAMPLE_PARTS_RECORDS", str(tmp_path / "shared"))
    options: dict[str, Any] = {"trials": 8}
    list(events(tmp_path, **options, store=store_of("shared-folder")))
    *_, end = events(tmp_path, **options, store=store_of("shared-folder"))
    assert isinstance(end, Finished)
    assert end.stopped == "store"
    monkeypatch.setattr("example_parts.shared_folder.node", lambda: "elsewhere")
    *_, end = events(tmp_path, **options, store=store_of("shared-folder"))
    assert isinstance(end, Finished)
    assert end.stopped == "trials", "records of another machine are imported"


def test_built_in_stores_are_chosen_by_name_too() -> None:
    names = [one.name for one in plugins(STORES)][:3]
    assert names == ["database", "file", "memory"]
    assert isinstance(store_of("memory"), MemoryStore)
    assert isinstance(store_of("file"), JsonlStore)
    given = MemoryStore()
    assert store_of(given) is given
    with pytest.raises(SpecError) as caught:
        store_of("../records")
    assert str(caught.value) == (
        "cannot keep records with store '../records' because no record store of this name is"
        " installed; expected database, file, memory"
    )


STORE = """
from dataclasses import replace
from ansorpy.records import MemoryStore
class Mine(MemoryStore):
    """


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("1 / 0", "its import raised ZeroDivisionError"),
        ("class Mine: ...", "its factory returned Mine, which has no method append"),
        (STORE + "def append(self, records, origin=''): open('/no/such')", "append raised"),
        (STORE + "def all(self, key): return [key]", "all returned "),
        (STORE + "def all(self, key): return [replace(one, key='other') for one in self.export()]",
         "all returned a record of another task than"),
        (STORE + "def best(self, key): return 1.0", "best returned 1.0, not a Record"),
        (STORE + "def similar(self, structure): return None", "similar raised TypeError"),
        (STORE + "def count(self, key=None): return 'many'", "count raised ValueError"),
        (STORE + "def export(self): yield 3", "export returned 3, not a Record"),
    ],
)  # fmt: skip
def test_a_wrong_store_is_named_with_its_package_and_method(
    install: Install, code: str, why: str
) -> None:
    name = f"wrong_store_{abs(hash(code))}"
    install(name, f"[ansorpy.stores]\nmine = {name}:Mine\n", code)
    with pytest.raises(PluginError) as caught:
        used(store_of("mine"))
    assert f"cannot keep records with record store mine of {name} 1.0 because {why}" in str(
        caught.value
    )


def used(store: RecordStore) -> None:
    """Call each method of a store."""
    assert isinstance(store, PluggedStore)
    store.append([trial(1.0)], MEASURED)
    store.all(KEY)
    store.best(KEY)
    store.similar("")
    store.count()
    list(store.export())


def test_a_store_that_raises_ends_the_tuning(install: Install, tmp_path: Path) -> None:
    code = STORE + "def append(self, records, origin=''): 1 / 0"
    install("full_store", "[ansorpy.stores]\nfull = full_store:Mine\n", code)
    with pytest.raises(PluginError, match=r"record store full of full_store 1\.0 because append"):
        list(events(tmp_path, trials=8, store=store_of("full")))
