"""A service process, started and stopped by its command line."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class GoneError(Exception):
    """The service did not answer, or not completely."""


class RefusedError(AssertionError):
    """The service answered with an error."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status


class Service:
    """`ansorpy serve` with an embedded worker, which can be killed and restarted."""

    def __init__(self, folder: Path, database_url: str, **settings: object) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.folder = folder
        self.marker = f"KILL_TEST={folder}"
        values = {
            "data_dir": folder, "database_url": database_url, "port": self.port,
            "log_format": "json", **settings,
        }  # fmt: skip
        changes = {f"ANSORPY_{name.upper()}": str(value) for name, value in values.items()}
        path = os.pathsep.join(filter(None, sys.path))
        self.env = {**os.environ, "PYTHONPATH": path, "KILL_TEST": str(folder), **changes}
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the service if it does not run, and wait until it answers."""
        if self._process is not None and self._process.poll() is None:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ansorpy", "serve"],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.wait()

    def wait(self, limit_s: float = 120.0) -> None:
        """Wait until the service answers; raise GoneError if it has ended."""
        assert self._process is not None
        end_s = time.monotonic() + limit_s
        while True:
            try:
                self.ask("GET", "/healthz")
            except GoneError:
                if self._process.poll() is not None or time.monotonic() > end_s:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60.0)

    def end(self) -> None:
        """Stop the service if it runs, for an early exit."""
        if self.running:
            self.stop()

    @property
    def running(self) -> bool:
        """True while the server process exists."""
        return self._process is not None and self._process.poll() is None

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Return the JSON reply; raise GoneError without a reply, RefusedError for an error."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60.0) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            told = f"{method} {path}: {error.code} {error.read()!r}"
            raise RefusedError(error.code, told) from error
        except (OSError, ValueError, EOFError) as error:
            raise GoneError(str(error)) from error
