"""Supervision of the embedded worker process of the service."""

import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Final

from sqlalchemy import Engine

from ansorpy.measure.cores import usable_cores
from ansorpy.server.logs import fields
from ansorpy.server.settings import ServiceSettings

log = logging.getLogger(__name__)

LOOK_S: Final = 0.1  # interval at which the process is polled
STOP_S: Final = 10.0  # time for a worker to stop before it is killed
PAUSE_S: Final = 0.25  # first pause before a restart; doubled while workers die within GROWN_UP_S
LONGEST_PAUSE_S: Final = 10.0
GROWN_UP_S: Final = 60.0


class Supervisor:
    """Starts a worker process, and restarts it with back-off if it dies."""

    def __init__(self, settings: ServiceSettings, engine: Engine) -> None:
        self.settings = settings
        self.engine = engine
        self.state = "stopped"
        self.pid: int | None = None
        self._cores = usable_cores()  # cores of the worker; this process avoids some (ADR-0050)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        """Start the thread that starts and polls the worker."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the worker, and kill it after STOP_S."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        pause_s = PAUSE_S
        while not self._ended.is_set():
            born_s = time.monotonic()
            child = self._start()
            self.state, self.pid = "running", child.pid
            while child.poll() is None and not self._ended.wait(LOOK_S):
                pass
            self.pid = None
            if self._ended.is_set():
                _end(child)
                break
            self.state = f"restarting (exit code {child.returncode})"
            log.error("worker died", extra=fields(pid=child.pid, code=child.returncode))
            _end(child)
            young = time.monotonic() - born_s < GROWN_UP_S
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if young else PAUSE_S
            self._ended.wait(pause_s)
        self.state = "stopped"

    def _start(self) -> "subprocess.Popen[bytes]":
        # A new program instead of a fork, because this process has threads. The worker stops when
        # its standard input is closed, and so with this process.
        path = os.pathsep.join(filter(None, sys.path))
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "ansorpy.server.worker", *map(str, self._cores)],
            stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        assert child.stdin is not None
        with suppress(BrokenPipeError):
            child.stdin.write(self.settings.model_dump_json().encode() + b"\n")
        return child


def _end(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdin is not None
    with suppress(OSError):
        child.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(STOP_S)
    child.kill()
    child.wait()
