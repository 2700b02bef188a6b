"""The moves of a hostile child. Each is tried in full; what is refused is passed over."""

import array
import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import pickle
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ansorpy.measure import child
from ansorpy.measure.frames import ANSWER

MIB: Final = 1 << 20
# A time that no run here takes. So slow that no candidate is timed beside the one that claims it:
# code that runs in the process of another candidate, during its call, can answer that call.
FORGED_S: Final = 123.456
IPC_KEY: Final = 0xA77AC
NAP_S: Final = 60.0  # much longer than any time-out of the stage


@dataclass(frozen=True)
class Aims:
    """What a move is aimed at: all outside of the sandbox."""

    outside: str  # a folder with files
    crew: str  # the folder of the pool
    driver: int
    bystander: int  # a process of the same user
    port: int
    unix: str
    abstract: str


MOVES: Final[dict[str, Callable[[Aims], object]]] = {}


def move(function: Callable[[Aims], object]) -> Callable[[Aims], object]:
    MOVES[function.__name__] = function
    return function


class Leak(Exception):
    """A secret, on its way into the outcome."""


tried = contextlib.suppress(OSError, ValueError, ctypes.ArgumentError)
LIBC: Final = ctypes.CDLL(None, use_errno=True)


def link() -> int:
    """Return the descriptor of the link to the daemon."""
    for name in os.listdir("/proc/self/fd"):
        with tried:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                return int(name)
    raise OSError(errno.EBADF, "no link")


def number() -> bytes:
    """Return the number of the call in progress, from the stack of `serve`."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "serve":
            found: bytes = frame.f_locals["number"]
            return found
        frame = frame.f_back  # type: ignore[assignment]
    return bytes(16)


def answer(header: bytes, raw: bytes = b"", call: bytes | None = None) -> None:
    """Write one whole answer."""
    call = number() if call is None else call
    write(ANSWER.pack(call, len(header), len(raw)) + header + raw)


def write(data: bytes) -> None:
    with tried:
        view = memoryview(data)
        while view:
            view = view[os.write(link(), view) :]


def forged(times_s: object = (FORGED_S,)) -> bytes:
    """Return the header of a good trial."""
    return json.dumps([1, [times_s, 0.0, 0.0, 0.0, False, 0.0, 1.0]]).encode()


class Evil:
    """Unpickled, it writes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({self.path!r}, 'w').write('unpickled')",)


# --- the channel


@move
def crafted_pickle(aims: Aims) -> None:
    answer(pickle.dumps(Evil(f"{aims.outside}/marker")))
    time.sleep(NAP_S)


@move
def crafted_pickle_as_raw_bytes(aims: Aims) -> None:
    answer(b"[1, [1]]", pickle.dumps(Evil(f"{aims.outside}/marker")))
    time.sleep(NAP_S)


@move
def garbage(aims: Aims) -> None:
    answer(os.urandom(200), os.urandom(200))
    time.sleep(NAP_S)


@move
def garbage_without_a_frame(aims: Aims) -> None:
    write(os.urandom(4096))
    time.sleep(NAP_S)


@move
def torn_frame(aims: Aims) -> None:
    write(ANSWER.pack(number(), 1000, 0) + b"[1,")
    time.sleep(NAP_S)


@move
def torn_head_then_end(aims: Aims) -> None:
    write(number()[:7])
    os._exit(0)


@move
def empty_answer(aims: Aims) -> None:
    answer(b"")


@move
def giant_length(aims: Aims) -> None:
    write(ANSWER.pack(number(), 0xFFFF_FFFF, 0xFFFF_FFFF))
    time.sleep(NAP_S)


@move
def giant_answer(aims: Aims) -> None:
    write(ANSWER.pack(number(), 0, 1200 * MIB))
    for _ in range(1200):
        write(bytes(MIB))


@move
def giant_header(aims: Aims) -> None:
    answer(b"[1," + b"[]," * (8 * MIB) + b"0]")


@move
def extra_frame(aims: Aims) -> None:
    answer(forged())
    answer(forged())


@move
def extra_frame_of_another_number(aims: Aims) -> None:
    answer(forged(), call=bytes(16))


@move
def many_extra_frames(aims: Aims) -> None:
    for _ in range(50):
        answer(forged())


@move
def late_thread(aims: Aims) -> None:
    """Answer whatever comes, again and again, with the number of this call."""
    call = number()

    def later() -> None:
        while True:
            time.sleep(0.002)
            answer(forged(), call=call)

    threading.Thread(target=later, daemon=True).start()


