"""The fork server of a worker: owns a set of cores, forks disposable children, supervises calls.

Run as a script, with one JSON argument (`Orders`), by `workers.worker.Worker`. It uses the
standard library only, runs no candidate itself, and stays single-threaded, so that its children
start warm in milliseconds and may die in any way.

    client --(frame: header, blob)--> fork server --(number, blob)--> child      a call
    client <--(frame: header, blob)-- fork server <--(number, blob)-- child      its answer

A header is JSON; client and child define the blob. Reply headers: {"is": "ready"} once;
{"is": "answer"}; {"is": "died", "status": wait status}; {"is": "late"}; {"is": "broke", "why"};
the last three carry "note" (the phase of the child), "fault" (address or null) and "excerpt"
(the output of the child). The fork server ends at the end of its standard input, so that no orphan
survives the client.

The fork server does not trust the child. Each call has a random number that the answer must repeat;
sizes are checked before memory is allocated; every wait ends at the deadline of the call; a child
that breaks a rule, or writes outside of a call, is killed and replaced.
"""

import ctypes
import gc
import importlib
import json
import mmap
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ansorpy.measure.sandbox import scratch, usage
from ansorpy.measure.workers.forked import BOX_BYTES, CONFINE, NOTE, Child, Orders
from ansorpy.measure.workers.frames import ANSWER, CALL, NUMBER_BYTES, find, receive, send

SUBREAPER: Final = 36  # prctl option
WATCH_S: Final = 0.5  # seconds between two checks of a child's resource usage


class RuleBroken(Exception):  # noqa: N818 - an outcome of the child, not an error in this process
    """The child broke a rule of the protocol or exceeded a limit."""


def _was_killed(reply: dict[str, Any]) -> bool:
    status = reply["status"]
    died = reply["is"] == "died"
    return died and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


