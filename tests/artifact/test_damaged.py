"""Packages that were damaged, or made to harm their reader: PackageError, and nothing else."""

import gc
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy.artifact import load_native, load_package, package, stored_zip, unbox
from ansorpy.artifact.elf import check_library
from ansorpy.artifact.folder import PREFIX, reap
from ansorpy.artifact.package import LIBRARY, box, read_bytes
from ansorpy.codegen.kernel import Kernel
from ansorpy.errors import PackageError
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.timing.libraries import Exported
from ansorpy.tuner.race.contestant import Contestant
from ansorpy.tuner.tasks.task import Task
from tests.artifact.mutations import crafted, mutated, resealed
from tests.artifact.test_native import made, zipped  # noqa: F401 - a fixture
from tests.artifact.test_pack import MM, packed
from tests.night import night


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return packed(parse(MM)[0], tmp_path_factory.mktemp("mm"))[0].read_bytes()


@pytest.fixture(scope="module")
def native(
    made: tuple[Task, Contestant[Kernel], Exported],  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> bytes:
    return zipped(made, tmp_path_factory.mktemp("native")).read_bytes()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the folder for temporary files of this process and of those it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr("ansorpy.artifact.folder._own", {})
    yield tmp_path
    tempfile.tempdir = None


def changed(data: bytes, library: bytes | None = None, **fields: Any) -> bytes:
    """Return a self-consistent package with another library or other fields of the manifest."""
    good = unbox(data, "good")
    files = good.files if library is None else {**good.files, LIBRARY: library}
    manifest = {**good.manifest, **fields}
    return box(files, {name: value for name, value in manifest.items() if value is not None})


@pytest.mark.parametrize("mutations", night((300, 4000), [300]))
def test_no_random_mutation_is_accepted(data: bytes, mutations: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(mutations):
        with pytest.raises(PackageError):
            unbox(mutated(data, rng), "p")


def test_no_crafted_zip_is_accepted(data: bytes) -> None:
    zips = crafted(data)
    assert len(zips) >= 12
    for name, attack in zips.items():
        with pytest.raises(PackageError):
            unbox(attack, name)


def test_a_file_of_a_package_is_copied_once_however_often_the_directory_names_it(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = crafted(data)["60,000 central entries"]
    good, files = stored_zip.LOCAL, unbox(data, "p").files
    looked: list[int] = []

    class Counting:
        size, pack = good.size, good.pack

        def unpack_from(self, data: bytes, at: int) -> tuple[Any, ...]:
            looked.append(at)
            return good.unpack_from(data, at)

    monkeypatch.setattr(stored_zip, "LOCAL", Counting())
    monkeypatch.setattr(zipfile.ZipFile, "read", None)  # and zipfile reads no member
    with pytest.raises(PackageError, match="not those that packing its files gives"):
        unbox(attack, "p")
    assert len(looked) == len(files)


def test_a_repeated_name_is_refused_before_its_content_is_read(data: bytes) -> None:
    with pytest.raises(PackageError, match=r"unexpected file 'kernel\.py', repeated or out of"):
        unbox(crafted(data)["repeated"], "p")


def test_a_long_manifest_is_not_parsed(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_zip, "MAX_MANIFEST_BYTES", 100)
    with pytest.raises(PackageError, match="not a kernel package"):
        unbox(data, "p")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("\0", "cannot read '\\x00': embedded null byte"),
        ("/proc/no/such.zip", "No such file or directory"),
        ("/dev/zero", "it is no plain file"),
    ],
    ids=["null byte", "absent", "device"],
)
@pytest.mark.parametrize("load", [ansorpy.load, ansorpy.load_native])
def test_a_path_that_cannot_be_read_is_a_package_error(
    load: Callable[[str], object], path: str, message: str
) -> None:
    with pytest.raises(PackageError) as told:
        load(path)
    assert message in str(told.value)


def test_a_folder_is_read_if_a_kernel_was_unpacked_there() -> None:
    with pytest.raises(PackageError, match=r"cannot load / because it has no manifest\.json"):
        ansorpy.load("/")
    with pytest.raises(PackageError, match="it is no plain file"):
        ansorpy.load_native("/")


def test_a_file_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "MAX_BYTES", 10)
    (tmp_path / "long.zip").write_bytes(bytes(11))
    with pytest.raises(PackageError, match="at most 10 bytes"):
        read_bytes(tmp_path / "long.zip")
    with pytest.raises(PackageError, match="11 bytes, limit 10"):
        unbox(bytes(11), "p")


