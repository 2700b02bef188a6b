"""Processes that are timed in turns: each answers one question at a time, else stands still.

A question and its answer are one line of JSON each. A stopped process has no spinning threads.
"""

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

Answer = dict[str, Any]


class TurnProcess:
    """A child process in turns; a crash or a time-out is the answer {"failed": reason}.

    Args:
        command: the program and its arguments.
        log: takes the standard error of the process.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: IO[bytes] | int,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            list(command), cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log, bufsize=0,
        )  # fmt: skip
        self._running = True

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def ask(self, question: Mapping[str, object], timeout_s: float) -> Answer:
        """Return the answer; kill a process that crashed or hangs, and answer with the failure."""
        self.send(question)
        return self.receive(timeout_s)

    def send(self, question: Mapping[str, object]) -> None:
        """Send a question without waiting for the answer."""
        assert self._process.stdin is not None
        self.resume()
        with suppress(BrokenPipeError):  # the process is dead: `receive` returns the failure
            self._process.stdin.write(json.dumps(question).encode() + b"\n")

    def receive(self, timeout_s: float) -> Answer:
        """Return the answer to the last question."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        line = self._process.stdout.readline() if readable else b""
        if line:
            answer: Answer = json.loads(line)
            return answer
        self.close()
        if not readable:
            return {"failed": f"no answer within {timeout_s:.0f} s"}
        return {"failed": f"exit code {self._process.returncode}"}

    def pause(self) -> None:
        """Stop every thread of the process."""
        if self._running and self.alive:
            os.kill(self._process.pid, signal.SIGSTOP)
        self._running = False

    def resume(self) -> None:
        """Continue the process."""
        if not self._running and self.alive:
            os.kill(self._process.pid, signal.SIGCONT)
        self._running = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        with self._process:  # closes the pipes and waits
            self._process.kill()