@move
def thread_that_steals_requests(aims: Aims) -> None:
    def steal() -> None:
        while True:
            with tried:
                answer(forged(), call=os.read(link(), 1 << 16)[:16])

    threading.Thread(target=steal, daemon=True).start()


@move
def nan_times(aims: Aims) -> None:
    answer(forged().replace(str(FORGED_S).encode(), b"NaN"))


@move
def infinite_times(aims: Aims) -> None:
    answer(forged().replace(str(FORGED_S).encode(), b"1e999"))


@move
def negative_times(aims: Aims) -> None:
    answer(forged((-1.0,)))


@move
def no_times(aims: Aims) -> None:
    answer(forged(()))


@move
def wrong_types(aims: Aims) -> None:
    answer(json.dumps([1, ["fast", None, {}, [], "yes", True, 1]]).encode())


@move
def another_kind_of_answer(aims: Aims) -> None:
    answer(json.dumps([7, {"__class__": "os.system"}]).encode())


@move
def deep_json(aims: Aims) -> None:
    answer(b"[" * 500_000 + b"]" * 500_000)


@move
def huge_number(aims: Aims) -> None:
    answer(b"[1, [[" + b"9" * 900_000 + b"]]]")


@move
def lone_surrogates(aims: Aims) -> None:
    answer(b'[0, ["\\ud800", "\\u0000", "x", "y"]]')


@move
def long_text(aims: Aims) -> None:
    answer(json.dumps([0, ["x" * 900_000, "", "", ""]]).encode())


@move
def closed_link(aims: Aims) -> None:
    os.close(link())
    time.sleep(NAP_S)


@move
def shut_link(aims: Aims) -> None:
    with socket.socket(fileno=os.dup(link())) as one:
        one.shutdown(socket.SHUT_RDWR)
    time.sleep(NAP_S)


@move
def dribble(aims: Aims) -> None:
    for byte in ANSWER.pack(number(), 100_000, 0) + bytes(1000):
        write(bytes([byte]))
        time.sleep(0.1)


@move
def garbage_in_the_black_box(aims: Aims) -> None:
    recorder = child._State.recorder
    assert recorder is not None
    recorder._box[:] = (b"\xff" * 12 + b"[" * len(recorder._box))[: len(recorder._box)]
    os.abort()


@move
def forged_note(aims: Aims) -> None:
    recorder = child._State.recorder
    assert recorder is not None
    text = b'[{"a": 1}, [["C", "x", null, 1e999, -1]]]'
    recorder._box[: 12 + len(text)] = (
        (8).to_bytes(8, "little") + len(text).to_bytes(4, "little") + text
    )
    ctypes.string_at(8)


@move
def hooked_encoder(aims: Aims) -> None:
    """Let this process answer its later calls with what no codec would write."""
    child._answer = lambda request: (b"{}" * 100, b"raw")  # type: ignore[assignment]


# --- files


def everywhere(aims: Aims) -> Iterator[Path]:
    """Yield every folder that a child may know of."""
    own = Path(os.environ["TMPDIR"])
    yield own
    yield from (Path(aims.crew), Path(aims.outside), Path("/tmp"), Path("/var/tmp"))
    for top in (aims.crew, os.environ.get("NUMBA_CACHE_DIR", "")):
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
    for place, _, names in os.walk(aims.crew):
        for name in names:
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
    for folder in (aims.outside, aims.crew, "/tmp", "/var/tmp", "/dev/shm", str(Path.home()), "/"):
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
    for attempt in (
        lambda: os.chmod(victim, 0o777),
        lambda: os.chmod(aims.outside, 0o777),
        lambda: os.chown(victim, 65534, 65534),
        lambda: os.utime(victim, (1, 1)),
        lambda: os.setxattr(victim, "user.attack", b"x"),
        lambda: os.truncate(victim, 0),
        lambda: os.fchmod(os.open(sys.executable, os.O_RDONLY), 0o755),
    ):
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
        for name in ("launcher.launch-43.py311.nbi", "x.nbi"):
            with tried:
                (folder / name).write_bytes(blob)


@move
def secrets_in_files(aims: Aims) -> None:
    paths = [f"{aims.outside}/secret", "/etc/shadow", f"{Path.home()}/.ssh/id_ed25519"]
    for path in (*paths, f"/proc/{aims.driver}/root{aims.outside}/secret"):
        with tried:
            raise Leak(Path(path).read_text())


