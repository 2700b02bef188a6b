"""The service as a separate process, on a free port."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

import httpx
from sqlalchemy import make_url

from ansorpy.server.db.upgrade import open_database

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
START_S = 300.0  # a start takes over a minute beside other work
SOON_S = 60.0  # time limit for an expected event


@dataclass(frozen=True)
class Live:
    """A running service."""

    url: str
    pid: int
    http: httpx.Client
    log: IO[bytes]

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        """GET a path."""
        return self.http.get(path, **arguments)

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        """POST to a path."""
        return self.http.post(path, **arguments)

    def logged(self) -> bytes:
        """Return the log so far."""
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0)

    def resident_bytes(self) -> int:
        """Return the memory of the process, in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE_BYTES


def until(holds: Callable[[], bool], every_s: float = 0.1, limit_s: float = SOON_S) -> None:
    """Wait until a condition holds."""
    end_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end_s, "it never held"
        time.sleep(every_s)


@cache
def new_database() -> bytes:
    """Return a SQLite file with current tables: a process takes half a second to make them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        open_database(f"sqlite:///{path}").dispose()
        return path.read_bytes()


def prepare(url: str) -> None:
    """Make the file of an SQLite database that does not exist yet."""
    place = make_url(url)
    if place.get_backend_name() == "sqlite" and place.database:
        path = Path(place.database)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(new_database())


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(
    url: str, limit_descriptors: int | None = None, /, **environment: str
) -> Iterator[Live]:
    """Run `ansorpy serve` on a database, by default without a worker."""
    port, folder = free_port(), TemporaryDirectory()
    prepare(url)
    env = {
        **os.environ,
        "ANSORPY_DATA_DIR": folder.name,
        "ANSORPY_DATABASE_URL": url,
        "ANSORPY_EMBEDDED_WORKER": "0",
        **environment,
    }
    command = [sys.executable, "-m", "ansorpy", "serve", "--port", str(port)]
    if limit_descriptors is not None:
        command = ["prlimit", f"--nofile={limit_descriptors}", *command]
    with folder, TemporaryFile() as log:
        child = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            place = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=place, timeout=60.0) as http:
                _wait(http, child, log)
                yield Live(place, child.pid, http, log)
        finally:
            child.terminate()
            child.wait(timeout=SOON_S)


def _wait(http: httpx.Client, child: "subprocess.Popen[bytes]", log: IO[bytes]) -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        if child.poll() is not None:
            log.seek(0)
            raise AssertionError(log.read().decode())
        try:
            http.get("/healthz")
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the service does not answer")
