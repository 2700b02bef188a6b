"""Each isolation level alone, then all of them around a measuring process."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ansorpy.errors import RunError
from ansorpy.measure.sandbox import isolation, landlock, seccomp
from ansorpy.measure.sandbox.isolation import Isolation, isolation_for
from ansorpy.measure.workers.replies import Died, Returned
from ansorpy.measure.workers.spec import WorkerSpec
from ansorpy.measure.workers.worker import Worker

pytestmark = pytest.mark.slow

needs_landlock = pytest.mark.skipif(not landlock.version(), reason="no Landlock in this kernel")
needs_seccomp = pytest.mark.skipif(not seccomp.supported(), reason="no seccomp filters here")


def confined(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `code` in a process of its own, after no_new_privs."""
    start = "import ctypes, os, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)\n"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", start + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)


LAND = """
from ansorpy.measure.sandbox import landlock
read, write = sys.argv[1].split(), sys.argv[2].split()
assert landlock.restrict(read, write)
for path in sys.argv[3].split():
    try:
        open(path, "w").close()
        print("wrote", path)
    except OSError as error:
        print("no", error.errno, path)
for path in sys.argv[4].split():
    try:
        open(path).close()
        print("read", path)
    except OSError as error:
        print("no", error.errno, path)
"""


@needs_landlock
def test_landlock_leaves_access_to_the_named_folders(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / "file").write_text("x")
    done = confined(
        LAND, "/usr /lib /lib64", f"{own} /dev/null", f"{own}/new /dev/null {other}/new /etc/new",
        f"{own}/file {other}/file /etc/shadow",
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        f"wrote {own}/new", "wrote /dev/null", f"no {errno.EACCES} {other}/new",
        f"no {errno.EACCES} /etc/new", f"read {own}/file", f"no {errno.EACCES} {other}/file",
        f"no {errno.EACCES} /etc/shadow",
    ], done.stderr  # fmt: skip


SECC = """
import socket, threading
from ansorpy.measure.sandbox import seccomp
assert seccomp.restrict(sys.argv[1] == "programs")
def attempt(name, call):
    try:
        call()
        print(name, "works")
    except OSError as error:
        print(name, error.errno)
def fork():
    if os.fork() == 0:
        os._exit(0)
    os.wait()
def thread():
    one = threading.Thread(target=lambda: None)
    one.start()
    one.join()
attempt("thread", thread)
attempt("socket", lambda: socket.socket().close())
attempt("kill parent", lambda: os.kill(os.getppid(), 0))
attempt("kill self", lambda: os.kill(os.getpid(), 0))
attempt("fork", fork)
attempt("exec", lambda: os.execv("/bin/true", ["true"]) if sys.argv[1] != "programs" else None)
attempt("unshare", lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else os.chroot("/"))
sys.stdout.flush()
os.abort()
"""


@needs_seccomp
@pytest.mark.parametrize(("role", "others"), [("alone", errno.EPERM), ("programs", "works")])
def test_seccomp_refuses_system_calls_that_no_candidate_needs(role: str, others: object) -> None:
    done = confined(SECC, role)
    assert done.stdout.splitlines() == [
        "thread works", f"socket {errno.EPERM}", f"kill parent {errno.EPERM}", "kill self works",
        f"fork {others}", f"exec {others}", f"unshare {errno.EPERM}",
    ], done.stderr  # fmt: skip
    assert done.returncode == -6  # abort still works


def test_a_filter_is_a_program_of_jumps_that_end_inside_of_it() -> None:
    for machine in seccomp.ARCHITECTURES:
        for programs in (True, False):
            code = seccomp.program(machine, 7, programs)
            assert code[-1] == (seccomp.RETURN, 0, 0, seccomp.ALLOW)
            for place, (operation, yes, no, _) in enumerate(code):
                assert place + 1 + max(yes, no) < len(code) or operation == seccomp.RETURN


def verdict(code: Sequence[seccomp.Instruction], number: int, arch: int, *arguments: int) -> int:
    """Run a filter as the kernel would."""
    given = dict(zip(seccomp.ARGUMENT_AT, (*arguments, 0, 0), strict=False))
    data = {seccomp.NUMBER_AT: number, seccomp.ARCH_AT: arch, **given}
    place, held = 0, 0
    while True:
        operation, yes, no, operand = code[place]
        place += 1
        match operation:
            case seccomp.LOAD:
                held = data[operand]
            case seccomp.EQUAL:
                place += yes if held == operand else no
            case seccomp.AT_LEAST:
                place += yes if held >= operand else no
            case seccomp.ANY_BIT:
                place += yes if held & operand else no
            case _:
                return operand


