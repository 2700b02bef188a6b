"""A private service on loopback, and timed requests to it."""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

START_S: Final = 60.0
REPLY_S: Final = 30.0
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Served:
    """Responses to many requests; durations in seconds, status 0 without a response."""

    durations_s: tuple[float, ...]
    statuses: dict[int, int]
    seconds: float

    @property
    def per_s(self) -> float:
        """Requests per second."""
        return len(self.durations_s) / self.seconds

    def quantile_s(self, share: float) -> float:
        """Return the quantile `share` of the durations."""
        ordered = sorted(self.durations_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True)
class Service:
    """A running service."""

    port: int
    pid: int
    log: Path

    @property
    def url(self) -> str:
        """The address of the service."""
        return f"http://{LOOPBACK}:{self.port}"

    def log_bytes(self) -> int:
        """Return the size of the log."""
        return self.log.stat().st_size

    def resident_bytes(self) -> int:
        """Return the memory of the process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Return the number of open files and sockets of the process."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@contextmanager
def serving(folder: Path, environment: Mapping[str, str]) -> Iterator[Service]:
    """Run `ansorpy serve` on SQLite in `folder` while the block runs."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "ANSORPY_DATA_DIR": str(folder), **environment}
    command = [sys.executable, "-m", "ansorpy", "serve", "--port", str(port)]
    place = folder / "service.log"
    with place.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        _wait(port, process, place)
        yield Service(port, process.pid, place)
    finally:
        process.terminate()
        process.wait(30)


def _wait(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end_s = time.monotonic() + START_S
    while get(port, "/healthz") != 200:
        if process.poll() is not None or time.monotonic() > end_s:
            raise SystemExit(f"the service did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)


def get(port: int, path: str) -> int:
    """Return the status of a request on a new connection; 0 without a response."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=REPLY_S)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        reply = connection.getresponse()
        reply.read()
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
    return reply.status


def timed_gets(port: int, path: str, seconds: float, pause_s: float) -> Served:
    """Send requests for `seconds`, each on a new connection, with pauses between."""
    durations_s: list[float] = []
    statuses: Counter[int] = Counter()
    start_s = time.perf_counter()
    while time.perf_counter() - start_s < seconds:
        begin_s = time.perf_counter()
        statuses[get(port, path)] += 1
        durations_s.append(time.perf_counter() - begin_s)
        time.sleep(pause_s)
    return Served(tuple(durations_s), dict(statuses), time.perf_counter() - start_s)
