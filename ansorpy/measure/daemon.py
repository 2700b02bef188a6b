"""The process that owns a core set: it forks one disposable child and supervises its calls.

Run as a script, with one JSON argument (`Orders`), by `ansorpy.measure.slot.Worker`. It uses the
standard library only, never runs a candidate itself, and stays single-threaded, so that its
children start warm in milliseconds and may die in any way.

    client --(frame: header, blob)--> daemon --(blob)--> child      a call
    client <--(frame: header, blob)-- daemon <--(blob)-- child      its answer

A header is JSON, a blob belongs to client and child. Reply headers: {"is": "ready"} once;
{"is": "answer"}; {"is": "died", "status": wait status}; {"is": "late"}; the last two carry
"note" (what the child was doing), "fault" (address or null) and "excerpt" (its output).
The daemon ends when its standard input does: no orphan survives the client.
"""

import ctypes
import fcntl
import gc
import importlib
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

HEADER: Final = struct.Struct("<II")  # header bytes, blob bytes
LENGTH: Final = struct.Struct("<I")
NOTE: Final = struct.Struct("<QI")  # fault address (0: none), note bytes
BOX_BYTES: Final = 16 * 1024
EXCERPT_BYTES: Final = 2_000
PDEATHSIG: Final = 1  # prctl option
CONFINE: Final = "ansorpy.measure.sandbox.confine:confine"

Orders = dict[str, Any]


def read_exactly(fd: int, count: int) -> bytes:
    """Return `count` bytes; EOFError where the other side closed first."""
    parts = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def send(fd: int, header: dict[str, Any], blob: bytes = b"") -> None:
    """Write one frame."""
    text = json.dumps(header).encode()
    write_all(fd, HEADER.pack(len(text), len(blob)) + text + blob)


def receive(fd: int) -> tuple[dict[str, Any], bytes]:
    """Read one frame."""
    text, blob = HEADER.unpack(read_exactly(fd, HEADER.size))
    return json.loads(read_exactly(fd, text)), read_exactly(fd, blob)