@pytest.mark.parametrize("machine", list(seccomp.ARCHITECTURES))
def test_the_filter_of_either_architecture_judges_every_call(machine: str) -> None:
    arch = seccomp.ARCHITECTURES[machine]
    column = list(seccomp.ARCHITECTURES).index(machine)
    alone = seccomp.program(machine, 7, programs=False)
    refused = seccomp.REFUSE | errno.EPERM
    for name, numbers in seccomp.NUMBERS.items():
        if numbers[column] < 0:
            continue
        found = {first: verdict(alone, numbers[column], arch, first) for first in (7, 8, 0x10000)}
        match name:
            case "kill" | "tgkill":
                expected = {7: seccomp.ALLOW, 8: refused, 0x10000: refused}
            case "prlimit64":
                expected = {7: seccomp.ALLOW, 8: refused, 0x10000: refused}
                assert verdict(alone, numbers[column], arch, 0) == seccomp.ALLOW
            case "fcntl" | "ioctl":
                expected = dict.fromkeys(found, seccomp.ALLOW)
                for command in seccomp.COMMANDS[name]:
                    assert verdict(alone, numbers[column], arch, 3, command) == refused
            case "clone":
                expected = {7: refused, 8: refused, 0x10000: seccomp.ALLOW}
                new_user_namespace = 0x1000_0000 | seccomp.CLONE_THREAD
                assert verdict(alone, numbers[column], arch, new_user_namespace) == refused
            case "clone3":
                expected = dict.fromkeys(found, seccomp.REFUSE | errno.ENOSYS)
            case _:
                expected = dict.fromkeys(found, refused)
        assert found == expected, name
    read = {"x86_64": 0, "aarch64": 63}[machine]
    assert verdict(alone, read, arch) == seccomp.ALLOW
    assert verdict(alone, read, arch + 1) == refused  # another architecture
    if machine == "x86_64":
        assert verdict(alone, seccomp.X32 + read, arch) == refused


def test_mode_off_has_no_isolation_level() -> None:
    assert isolation_for("off") == Isolation()
    assert isolation_for("off").wrap(["a"], "/tmp", 1, "") == ["a"]
    assert not Isolation().isolates


def test_required_isolation_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_here", lambda: Isolation(landlock=3))
    assert isolation_for("auto") == Isolation(landlock=3)
    with pytest.raises(RunError, match="cannot isolate candidates because there is neither"):
        isolation_for("required")


# --- on a measuring process


@pytest.fixture(params=["run", "build"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worker]:
    spec = WorkerSpec(
        frozenset({min(os.sched_getaffinity(0))}),
        folder=str(tmp_path),
        programs=request.param == "build",
    )
    worker = Worker(spec)
    yield worker
    worker.close()


def test_a_measuring_process_has_lost_every_named_privilege(
    worker: Worker, request: pytest.FixtureRequest
) -> None:
    reply = worker.call("ansorpy.measure.sandbox.proof:held", None, 30.0)
    assert isinstance(reply, Returned), reply
    builds = worker.spec.programs
    here = isolation_for("auto")
    confined = here.seccomp and here.landlock
    assert reply.value["gains no privileges"]
    assert reply.value["has no capabilities"]
    if confined:
        assert reply.value == {
            what: not (what == "starts no processes" and builds) for what in reply.value
        }


def write(path: str) -> str:
    Path(path).write_text("x")
    return Path(path).read_text()


def settings_of_the_service(_: object) -> list[str]:
    return [name for name in os.environ if name.startswith("ANSORPY_")]


def connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=5.0).close()


def test_a_measuring_process_writes_its_own_folder_only(worker: Worker, tmp_path: Path) -> None:
    good = worker.call(f"{__name__}:write", str(tmp_path / "file"), 30.0)
    assert isinstance(good, Returned), good
    bad = worker.call(f"{__name__}:write", str(tmp_path.parent / "stray"), 30.0)
    assert not isinstance(bad, (Returned, Died)), bad
    assert not (tmp_path.parent / "stray").exists()


def test_a_measuring_process_reaches_no_server_of_this_machine(worker: Worker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        bad = worker.call(f"{__name__}:connect", server.getsockname()[1], 30.0)
    assert not isinstance(bad, (Returned, Died)), bad


def test_a_measuring_process_knows_no_settings(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSORPY_DATABASE_URL", "postgresql://ann:secret@host/x")
    reply = worker.call(f"{__name__}:settings_of_the_service", None, 30.0)
    assert isinstance(reply, Returned)
    assert reply.value == []
