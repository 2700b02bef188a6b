"""A forked child process and its preparation before the first call. Standard library only."""

import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import traceback
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any, Final

from ansorpy.measure.sandbox import family
from ansorpy.measure.workers.frames import find
from ansorpy.parent import end_with_parent

NOTE: Final = Struct("<QI")  # fault address (0: none), note bytes
BOX_BYTES: Final = 16 * 1024
EXCERPT_BYTES: Final = 2_000
CONFINE: Final = "ansorpy.measure.sandbox.confine:confine"

Orders = dict[str, Any]


class Child:
    """One forked process, in a group of its own; its output goes to a bounded memory file."""

    def __init__(self, orders: Orders, box: mmap.mmap) -> None:
        self.output = os.memfd_create("output")
        flags = fcntl.fcntl(self.output, fcntl.F_GETFL)
        fcntl.fcntl(self.output, fcntl.F_SETFL, flags | os.O_APPEND)
        self.link, theirs = socket.socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self.link.close()
            _be_child(orders, box, theirs, self.output, parent)
        theirs.close()
        with suppress(ProcessLookupError, PermissionError):  # the child does so, too
            os.setpgid(self.pid, self.pid)
        self.exit_fd = os.pidfd_open(self.pid)

    def end(self) -> int:
        """Kill the process group, collect the child, close its files; return its wait status."""
        # Before the wait: the process id cannot be reused until the child is collected.
        # No process can leave the group: see `sandbox.seccomp`.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        family.collect()
        self.link.close()
        os.close(self.exit_fd)
        os.close(self.output)
        return status

    def excerpt(self) -> str:
        """Return the end of the output of the child since the last call."""
        size = os.fstat(self.output).st_size
        data = os.pread(self.output, EXCERPT_BYTES, max(0, size - EXCERPT_BYTES))
        return data.decode(errors="replace").replace("\0", "")

    def threads(self) -> int:
        """Return how many threads the child has."""
        with suppress(FileNotFoundError):
            return len(os.listdir(f"/proc/{self.pid}/task"))  # noqa: PTH208 - after each call
        return 0

    def speaks(self) -> bool:
        """Return whether there is something to read from the child."""
        poll = select.poll()
        poll.register(self.link.fileno(), select.POLLIN)
        return bool(poll.poll(0))


def _be_child(
    orders: Orders, box: mmap.mmap, link: socket.socket, output: int, parent: int
) -> None:
    """Run calls until the fork server closes the link; never returns."""
    status = 1
    try:
        os.setpgid(0, 0)
        end_with_parent()
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        link_fd = link.fileno()
        for fd in (1, 2):
            os.dup2(output, fd)
        for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            if fd > 2 and fd != link_fd:
                with suppress(OSError):  # the descriptor of the listing itself
                    os.close(fd)
        _limit(orders)
        find(CONFINE)(orders["sandbox"])
        serve = find(orders["serve"])
        serve(link_fd, box)
        status = 0
    except (EOFError, ConnectionError):
        status = 0
    except BaseException:  # noqa: BLE001 - the boundary of a process: all goes to the excerpt
        traceback.print_exc()
    finally:
        os._exit(status)  # never return into the stack of the fork server


def _limit(orders: Orders) -> None:
    limits = orders["limits"]
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    space = (
        resource.RLIM_INFINITY if orders["sandbox"]["devices"] else mapped + limits["memory_bytes"]
    )
    wanted = {
        resource.RLIMIT_AS: space,
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_CORE: 0,
    }
    for what, value in wanted.items():
        _, hard = resource.getrlimit(what)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))
