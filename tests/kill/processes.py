"""The processes of one service, found by what they were started with."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What a command line says of what a process is; the first that fits.
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
    """One that runs now. Of the slots it is the daemons and the children they forked."""

    pid: int
    kind: str
    parent: int
    builds: bool  # a builder or its child: what it runs may start the linker


def processes(marker: str) -> list[Process]:
    """Return every process whose environment holds `marker`, but this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # gone, or somebody else's
        if marker.encode() in environ:
            kind = next((kind for text, kind in KINDS if text in command), "other")
            builds = '"programs": true' in command
            found.append(Process(int(entry.name), kind, parent, builds))
    return found


def state(pid: int) -> str:
    """Return what a process is doing, as one letter of `ps`; "X" where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "X"
    return stat.rpartition(")")[2].split()[0]


def lives(pid: int) -> bool:
    """Return whether a process is there and more than a corpse that nobody has collected."""
    return state(pid) not in "ZX"


def descriptors(pid: int) -> int:
    """Return how many files a process holds open."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names are not wanted