class ForkServer:
    """Supervisor of at most one child and at most one call at a time."""

    def __init__(self, orders: Orders, inlet: int, outlet: int) -> None:
        self.orders = orders
        self.inlet = inlet
        self.outlet = outlet
        self.box = mmap.mmap(-1, BOX_BYTES)  # shared with the child: survives its death
        self.child: Child | None = None
        self.calls = 0  # calls that the present child has answered
        self.looked = 0.0  # time of the last check of its resource usage

    def run(self) -> None:
        """Answer calls until the client closes its end."""
        while True:
            header, blob = receive(self.inlet)
            # Output of a child outside of a call is no answer: retire the child.
            if header["fresh"] or (self.child is not None and self.child.speaks()):
                self.retire()
            if header.get("retire"):
                continue
            reply, answer = self._call(header, blob)
            if reply["is"] in ("died", "broke") and (reply["served"] or _was_killed(reply)):
                # An earlier candidate may have damaged the child, or another process killed it:
                # repeat the call in a fresh child.
                reply, answer = self._call(header, blob)
            send(self.outlet, reply, answer)

    def retire(self) -> None:
        """End the present child, if there is one."""
        if self.child is not None:
            self._end(self.child)

    def _end(self, child: Child) -> int:
        """Kill the child and its descendants, empty its scratch folder; return its wait status."""
        status = child.end()
        self.child, self.calls = None, 0
        if self.orders["sandbox"]["folder"] != "/":
            scratch.empty(self.orders["sandbox"]["folder"])
        return status

    def _call(
        self, header: dict[str, Any], blob: bytearray
    ) -> tuple[dict[str, Any], bytes | bytearray]:
        deadline = time.monotonic() + header["timeout_s"]
        self.box[: NOTE.size] = NOTE.pack(0, 0)
        if self.child is None:
            if self.orders["sandbox"]["seeds"]:
                scratch.fill(self.orders["sandbox"]["folder"], self.orders["sandbox"]["seeds"])
            self.child = Child(self.orders, self.box)
        child, served = self.child, self.calls
        os.ftruncate(child.output, 0)
        try:
            answer, split = self._exchange(child, blob, deadline, header["limit_bytes"])
        except (EOFError, ConnectionError):
            return self._report("died", served), b""
        except TimeoutError:
            return self._report("late", served), b""
        except RuleBroken as broke:
            return {**self._report("broke", served), "why": str(broke)}, b""
        self.calls += 1
        reply = {"is": "answer", "excerpt": child.excerpt(), "split": split, "served": served}
        sandbox = self.orders["sandbox"]
        if not (sandbox["binds"] or sandbox["devices"]) and child.threads() > 1:
            self.retire()  # a thread that outlives its call could answer the next one
        return reply, answer

    def _exchange(
        self, child: Child, blob: bytearray, deadline: float, limit_bytes: int
    ) -> tuple[bytearray, int]:
        """Return the child's answer and the size of its first part.

        Raises:
            EOFError, ConnectionError: the child exited.
            TimeoutError: the deadline is over.
            RuleBroken: the answer belongs to another call, or is too large.
        """
        number = os.urandom(NUMBER_BYTES)
        self._check(child)
        self._give(child, CALL.pack(number, len(blob)) + blob, deadline)
        repeated, first, second = ANSWER.unpack(self._take(child, ANSWER.size, deadline))
        if repeated != number:
            raise RuleBroken("its answer does not repeat the number of the call")
        if first + second > limit_bytes:
            raise RuleBroken(f"an answer of {first + second} bytes; expected at most {limit_bytes}")
        return self._take(child, first + second, deadline), first

    def _give(self, child: Child, data: bytes | bytearray, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._await(child, select.POLLOUT, deadline)
            with suppress(BlockingIOError):
                view = view[child.link.send(view, socket.MSG_DONTWAIT) :]

    def _take(self, child: Child, count: int, deadline: float) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            self._await(child, select.POLLIN, deadline)
            with suppress(BlockingIOError):
                got = child.link.recv_into(view, 0, socket.MSG_DONTWAIT)
                if not got:
                    raise EOFError
                view = view[got:]
        return data

    def _await(self, child: Child, event: int, deadline: float) -> None:
        """Wait until the link is ready; EOFError if the child exited, TimeoutError likewise."""
        link = child.link.fileno()
        poll = select.poll()
        poll.register(link, event)
        for fd in (child.exit_fd, self.inlet):
            poll.register(fd, select.POLLIN)
        while True:
            left_s = deadline - time.monotonic()
            ready = {fd for fd, _ in poll.poll(max(0.0, min(left_s, WATCH_S)) * 1e3)}
            if link in ready:
                return
            if child.exit_fd in ready:
                raise EOFError
            if self.inlet in ready:  # the client is gone: it sends nothing during a call
                raise SystemExit(0)
            if left_s <= 0:
                raise TimeoutError
            self._check(child)

    def _check(self, child: Child) -> None:
        """Check the resource usage of the child, at most every `WATCH_S`.

        Raises:
            RuleBroken: the child exceeds a limit.
        """
        now = time.monotonic()
        if now - self.looked >= WATCH_S:
            self.looked = now
            why = usage.excess(child.pid, self.orders)
            if why:
                raise RuleBroken(why)

    def _report(self, what: str, served: int) -> dict[str, Any]:
        assert self.child is not None
        fault, size = NOTE.unpack_from(self.box)
        note = self.box[NOTE.size : NOTE.size + min(size, BOX_BYTES - NOTE.size)]
        if what == "died":  # wait for its end, so that the wait status is final
            poll = select.poll()
            poll.register(self.child.exit_fd, select.POLLIN)
            poll.poll(1000)
        excerpt = self.child.excerpt()
        status = self._end(self.child)
        return {
            "is": what, "status": status, "fault": fault or None, "served": served,
            "note": note.decode(errors="replace"), "excerpt": excerpt,
        }  # fmt: skip


def main(orders: Orders) -> None:
    """Take the private copies of the pipes, preload, then serve."""
    inlet, outlet = os.dup(0), os.dup(1)
    with Path(os.devnull).open("r+b") as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    sandbox = orders["sandbox"]
    if sandbox["scratch"] and scratch.bound(sandbox["folder"], orders["limits"]["folder_bytes"]):
        sandbox["counted"] = False  # the kernel counts
    os.sched_setaffinity(0, orders["importing"])
    server = ForkServer(orders, inlet, outlet)
    find(CONFINE)  # loaded before the first fork, so that no child has to
    for name in orders["preload"]:
        importlib.import_module(name)
    for name in orders["warm"]:
        find(name)(server.box)
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    if threads != 1:
        raise SystemExit(f"{threads} threads after preloading: forking would not be safe")
    os.sched_setaffinity(0, orders["cores"])
    gc.collect()
    gc.freeze()  # so that collections in the children do not copy the pages shared with us
    # After the imports: before them there is no child, and the default action ends this process.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    send(outlet, {"is": "ready"})
    try:
        server.run()
    except (EOFError, BrokenPipeError):
        pass
    finally:
        server.retire()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
