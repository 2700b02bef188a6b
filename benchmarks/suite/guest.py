"""The suite's handle of a contestant's process: queried in turns, stopped in between."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from benchmarks.common import say
from benchmarks.suite.contestants import Contestant
from benchmarks.suite.environments import settings_of

ROOT = Path(__file__).parents[2]

Answer = dict[str, Any]


class Guest:
    """A fresh process of a contestant, pinned to cores; stopped while others are timed."""

    def __init__(
        self, who: Contestant, python: Path, threads: int, cores: Sequence[int], log: IO[bytes]
    ) -> None:
        self.who = who
        command = [str(python), "-m", "benchmarks.suite.host", who.module, "--cores"]
        self._process = subprocess.Popen(
            [*command, *map(str, cores)],
            cwd=ROOT, env=settings_of(who, threads), stdin=subprocess.PIPE,
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


def versions_of(guest: Guest, timeout_s: float) -> dict[str, str] | None:
    """Return the versions of a contestant's packages, None if its process cannot start."""
    answer = guest.ask({"do": "versions", "packages": list(guest.who.packages)}, timeout_s)
    if "versions" in answer:
        found: dict[str, str] = answer["versions"]
        return found
    say(f"{guest.who.title}: does not start: {answer['failed']}")
    return None
