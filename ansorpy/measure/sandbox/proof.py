"""Attempt operations that the sandbox refuses, inside a measuring process, for `ansorpy doctor`."""

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

STATUS: Final = Path("/proc/self/status")


def held(_: object = None) -> Mapping[str, bool]:
    """Return for each privilege whether this process has lost it."""
    status = dict(line.split(":\t", 1) for line in STATUS.read_text().splitlines() if ":\t" in line)
    return {
        "gains no privileges": status["NoNewPrivs"] == "1",
        "has no capabilities": int(status["CapEff"], 16) == 0,
        "opens no sockets": not _works(_socket),
        "reaches no network": not _works(_connect),
        "starts no processes": not _works(_fork),
        "writes no files outside its folder": not _works(_write),
        "signals no other process": not _works(lambda: os.kill(os.getppid(), 0)),
    }


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _socket() -> None:
    socket.socket().close()


def _connect() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("192.0.2.1", 9))  # TEST-NET-1: needs a route, sends nothing


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _write() -> None:
    place = Path("/var/tmp") / f"ansorpy-{os.getpid()}"
    place.write_text("")
    place.unlink()