# --- processes


@move
def own_environment(aims: Aims) -> None:
    known = {*os.environ.values(), Path("/proc/self/environ").read_text()}
    if any("TOPSECRET" in one for one in known):
        raise Leak("TOPSECRET in the environment")


@move
def environment_of_others(aims: Aims) -> None:
    for pid in (aims.driver, aims.bystander, os.getppid()):
        for name in ("environ", "mem", "maps", "stack", "syscall"):
            with tried:
                raise Leak(f"TOPSECRET: {name}" + Path(f"/proc/{pid}/{name}").read_text()[:200])
        for name in ("fd", "map_files"):
            with tried:
                for entry in os.listdir(f"/proc/{pid}/{name}"):  # the names say nothing
                    raise Leak(f"TOPSECRET: {os.readlink(f'/proc/{pid}/{name}/{entry}')}")


@move
def forks_that_leave(aims: Aims) -> None:
    with tried:
        for _ in range(20):
            if os.fork() == 0:
                with tried:
                    os.setsid()
                with tried:
                    os.setpgid(0, 0)
                time.sleep(NAP_S)
                os._exit(0)


@move
def forks_and_dies(aims: Aims) -> None:
    forks_that_leave(aims)
    os.kill(os.getpid(), signal.SIGKILL)


@move
def forks_twice(aims: Aims) -> None:
    with tried:
        if os.fork() == 0:
            for _ in range(10):
                if os.fork() == 0:
                    with tried:
                        os.setsid()
                    LIBC.prctl(1, 0, 0, 0, 0)
                    for number_of_signal in range(1, 31):
                        with tried:
                            signal.signal(number_of_signal, signal.SIG_IGN)
                    time.sleep(NAP_S)
            os._exit(0)


@move
def fork_that_keeps_the_link(aims: Aims) -> None:
    """Leave a process that answers later calls."""
    with tried:
        call = number()
        if os.fork() == 0:
            while True:
                answer(forged(), call=call)
                time.sleep(0.01)


@move
def fork_bomb(aims: Aims) -> None:
    with tried:
        for _ in range(8):
            os.fork()
        time.sleep(5.0)


@move
def leaves_its_group(aims: Aims) -> None:
    with tried:
        os.setsid()
    with tried:
        os.setpgid(0, 0)
    with tried:
        os.setpgid(0, os.getpgid(aims.bystander))
    LIBC.prctl(1, 0, 0, 0, 0)  # no signal when the daemon ends


@move
def signals(aims: Aims) -> None:
    for pid in (aims.driver, aims.bystander, os.getppid(), 0, -aims.bystander):
        for one in (signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL):
            with tried:
                if pid != aims.driver or one != signal.SIGKILL:
                    os.kill(pid, one)
    for pid in (aims.bystander,):
        LIBC.syscall(200, pid, 9)  # tkill
        LIBC.syscall(234, pid, pid, 9)  # tgkill
        LIBC.syscall(129, pid, 9, ctypes.create_string_buffer(128))  # rt_sigqueueinfo
        with tried:
            signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL)


@move
def signals_by_file(aims: Aims) -> None:
    """Have the kernel signal another process when a file becomes ready."""
    read, wrote = os.pipe()
    for command, value in ((8, aims.bystander), (10, int(signal.SIGKILL))):
        with tried:
            fcntl.fcntl(read, command, value)
    with tried:
        fcntl.ioctl(read, 0x8901, array.array("i", [aims.bystander]))
    with tried:
        fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)
        os.write(wrote, b"x")


@move
def limits_of_others(aims: Aims) -> None:
    for pid in (aims.bystander, aims.driver):
        for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS):
            with tried:
                resource.prlimit(pid, what, (1, 1))
        with tried:
            os.setpriority(os.PRIO_PROCESS, pid, 19)
        with tried:
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        with tried:
            os.sched_setaffinity(pid, {max(os.sched_getaffinity(0))})
        LIBC.syscall(251, 1, pid, 3 << 13)  # ioprio_set: idle


@move
def leaves_its_cores(aims: Aims) -> None:
    with tried:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