def find(name: str) -> Callable[..., Any]:
    """Return the function called "package.module:function"."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]


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
        with suppress(ProcessLookupError, PermissionError):  # whoever is first, child or we
            os.setpgid(self.pid, self.pid)
        self.exit_fd = os.pidfd_open(self.pid)

    def end(self) -> int:
        """Kill the whole group, collect the child, close what it held; return its wait status."""
        # Before the wait: as long as the child is not collected its number belongs to it.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.link.close()
        os.close(self.exit_fd)
        os.close(self.output)
        return status

    def excerpt(self) -> str:
        """Return the end of what the child printed since the last call."""
        size = os.fstat(self.output).st_size
        data = os.pread(self.output, EXCERPT_BYTES, max(0, size - EXCERPT_BYTES))
        return data.decode(errors="replace")


def _be_child(
    orders: Orders, box: mmap.mmap, link: socket.socket, output: int, parent: int
) -> None:
    """Run calls until the daemon closes the link; never returns."""
    status = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        link_fd = link.fileno()
        for fd in (1, 2):
            os.dup2(output, fd)
        for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            if fd > 2 and fd != link_fd:
                with suppress(OSError):  # that of the listing itself
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
        os._exit(status)  # never back into the daemon's stack


def _limit(orders: Orders) -> None:
    limits = orders["limits"]
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    wanted = {
        resource.RLIMIT_AS: mapped + limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CPU: limits["cpu_s"],
        resource.RLIMIT_CORE: 0,
    }
    for what, value in wanted.items():
        _, hard = resource.getrlimit(what)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def _was_killed(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


class Daemon:
    """The supervisor: at most one child, at most one call at a time."""

    def __init__(self, orders: Orders, inlet: int, outlet: int) -> None:
        self.orders = orders
        self.inlet = inlet
        self.outlet = outlet
        self.box = mmap.mmap(-1, BOX_BYTES)  # shared with the child: survives its death
        self.child: Child | None = None
        self.calls = 0  # that the present child has answered

    def run(self) -> None:
        """Answer calls until the client closes its end."""
        while True:
            header, blob = receive(self.inlet)
            if header["fresh"]:
                self.retire()
            served = self.calls
            reply, answer = self._call(header["timeout_s"], blob)
            if reply["is"] == "died" and (served or _was_killed(reply["status"])):
                # An earlier candidate may have hurt the child, or somebody killed it: the accused
                # gets a fresh one.
                reply, answer = self._call(header["timeout_s"], blob)
            send(self.outlet, reply, answer)

    def retire(self) -> None:
        """End the present child, if there is one."""
        if self.child is not None:
            self.child.end()
        self.child, self.calls = None, 0

    def _call(self, timeout_s: float, blob: bytes) -> tuple[dict[str, Any], bytes]:
        deadline = time.monotonic() + timeout_s
        self.box[: NOTE.size] = NOTE.pack(0, 0)
        if self.child is None:
            self.child = Child(self.orders, self.box)
        child = self.child
        os.ftruncate(child.output, 0)
        try:
            write_all(child.link.fileno(), LENGTH.pack(len(blob)) + blob)
            answer = self._answer(child, deadline)
        except (EOFError, ConnectionError):
            answer = None
        except TimeoutError:
            return self._report("late"), b""
        if answer is None:
            return self._report("died"), b""
        self.calls += 1
        return {"is": "answer", "excerpt": child.excerpt()}, answer

    def _answer(self, child: Child, deadline: float) -> bytes | None:
        """Return the child's answer, None if it exited; TimeoutError, or EOFError likewise."""
        link = child.link.fileno()
        poll = select.poll()
        for fd in (link, child.exit_fd, self.inlet):
            poll.register(fd, select.POLLIN)
        while True:
            left_s = deadline - time.monotonic()
            ready = {fd for fd, _ in poll.poll(max(0.0, left_s) * 1e3)}
            if link in ready:
                (count,) = LENGTH.unpack(read_exactly(link, LENGTH.size))
                return read_exactly(link, count)
            if child.exit_fd in ready:
                return None
            if self.inlet in ready:  # the client is gone: it never speaks during a call
                raise SystemExit(0)
            if left_s <= 0:
                raise TimeoutError

    def _report(self, what: str) -> dict[str, Any]:
        assert self.child is not None
        fault, size = NOTE.unpack_from(self.box)
        note = self.box[NOTE.size : NOTE.size + min(size, BOX_BYTES - NOTE.size)]
        if what == "died":  # let it finish dying, so that the status is its own
            poll = select.poll()
            poll.register(self.child.exit_fd, select.POLLIN)
            poll.poll(1000)
        excerpt = self.child.excerpt()
        status = self.child.end()
        self.child, self.calls = None, 0
        return {
            "is": what, "status": status, "fault": fault or None,
            "note": note.decode(errors="replace"), "excerpt": excerpt,
        }  # fmt: skip


def main(orders: Orders) -> None:
    """Take the private copies of the pipes, preload, then serve."""
    inlet, outlet = os.dup(0), os.dup(1)
    with Path(os.devnull).open("r+b") as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, orders["importing"])
    daemon = Daemon(orders, inlet, outlet)
    find(CONFINE)  # loaded before the first fork, so that no child has to
    for name in orders["preload"]:
        importlib.import_module(name)
    for name in orders["warm"]:
        find(name)(daemon.box)
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    if threads != 1:
        raise SystemExit(f"{threads} threads after preloading: forking would not be safe")
    os.sched_setaffinity(0, orders["cores"])
    gc.collect()
    gc.freeze()  # so that collections in the children do not copy the pages shared with us
    send(outlet, {"is": "ready"})
    try:
        daemon.run()
    except (EOFError, BrokenPipeError):
        pass
    finally:
        daemon.retire()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
