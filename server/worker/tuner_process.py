"""A driver process as its keeper sees it."""

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
DYING_S: Final = 2.0  # how long a driver may take to end after it closed its output

Message = Mapping[str, Any]


class TunerProcess:
    """One driver. It loads its modules while the caller goes on; orders wait in its pipe."""

    def __init__(self, settings: ServiceSettings, module: str = MODULE) -> None:
        # -P: the working folder must not shadow modules. A session of its own, so that Ctrl-C
        # reaches the keeper only. Settings by pipe: they may hold a password.
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
        """The process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def order(self, claim: Claim, folder: Path) -> None:
        """Hand it a job."""
        self._send(json.dumps({"claim": asdict(claim), "folder": str(folder)}))

    def receive(self, timeout_s: float) -> Message | None:
        """Return what it says next, None where it stays silent; EOFError when it has ended."""
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
        """Collect a driver that has closed its output; return how it ended, for people."""
        with suppress(subprocess.TimeoutExpired):  # it is dying: let its own status stand
            self._process.wait(DYING_S)
        code = self.kill()
        if code >= 0:
            return f"the driver ended with exit code {code}"
        return f"the driver was killed by {signal.Signals(-code).name}"

    def kill(self) -> int:
        """End it and its measuring processes at once, whatever they do. Return its exit code.

        Left to themselves those would notice too, but not before they have come up (ADR-0050).
        """
        if self.alive:
            # A stopped driver starts none and collects none: the numbers stay those of its own.
            self._process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            for child in children(self.pid):
                os.kill(child, signal.SIGKILL)
                family.end_session(child)  # what a builder started, too
        self._process.kill()  # does nothing where it has been collected
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
        with suppress(BrokenPipeError):  # it has ended: `receive` tells
            self._process.stdin.write(line.encode() + b"\n")


def children(pid: int) -> list[int]:
    """Return the children of a process, with those that it has not collected."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it ended while we looked
            if entry.name.isdecimal():
                _, _, fields = (entry / "stat").read_text().rpartition(")")
                if int(fields.split()[1]) == pid:
                    found.append(int(entry.name))
    return found
