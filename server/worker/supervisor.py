"""Keeps the embedded worker of the service alive."""

import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Final

from sqlalchemy import Engine

from ansorpy.measure.workers.cores import usable_cores
from ansorpy.server.logs import fields
from ansorpy.server.settings import ServiceSettings

log = logging.getLogger(__name__)

LOOK_S: Final = 0.1
STOP_S: Final = 10.0  # a worker that was asked to end gets so long
PAUSE_S: Final = 0.25  # before a worker that died is replaced; more each time it dies young
LONGEST_PAUSE_S: Final = 10.0
GROWN_UP_S: Final = 60.0


class Supervisor:
    """Starts a worker, starts another where it dies; what it was doing the next one takes up."""

    def __init__(self, settings: ServiceSettings, engine: Engine) -> None:
        self.settings = settings
        self.engine = engine
        self.state = "stopped"
        self.pid: int | None = None
        self._cores = usable_cores()  # the worker's; this process may keep off some (ADR-0052)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        """Start the worker, and a thread that watches it."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the worker to stop, wait for it, and kill it if it does not."""
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
        # A program of its own, never a fork: this process has threads. Its input stays open for
        # as long as we live: its end tells the worker to end too.
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