@move
def memory_of_others(aims: Aims) -> None:
    buffer = ctypes.create_string_buffer(64)
    for pid in (aims.driver, aims.bystander, os.getppid()):
        LIBC.ptrace(16, pid, 0, 0)  # PTRACE_ATTACH
        LIBC.syscall(310, pid, buffer, 1, buffer, 1, 0)  # process_vm_readv
        with tried, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.write(b"x")


@move
def sockets(aims: Aims) -> None:
    for attempt in (
        lambda: socket.create_connection(("127.0.0.1", aims.port), timeout=1.0),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
        lambda: socket.socket(socket.AF_UNIX).connect(aims.unix),
        lambda: socket.socket(socket.AF_UNIX).connect("\0" + aims.abstract),
        lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        lambda: socket.socketpair(),
    ):
        with tried:
            attempt()


@move
def memory_files(aims: Aims) -> None:
    for _ in range(100):
        with tried:
            fd = os.memfd_create("attack")
            for _ in range(15):
                os.write(fd, bytes(MIB))


@move
def shared_memory(aims: Aims) -> None:
    LIBC.shmget(IPC_KEY, MIB, 0o1666)
    LIBC.semget(IPC_KEY, 4, 0o1666)
    LIBC.msgget(IPC_KEY, 0o1666)
    for attempt in (
        lambda: Path("/dev/shm/ansorpy-attack").write_text("x"),
        lambda: LIBC.shm_open(b"/ansorpy-attack", 0o102, 0o666),
        lambda: LIBC.mq_open(b"/ansorpy-attack", 0o102, 0o666, None),
    ):
        with tried:
            attempt()


@move
def all_memory(aims: Aims) -> None:
    kept = []
    with contextlib.suppress(MemoryError):
        while True:
            kept.append(bytearray(64 * MIB))


@move
def many_threads(aims: Aims) -> None:
    with contextlib.suppress(RuntimeError):
        for _ in range(2000):
            threading.Thread(target=time.sleep, args=(NAP_S,), daemon=True).start()


@move
def many_descriptors(aims: Aims) -> None:
    with tried:
        while True:
            os.pipe()


@move
def programs(aims: Aims) -> None:
    script = f"echo run > {aims.outside}/marker; kill -9 {aims.bystander}"
    with tried:
        if os.fork() == 0:
            os.execv("/bin/sh", ["sh", "-c", script])
        os.wait()
    with tried:
        os.system(script)


@move
def namespaces(aims: Aims) -> None:
    for flags in (0x1000_0000, 0x0002_0000, 0x4000_0000, 0x2000_0000):
        LIBC.unshare(flags)
        LIBC.syscall(56, flags | signal.SIGCHLD, 0, 0, 0, 0) == 0 and os._exit(0)
    LIBC.mount(b"none", aims.outside.encode(), b"tmpfs", 0, None)
    LIBC.chroot(aims.outside.encode())
    LIBC.umount2(aims.outside.encode(), 2)


@move
def flood(aims: Aims) -> None:
    with tried:
        for _ in range(200):
            os.write(1, b"flood \0\xff" * 20_000)


@move
def stops_itself(aims: Aims) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@move
def stops_the_family(aims: Aims) -> None:
    for pid in (os.getppid(), 0):
        with tried:
            os.kill(pid, signal.SIGSTOP)


@move
def exits_well(aims: Aims) -> None:
    os._exit(0)


@move
def raises_what_nobody_catches(aims: Aims) -> None:
    raise SystemExit(0)


@move
def turned_clock(aims: Aims) -> None:
    """Let the own clock run backwards: times below zero."""
    start = time.monotonic()
    time.perf_counter = lambda: -1e3 * (time.monotonic() - start)  # type: ignore[assignment]


@move
def fault_in_native_code(aims: Aims) -> None:
    ctypes.memset(8, 0, 1)


@move
def hangs(aims: Aims) -> None:
    while True:
        pass


FAST: Final[Mapping[str, tuple[str, ...]]] = {
    "slot": (
        "crafted_pickle_as_raw_bytes", "extra_frame", "thread_that_steals_requests", "nan_times",
        "giant_length", "garbage_in_the_black_box", "planted_links", "rewritten_cases",
        "modes_and_times_outside", "signals_by_file", "limits_of_others", "own_environment",
    ),
    "builder": (
        "extra_frame_of_another_number", "wrong_types", "deep_json", "forks_twice",
        "fork_that_keeps_the_link", "many_files", "folders_that_resist", "environment_of_others",
    ),
}  # fmt: skip
