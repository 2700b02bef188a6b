"""A pool with hostile candidates among others, and everything that must stay as it is."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

from ansorpy.errors import AnsorError
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.sandbox import isolation, landlock, seccomp
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.workers.spec import ResourceLimits
from ansorpy.target import Target
from tests.attack.hostile import BACKEND
from tests.attack.moves import FORGED_S, IPC_KEY, Aims
from tests.measure.fake import matmul, program

DAG: Final = matmul()
SECRET: Final = "TOPSECRET-5f1c"
MARK: Final = "LC_ANSORPY_ATTACK"  # reaches the measuring processes: it is on the allow-list
SECRETS: Final = ("PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "ANSORPY_DATABASE_URL", "GITHUB_TOKEN")
LIMITS: Final = ResourceLimits(memory_bytes=512 << 20, folder_bytes=64 << 20)
GROWTH_BYTES: Final = (
    300 << 20
)  # growth of this process: an answer may not be larger than its limit
STRAYS: Final = ("/", "/tmp", "/var/tmp", "/dev/shm", str(Path.home()))
IPC: Final = ("shm", "sem", "msg")


@dataclass
class Stage:
    """The targets of an attack, beside the measuring processes themselves."""

    folder: Path
    aims: Aims
    bystander: "subprocess.Popen[bytes]"
    pool: LocalPool
    marker: str
    connections: list[object] = field(default_factory=list)

    def state(self) -> Mapping[str, object]:
        """Return everything that no move may change."""
        pid = self.bystander.pid
        return {
            "files outside": {
                str(path): (path.lstat().st_mode, path.lstat().st_uid, path.lstat().st_mtime_ns,
                            path.read_bytes() if path.is_file() else b"", os.listxattr(path))
                for path in [self.folder, *sorted(self.folder.rglob("*"))]
            },
            "strays": [
                str(path) for place in STRAYS for path in Path(place).glob("ansorpy-attack*")
            ],
            "bystander runs": self.bystander.poll() is None,
            "bystander's limits": [
                resource.prlimit(pid, what)
                for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS)
            ],
            "bystander's priority": os.getpriority(os.PRIO_PROCESS, pid),
            "bystander's cores": os.sched_getaffinity(pid),
            "own limits": resource.getrlimit(resource.RLIMIT_NOFILE),
            "own priority": os.getpriority(os.PRIO_PROCESS, 0),
            "connections": len(self.connections),
            "shared memory": [
                str(IPC_KEY) in Path(f"/proc/sysvipc/{kind}").read_text() for kind in IPC
            ],
        }  # fmt: skip

    def play(self, role: str, name: str) -> list[str]:
        """Measure a hostile candidate before a good and a wrong one; return the effects."""
        before = self.state()
        hostile = f"{role}|{name}|{json.dumps(asdict(self.aims))}"
        names = [hostile, "good", "swapped", "good"]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.pool.queue.cache.clear()  # each move builds and times all four
        try:
            found = self.pool.measure([program(one, DAG) for one in names])
            self.pool.workers.sealed.check(self.pool.cases.all())
        except AnsorError as error:
            return [f"the job failed: {error}"]
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) << 10
        wrong = [f"verdict: {text}" for text in _misjudged(found)]
        if grown > GROWTH_BYTES:
            wrong.append(f"this process grew by {grown >> 20} MiB")
        after = self.state()
        wrong += [f"changed: {key}" for key, value in before.items() if after[key] != value]
        return wrong

    def left(self) -> list[str]:
        """Return the processes that are left of the pool, once it is closed."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if self.marker.encode() in (entry / "environ").read_bytes():
                        found.append((entry / "cmdline").read_bytes().decode(errors="replace"))
        return [f"left: {one}" for one in found]


def _misjudged(found: list[Outcome | None]) -> list[str]:
    """Return the outcomes that are wrong; the hostile candidate may have any outcome."""
    hostile, good, swapped, again = found
    wrong = []
    if not isinstance(hostile, Measured | Failed):
        wrong.append(f"hostile: {hostile}")
    if SECRET in repr(hostile) or "TOPSECRET" in repr(hostile):
        wrong.append(f"a secret: {hostile}")
    for one in (good, again):
        if not isinstance(one, Measured) or FORGED_S in one.times_s:
            wrong.append(f"good: {one}")
    if not isinstance(swapped, Failed) or swapped.kind != "wrong":
        wrong.append(f"swapped: {swapped}")
    return wrong


def caged(bwrap: str) -> "isolation.Isolation":
    """Return the isolation levels of this machine, with or without bubblewrap."""
    return isolation.Isolation(bwrap, landlock.version(), seccomp.supported())


@contextmanager
def stage(bwrap: str = "") -> Generator[Stage]:
    """Set everything up; `bwrap`: its path, "" for none."""
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory(prefix="ansorpy-outside-")))
        (folder / "victim").write_text("victim")
        (folder / "secret").write_text(SECRET)
        (folder / "secret").chmod(0o600)
        held.enter_context(patch.object(isolation, "_here", lambda: caged(bwrap)))
        marker = f"attack-{os.getpid()}-{folder.name}"
        secrets = dict.fromkeys(SECRETS, SECRET)
        held.enter_context(patch.dict(os.environ, {**secrets, MARK: marker}))
        bystander = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(3600)"], env={}, cwd=folder
        )
        held.callback(bystander.wait)
        held.callback(bystander.send_signal, signal.SIGKILL)
        connections: list[object] = []
        port, unix, abstract = _servers(held, folder, connections)
        settings = MeasureSettings(
            backend=BACKEND, sampling=SamplingOptions(min_sample_s=1e-4), limits=LIMITS, builders=1,
            build_timeout_s=4.0, run_timeout_s=4.0,
        )  # fmt: skip
        pool = held.enter_context(LocalPool(DAG, Target(cores=1), settings))
        aims = Aims(
            str(folder), str(pool.workers.folder), os.getpid(), bystander.pid, port, unix, abstract
        )
        yield Stage(folder, aims, bystander, pool, marker, connections)


def _servers(held: ExitStack, folder: Path, connections: list[object]) -> tuple[int, str, str]:
    """Listen in every way that a child could reach; note who connects."""
    unix, abstract = f"{folder}/socket", f"ansorpy-{folder.name}"
    tcp = held.enter_context(socket.create_server(("127.0.0.1", 0)))
    listening = [tcp]
    for address in (unix, "\0" + abstract):
        one = held.enter_context(socket.socket(socket.AF_UNIX))
        one.bind(address)
        one.listen()
        listening.append(one)

    def accept(one: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connections.append(one.accept())

    for one in listening:
        threading.Thread(target=accept, args=(one,), daemon=True).start()
        held.callback(one.shutdown, socket.SHUT_RDWR)
    return tcp.getsockname()[1], unix, abstract
