"""Processes of one service, found by their environment and command line."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Kind of a process by a part of its command line; the first match counts.
KINDS: Final = (
    ("ansorpy.server.worker.tuner_main", "tuner"),
    ("tests.storm.tuner", "tuner"),
    ("ansorpy.server.worker", "worker"),
    ("tests.storm.worker", "worker"),
    ("measure/workers/fork_server.py", "slot"),
    ("serve", "server"),
)
VICTIMS: Final = ("server", "worker", "tuner", "slot")


@dataclass(frozen=True, slots=True)
class Process:
    """A running process. The kind `slot` has fork servers and their children."""

    pid: int
    kind: str
    parent: int
    builds: bool  # a builder or its child, whose processes include the linker


def processes(marker: str) -> list[Process]:
    """Return every process with `marker` in its environment, except this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # ended, or of another user
        if marker.encode() in environ:
            kind = next((kind for text, kind in KINDS if text in command), "other")
            builds = '"programs": true' in command
            found.append(Process(int(entry.name), kind, parent, builds))
    return found


def state(pid: int) -> str:
    """Return the state of a process, as a letter of `ps`; "X" if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "X"
    return stat.rpartition(")")[2].split()[0]


def lives(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    return state(pid) not in "ZX"


def descriptors(pid: int) -> int:
    """Return the number of open files of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names are not wanted
