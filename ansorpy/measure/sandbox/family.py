"""Find, end and collect processes by session, by group and by descent. Standard library only."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROUNDS: Final = 1_000  # rounds of a kill at most; each kills every process that it finds
END_S: Final = 1.0  # a killed process that runs longer waits for a device


@dataclass(frozen=True, slots=True)
class Member:
    """One process: its parent, group, session, and resident memory in pages."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    resident: int


def everyone() -> Iterator[Member]:
    """Yield every process of this machine that is not a zombie."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - called while candidates are built
        if not name.isdecimal():
            continue
        with suppress(OSError):
            part = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if part[0] not in "ZX":
                numbers = (int(part[at]) for at in (1, 2, 3, 21))
                yield Member(int(name), part[0], *numbers)


def end(leader: int, patience_s: float) -> None:
    """End a session through its leader, a child of ours; kill the processes left after a while."""
    with suppress(OSError):
        process = os.pidfd_open(leader)
        try:
            signal.pidfd_send_signal(process, signal.SIGTERM)
            _await_end(process, patience_s)
        finally:
            os.close(process)
    end_session(leader)


def end_session(leader: int) -> None:
    """Kill every process of a session whose leader is a child of ours that was not collected yet.

    Children of measuring processes cannot leave their session (see `sandbox.seccomp`).
    """
    for _ in range(ROUNDS):
        members = [one for one in everyone() if one.session == leader]
        if not members:
            return
        for one in members:
            _end(one.pid, leader)


def _end(pid: int, session: int) -> None:
    """Kill one process and wait until it runs no more."""
    with suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if os.getsid(pid) == session:  # the number may have been given to another process
                signal.pidfd_send_signal(process, signal.SIGKILL)
                _await_end(process, END_S)
        finally:
            os.close(process)


def _await_end(process: int, patience_s: float) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll(patience_s * 1e3)


def collect() -> None:
    """Kill and collect all descendants of this process, a subreaper.

    A descendant whose parent died becomes a child of this process.
    """
    own = os.getpid()
    with suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            children = [one.pid for one in everyone() if one.parent == own]
            for pid in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if children:
                os.waitpid(-1, 0)