@pytest.mark.parametrize("field", ["inputs", "latency_s", "name", "target"])
def test_a_manifest_without_a_field_is_refused_at_load(data: bytes, field: str) -> None:
    with pytest.raises(PackageError, match=f"its manifest has no usable {field}"):
        load_package(changed(data, **{field: None}), "p")


def test_code_that_cannot_be_imported_is_a_package_error_and_leaves_no_folder(
    data: bytes, temporary: Path
) -> None:
    good = unbox(data, "good")
    files = {**good.files, "kernel.py": b"raise OSError('from the package')"}
    with pytest.raises(PackageError, match=r"cannot load p: kernel\.py: from the package"):
        load_package(box(files, good.manifest), "p")
    (folder,) = temporary.glob(f"{PREFIX}*")
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("packages", night((100, 1000), [100]))
def test_no_resealed_manifest_escapes_as_another_error(
    native: bytes, tmp_path: Path, packages: int
) -> None:
    rng = np.random.default_rng(0)
    for number in range(packages):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(resealed(native, rng))
        with suppress(PackageError):
            repr(load_native(path))
        path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("step", night((7, 1), [7]))
def test_a_library_that_was_cut_anywhere_is_refused(native: bytes, step: int) -> None:
    library = unbox(native, "p").files[LIBRARY]
    check_library(library, "p")
    for size in {*range(0, len(library), step), len(library) - 1}:
        with pytest.raises(PackageError, match=r"it ends early|nothing to load|no 64-bit ELF"):
            check_library(library[:size], "p")


@pytest.mark.slow
def test_a_library_for_another_processor_is_refused(native: bytes, tmp_path: Path) -> None:
    library = unbox(native, "p").files[LIBRARY]
    path = tmp_path / "p.zip"
    for wrong, message in (
        (library[:18] + b"\x08\0" + library[20:], "its code is for ELF machine 8; expected"),
        (b"\x7fELF\1" + library[5:], "it is no 64-bit ELF shared library"),
        (b"", "it ends early: 0 bytes"),
        (bytes(len(library)), "it is no 64-bit ELF shared library"),
    ):
        path.write_bytes(changed(native, library=wrong))
        with pytest.raises(PackageError, match=message):
            load_native(path)


@pytest.mark.slow
def test_a_cut_library_does_not_kill_its_caller(native: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.zip"
    library = unbox(native, "p").files[LIBRARY]
    path.write_bytes(changed(native, library=library[: len(library) // 2]))
    code = "import ansorpy, sys; ansorpy.load_native(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "PackageError: cannot load cut.zip: libkernel.so: it ends early" in done.stderr


@pytest.mark.slow
def test_the_folder_of_a_kernel_is_private_and_lasts_as_long_as_a_function_of_it(
    native: bytes, tmp_path: Path, temporary: Path
) -> None:
    path = tmp_path / "k.zip"
    path.write_bytes(native)
    run = load_native(path).run
    gc.collect()
    (own,) = temporary.glob(f"{PREFIX}*")
    (folder,) = own.iterdir()
    assert [each.stat().st_mode & 0o777 for each in (own, folder)] == [0o700, 0o700]
    del run
    gc.collect()
    assert list(own.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "ended"])
def test_a_process_that_ended_leaves_no_folder(
    native: bytes, tmp_path: Path, temporary: Path, end: signal.Signals | None
) -> None:
    path = tmp_path / "k.zip"
    path.write_bytes(native)
    code = (
        "import ansorpy, os, sys\nkernel = ansorpy.load_native(sys.argv[1])\n"
        "print(flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        reap(temporary)
        assert len(list(temporary.glob(f"{PREFIX}*"))) == 1  # its process lives
        if end is not None:
            child.send_signal(end)
    if end is not None:
        assert len(list(temporary.glob(f"{PREFIX}*"))) == 1
        reap(temporary)
    assert list(temporary.glob(f"{PREFIX}*")) == []
