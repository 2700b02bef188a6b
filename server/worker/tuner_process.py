"""Handle of a tuner process: start, send jobs, receive messages, kill."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ansorpy.measure.sandbox import family
from ansorpy.server.jobs.lease import Claim
from ansorpy.server.settings import ServiceSettings

MODULE: Final = "ansorpy.server.worker.tuner_main"
CHUNK_BYTES: Final = 1 << 16
MAX_LINE_BYTES: Final = 1 << 16
DYING_S: Final = 2.0  # time for the process to exit after it closed its output

Message = Mapping[str, Any]


class TunerProcess:
    """A tuner process. It imports its modules concurrently; jobs wait in its pipe."""

    def __init__(self, settings: ServiceSettings, module: str = MODULE) -> None:
        # -P: the working directory must not shadow modules. A new session: Ctrl-C reaches the
        # worker loop only. Settings go through the pipe, because they may contain a password.
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        self._pending = b""
        self._send(settings.model_dump_json())

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def order(self, claim: Claim, folder: Path) -> None:
        """Send a job."""
        self._send(json.dumps({"claim": asdict(claim), "folder": str(folder)}))

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message, or None after `timeout_s`.

        Raises:
            EOFError: the process has closed its output.
        """
        line, newline, rest = self._pending.partition(b"\n")
        if not newline:
            if not self._readable(timeout_s):
                return None
            assert self._process.stdout is not None
            chunk = os.read(self._process.stdout.fileno(), CHUNK_BYTES)
            if not chunk or len(self._pending) > MAX_LINE_BYTES:
                raise EOFError
            self._pending += chunk
            line, newline, rest = self._pending.partition(b"\n")
            if not newline:
                return None
        self._pending = rest
        message: Message = json.loads(line)
        return message

    def ended(self) -> str:
        """Reap a process that has closed its output; return a sentence about its exit."""
        with suppress(subprocess.TimeoutExpired):  # prefer its own exit code to a kill
            self._process.wait(DYING_S)
        code = self.kill()
        if code >= 0:
            return f"the tuner process ended with exit code {code}"
        return f"the tuner process was killed by {signal.Signals(-code).name}"

    def kill(self) -> int:
        """Kill the process and its measuring processes at once; return its exit code.

        Measuring processes would notice by themselves, but not while they import (ADR-0050).
        """
        if self.alive:
            # A stopped process neither starts nor reaps children, so that their ids stay valid.
            self._process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            for child in children(self.pid):
                os.kill(child, signal.SIGKILL)
                family.end_session(child)  # processes started by builders
        self._process.kill()  # does nothing after the process was reaped
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return code

    def _readable(self, timeout_s: float) -> bool:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            return bool(selector.select(timeout_s))

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the process has ended; `receive` raises EOFError
            self._process.stdin.write(line.encode() + b"\n")


def children(pid: int) -> list[int]:
    """Return the ids of the children of a process, including zombies."""
    children = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # the process ended meanwhile
            if entry.name.isdecimal():
                _, _, fields = (entry / "stat").read_text().rpartition(")")
                if int(fields.split()[1]) == pid:
                    children.append(int(entry.name))
    return children
