"""Files of cases are made without following links, and a change is noticed."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from ansorpy.errors import RunError
from ansorpy.measure.sandbox.seals import Sealed, create
from ansorpy.measure.verify.cases import load_cases, make_cases, save_cases
from tests.measure.fake import matmul


def kept(root: Path) -> tuple[Sealed, Path]:
    sealed = Sealed(root)
    folder = sealed.folder()
    sealed.keep(folder, save_cases(make_cases(matmul(), 0), {}, folder))
    return sealed, folder


def test_written_cases_are_intact_and_can_be_loaded(tmp_path: Path) -> None:
    sealed, folder = kept(tmp_path)
    sealed.check(folder)
    cases, _ = load_cases(folder)
    for one, made in zip(cases, make_cases(matmul(), 0), strict=True):
        for name, array in one.inputs.items():
            assert np.array_equal(array, made.inputs[name], equal_nan=True)


def test_loaded_cases_keep_no_file_open_and_are_unmapped_with_the_last_array(
    tmp_path: Path,
) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    _, folder = kept(tmp_path)
    before = opened()
    cases, _ = load_cases(folder)
    assert opened() == before
    assert mappings() == len(list(folder.glob("*.npy"))) > 10
    array = cases[0].inputs["A"][1:]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0
    del cases
    gc.collect()
    assert mappings() == 1
    assert np.isfinite(array).all()


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_text("victim")
    folder.mkdir()
    for name in ("cases.json", "1.npy"):
        (folder / name).symlink_to(victim)
        with pytest.raises(FileExistsError):
            create(folder, name, b"x")
    with pytest.raises(FileExistsError):
        save_cases(make_cases(matmul(), 0), {}, folder)
    assert victim.read_text() == "victim"
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(OSError, match="link"):  # ELOOP or ENOTDIR: the folder is a link
        create(tmp_path / "link", "new", b"x")


def test_folders_have_unguessable_names(tmp_path: Path) -> None:
    sealed = Sealed(tmp_path)
    one, two = sealed.folder(), sealed.folder()
    assert one != two
    assert one.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["bytes", "replaced", "removed", "link"])
def test_a_file_that_was_changed_is_noticed(tmp_path: Path, how: str) -> None:
    sealed, folder = kept(tmp_path)
    path = folder / "1.npy"
    data = path.read_bytes()
    path.chmod(0o600)
    match how:
        case "bytes":
            with path.open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(bytes([data[-1] ^ 1]))
        case "replaced":
            path.unlink()
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "removed":
            path.unlink()
        case _:
            path.rename(tmp_path / "moved")
            path.symlink_to(tmp_path / "moved")
    with pytest.raises(RunError, match="cannot check kernels because"):
        sealed.check(folder)


def test_a_touched_but_unchanged_file_is_intact(tmp_path: Path) -> None:
    sealed, folder = kept(tmp_path)
    os.utime(folder / "1.npy")
    sealed.check(folder)
