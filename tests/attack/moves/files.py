"""Moves on files: links, cases, modes, full folders, secrets."""

import ctypes
import mmap
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.attack.moves.common import (
    LIBC,
    MIB,
    Aims,
    Evil,
    LeakError,
    move,
    tried,
)


def case_folders() -> set[Path]:
    """Return the folders of cases, by the arrays that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {Path(line.split()[-1]).parent for line in lines if ".npy" in line}


def everywhere(aims: Aims) -> Iterator[Path]:
    """Yield every folder that a child can know."""
    own = Path(os.environ["TMPDIR"])
    yield own
    yield from (Path(aims.pool), Path(aims.outside), Path("/tmp"), Path("/var/tmp"))
    yield from case_folders()
    for top in (aims.pool, os.environ.get("NUMBA_CACHE_DIR", "")):
        yield from (Path(place) for place, _, _ in os.walk(top))


@move
def planted_links(aims: Aims) -> None:
    victim = f"{aims.outside}/victim"
    names = ["cases.json", *(f"{n}.npy" for n in range(40)), *(f"meaning{n}" for n in range(9))]
    for folder in everywhere(aims):
        for name in names:
            with tried:
                os.symlink(victim, folder / name)


@move
def links_that_wait(aims: Aims) -> None:
    """Plant links as soon as a folder of cases appears."""

    def wait() -> None:
        while True:
            planted_links(aims)

    threading.Thread(target=wait, daemon=True).start()


@move
def rewritten_cases(aims: Aims) -> None:
    for place in {*map(str, case_folders()), *(place for place, _, _ in os.walk(aims.pool))}:
        for name in ("cases.json", *(f"{n}.npy" for n in range(1, 40))):
            path = f"{place}/{name}"
            for attempt in (
                lambda path=path: os.chmod(path, 0o666),
                lambda path=path: os.truncate(path, 0),
                lambda path=path: Path(path).write_bytes(bytes(100)),
                lambda path=path: os.rename(path, path + "x"),
                lambda path=path: os.unlink(path),
                lambda path=path: _scribble(path),
            ):
                with tried:
                    attempt()


def _scribble(path: str) -> None:
    fd = os.open(path, os.O_RDWR)
    with mmap.mmap(fd, 0) as held:
        held[-64:] = bytes(64)


@move
def rewritten_cases_in_memory(aims: Aims) -> None:
    """Make the mapped pages of the cases writable and zero them: private to this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if ".npy" in line:
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            if LIBC.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 3) == 0:
                ctypes.memset(start, 0, end - start)


@move
def files_outside(aims: Aims) -> None:
    for folder in (aims.outside, aims.pool, "/tmp", "/var/tmp", "/dev/shm", str(Path.home()), "/"):
        for attempt in (
            lambda folder=folder: Path(f"{folder}/ansorpy-attack").write_text("x"),
            lambda folder=folder: os.mkdir(f"{folder}/ansorpy-attack-folder"),
            lambda folder=folder: os.mkfifo(f"{folder}/ansorpy-attack-pipe"),
            lambda folder=folder: os.symlink("/", f"{folder}/ansorpy-attack-link"),
        ):
            with tried:
                attempt()
    with tried:
        Path(f"{aims.outside}/victim").write_text("overwritten")


@move
def modes_and_times_outside(aims: Aims) -> None:
    victim = f"{aims.outside}/victim"
    attempts: tuple[Callable[[], object], ...] = (
        lambda: os.chmod(victim, 0o777),
        lambda: os.chmod(aims.outside, 0o777),
        lambda: os.chown(victim, 65534, 65534),
        lambda: os.utime(victim, (1, 1)),
        lambda: os.setxattr(victim, "user.attack", b"x"),
        lambda: os.truncate(victim, 0),
        lambda: os.fchmod(os.open(sys.executable, os.O_RDONLY), 0o755),
    )
    for attempt in attempts:
        with tried:
            attempt()


@move
def hard_links(aims: Aims) -> None:
    own = os.environ["TMPDIR"]
    for name in ("victim", "secret"):
        with tried:
            os.link(f"{aims.outside}/{name}", f"{own}/{name}")
            Path(f"{own}/{name}").write_text("through a hard link")
        with tried:
            os.rename(f"{aims.outside}/{name}", f"{own}/stolen-{name}")


@move
def full_folder(aims: Aims) -> None:
    for number_of_file in range(64):
        with tried, open(f"{os.environ['TMPDIR']}/{number_of_file}", "wb") as file:
            for _ in range(15):
                file.write(bytes(MIB))
    time.sleep(1.5)


@move
def full_folder_of_nameless_files(aims: Aims) -> None:
    kept = []
    for number_of_file in range(64):
        with tried:
            path = f"{os.environ['TMPDIR']}/{number_of_file}"
            fd = os.open(path, os.O_RDWR | os.O_CREAT)
            os.unlink(path)
            kept.append(fd)
            for _ in range(15):
                os.write(fd, bytes(MIB))
    time.sleep(1.5)


@move
def many_files(aims: Aims) -> None:
    for number_of_file in range(20_000):
        with tried:
            os.close(os.open(f"{os.environ['TMPDIR']}/{number_of_file}", os.O_CREAT))


@move
def folders_that_resist(aims: Aims) -> None:
    own = os.environ["TMPDIR"]
    with tried:
        os.makedirs(f"{own}/a/b")
        os.symlink(f"{aims.outside}/victim", f"{own}/a/b/link")
        os.symlink(aims.outside, f"{own}/folder")
        os.mkdir(f"{own}/closed", 0)
    deep = own
    for _ in range(300):
        deep += "/d"
        with tried:
            os.mkdir(deep)


@move
def poisoned_caches(aims: Aims) -> None:
    """Leave pickles where numba looks for an index of compiled functions."""
    blob = pickle.dumps(Evil(f"{aims.outside}/marker"))
    for folder in everywhere(aims):
        for name in ("openmp_launcher.launch-43.py311.nbi", "x.nbi"):
            with tried:
                (folder / name).write_bytes(blob)


@move
def secrets_in_files(aims: Aims) -> None:
    paths = [f"{aims.outside}/secret", "/etc/shadow", f"{Path.home()}/.ssh/id_ed25519"]
    for path in (*paths, f"/proc/{aims.driver}/root{aims.outside}/secret"):
        with tried:
            raise LeakError(Path(path).read_text())
