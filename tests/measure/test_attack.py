"""Some moves of a hostile child; `python -m tests.attack.child` makes all of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansorpy.measure.sandbox import family, landlock, scratch, seccomp, usage
from ansorpy.measure.sandbox.environment import harmless
from ansorpy.measure.workers import frames
from ansorpy.measure.workers.replies import Misbehaved, Returned
from ansorpy.measure.workers.spec import ResourceLimits, WorkerSpec
from ansorpy.measure.workers.worker import Worker
from tests.attack import calls
from tests.attack.moves import FAST, MOVES
from tests.attack.stage import Stage, stage

pytestmark = pytest.mark.slow
CALLS = calls.__name__

isolated = pytest.mark.skipif(
    not (landlock.version() and seccomp.supported()), reason="no Landlock with seccomp here"
)


@pytest.fixture(scope="module")
def attacked() -> Iterator[Stage]:
    with stage() as made:
        yield made
    assert made.left() == []


@isolated
@pytest.mark.parametrize("role", list(FAST))
def test_a_hostile_child_harms_neither_others_nor_anything_outside(
    attacked: Stage, role: str
) -> None:
    assert {name: found for name in FAST[role] if (found := attacked.play(role, name))} == {}


def test_there_are_enough_moves() -> None:
    assert len(MOVES) >= 40
    assert {name for names in FAST.values() for name in names} <= set(MOVES)


# --- the channel, call by call


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = str(tmp_path_factory.mktemp("worker"))
    worker = Worker(WorkerSpec(frozenset({min(os.sched_getaffinity(0))}), folder=folder))
    yield worker
    worker.close()


def ask(worker: Worker, function: str, text: str = "mine", fresh: bool = False) -> Any:
    reply = worker.call(f"{CALLS}:{function}", text, 30.0, fresh=fresh)
    return reply.value if isinstance(reply, Returned) else reply


def test_an_answer_too_many_is_never_the_answer_to_another_call(worker: Worker) -> None:
    first = ask(worker, "own_pid")
    assert ask(worker, "twice") == "forged"  # its own: a process that lies about itself
    assert [ask(worker, "same", text) for text in ("one", "two")] == ["one", "two"]
    assert ask(worker, "own_pid") != first  # in a child without a pending answer


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("other_number", "does not repeat the number of the call"),
        ("no_json", "no answer: not JSON"),
        ("too_large", "an answer of 1073741824 bytes; expected at most 1048576"),
    ],
)
def test_a_child_that_answers_badly_is_killed_and_replaced(
    worker: Worker, function: str, words: str
) -> None:
    bad = ask(worker, function)
    assert isinstance(bad, Misbehaved)
    assert words in bad.why
    before = ask(worker, "own_pid")
    assert isinstance(ask(worker, function), Misbehaved)  # after an innocent call: tried once more
    assert ask(worker, "own_pid") not in (before, bad)


def test_a_thread_does_not_outlive_its_call(worker: Worker) -> None:
    before = ask(worker, "own_pid")
    assert ask(worker, "lingers") == "mine"
    assert ask(worker, "same", "next") == "next"
    assert ask(worker, "own_pid") != before


# --- processes, memory and folders


def runs(pid: int) -> bool:
    return any(one.pid == pid for one in family.everyone())


@pytest.mark.parametrize("how", ["kill", "fork server killed", "next child", "without seccomp"])
def test_nothing_that_a_child_forked_outlives_it(tmp_path: Path, how: str) -> None:
    spec = WorkerSpec(
        frozenset({min(os.sched_getaffinity(0))}), folder=str(tmp_path), programs=True,
        sandbox="off" if how == "without seccomp" else "auto",
    )  # fmt: skip
    worker = Worker(spec)
    try:
        pids = ask_forks(worker)
        assert all(map(runs, pids))
        match how:
            case "next child":
                assert ask(worker, "same", "next", fresh=True) == "next"
            case "fork server killed":
                assert worker._process is not None
                os.kill(worker._process.pid, signal.SIGKILL)
                assert ask(worker, "same", "next") == "next"
            case _:
                worker.kill()
        assert not any(map(runs, pids))
    finally:
        worker.kill()


def ask_forks(worker: Worker) -> list[int]:
    reply = worker.call(f"{CALLS}:forks", 600.0, 30.0)
    assert isinstance(reply, Returned), reply
    pids: list[int] = reply.value
    return pids


@pytest.mark.parametrize("how", ["fills", "fills_without_names"])
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_folder_is_bounded_in_all(tmp_path: Path, mode: Any, how: str) -> None:
    limits = ResourceLimits(folder_bytes=8 << 20)
    spec = WorkerSpec(frozenset({0}), folder=str(tmp_path), limits=limits, sandbox=mode)
    worker = Worker(spec)
    try:
        reply = worker.call(f"{CALLS}:{how}", None, 60.0)
        assert not isinstance(reply, Returned)
        if isinstance(reply, Misbehaved):
            assert "its folder holds" in reply.why
        assert usage.folder_bytes(str(tmp_path)) == 0  # emptied with the child, or never here
    finally:
        worker.kill()


def test_the_processes_of_a_builder_are_counted(tmp_path: Path) -> None:
    worker = Worker(WorkerSpec(frozenset({0}), folder=str(tmp_path), programs=True))
    try:
        reply = worker.call(f"{CALLS}:crowds", None, 60.0)
        assert isinstance(reply, Misbehaved)
        assert f"processes; expected at most {usage.PROCESSES}" in reply.why
    finally:
        worker.kill()


def test_emptying_a_folder_follows_no_link(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for folder in (outside, inside, inside / "closed"):
        folder.mkdir()
    (outside / "file").write_text("x")
    (outside / "file").chmod(0o640)
    (inside / "link").symlink_to(outside / "file")
    (inside / "folder").symlink_to(outside)
    (inside / "closed" / "link").symlink_to(outside / "file")
    (inside / "closed").chmod(0)
    scratch.empty(str(inside))
    assert list(inside.iterdir()) == []
    assert (outside / "file").read_text() == "x"
    assert (outside / "file").stat().st_mode & 0o777 == 0o640


def test_the_environment_of_a_child_is_an_allow_list() -> None:
    names = ("PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "ANSORPY_DATABASE_URL", "HF_TOKEN", "HOME")
    more = ("SSH_AUTH_SOCK", "LD_PRELOAD", "PYTHONSTARTUP", "http_proxy", "TMPDIR")
    secrets = dict.fromkeys((*names, *more), "x")
    needed = {"PATH": "/bin", "OMP_NUM_THREADS": "2", "LC_ALL": "C", "LD_LIBRARY_PATH": "/opt"}
    assert harmless({**secrets, **needed}) == needed


def test_the_parent_reads_no_more_than_the_limit() -> None:
    read, wrote = os.pipe()
    os.write(wrote, frames.HEADER.pack(10, 1 << 30))
    with pytest.raises(ConnectionError):
        frames.receive(read, 1 << 20)
    os.close(read)
    os.close(wrote)


def test_the_fork_server_imports_no_library() -> None:
    """It must stay single-threaded, and small."""
    code = "import sys; import ansorpy.measure.workers.fork_server; print('numpy' in sys.modules)"
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
