"""A worker process on its own cores, seen from the parent: a call gives a value, whatever dies."""

import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ansorpy.errors import RunError, WireError
from ansorpy.measure.sandbox import family
from ansorpy.measure.sandbox.environment import harmless
from ansorpy.measure.sandbox.ladder import Mode, climb
from ansorpy.measure.workers import fork_server, frames
from ansorpy.measure.workers.answers import codec_of, limit_bytes
from ansorpy.measure.workers.forked import EXCERPT_BYTES
from ansorpy.measure.workers.wire import Codec

GRACE_S: Final = 10.0  # how long after its own time-out a daemon may stay silent
START_S: Final = 120.0  # numba and llvmlite from a cold disk
END_S: Final = 1.0  # for a daemon to end all that descends from it
ATTEMPTS: Final = 3  # a daemon runs no candidate: where one dies, it is nobody's fault here
SERVE: Final = "ansorpy.measure.workers.child:serve"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one child may use; memory counts on top of what its daemon has mapped."""

    memory_bytes: int = 4 << 30  # limit of each process, and of their sum
    file_bytes: int = 16 << 20  # limit of each file
    folder_bytes: int = 256 << 20  # limit of the sum of all files in the scratch folder
    open_files: int = 256  # a pipe holds up to a megabyte
    cpu_s: int = -1  # unlimited: the supervisor's time-outs count wall time


@dataclass(frozen=True)
class Spec:
    """How to start a worker: its cores, what its daemon preloads, its environment."""

    cores: frozenset[int]
    importing: frozenset[int] = frozenset()  # the cores it imports on; none: its own
    preload: tuple[str, ...] = ()  # modules
    warm: tuple[str, ...] = ()  # "module:function", called with the black box before any fork
    env: tuple[tuple[str, str], ...] = ()
    limits: Limits = Limits()
    folder: str = "/"  # scratch: the working directory, TMPDIR, all that may be written
    reads: tuple[str, ...] = ()  # folders that may be read as well
    early: str = ""  # a folder that a child may write until it sees its first candidate
    seeds: str = ""  # a folder whose files are copied into the scratch folder of each child
    sandbox: Mode = "auto"
    programs: bool = False  # whether a child may start others: the linker
    binds: bool = False  # whether a child may choose cores: an OpenMP runtime binds its threads


@dataclass(frozen=True, slots=True)
class Answer:
    """The function returned; `value` is what it returned."""

    value: Any
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised: where it was, and the exception's type, message and traceback."""

    phase: str
    error: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Died:
    """The child ended without an answer: a signal (negative) or an exit code."""

    code: int
    note: str
    fault: int | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class Late:
    """The child was killed at its time-out."""

    timeout_s: float
    note: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Broke:
    """The child was killed because its answer was none, or because it used more than it may."""

    why: str
    note: str
    excerpt: str


Reply = Answer | Raised | Died | Late | Broke


class Worker:
    """One daemon process; `send` then `receive`, or `call` for both."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        self._timeout_s = 0.0
        self._ready = False
        self._call: tuple[dict[str, Any], bytes] = ({}, b"")  # in progress
        self._codec: Codec | None = None  # codec of the answer to the call
        self._left = 0  # daemons that may still die of it
        self._begun = False  # a call whose answer nobody waits for

    def start(self) -> None:
        """Start the daemon, unless it runs; it preloads while the caller goes on."""
        if self._process is not None:
            return
        ladder = climb(self.spec.sandbox)
        orders = {
            "cores": sorted(self.spec.cores), "serve": SERVE,
            "importing": sorted(self.spec.importing or self.spec.cores),
            "preload": self.spec.preload, "warm": self.spec.warm,
            "sandbox": ladder.orders(
                self.spec.folder, self.spec.programs, self.spec.binds, self.spec.reads,
                self.spec.early, self.spec.seeds,
            ),
            "limits": {name: getattr(self.spec.limits, name) for name in Limits.__slots__},
        }  # fmt: skip
        env = {
            **harmless(os.environ), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TMPDIR": self.spec.folder, **dict(self.spec.env),
        }  # fmt: skip
        # -P: the script's own folder must not shadow other modules. A session of its own, so
        # that Ctrl-C reaches the parent only, and one kill reaches all of it.
        command = [sys.executable, "-P", fork_server.__file__, json.dumps(orders)]
        self._process = subprocess.Popen(
            ladder.wrap(
                command, self.spec.folder, self.spec.limits.folder_bytes, self.spec.early
            ),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=self.spec.folder, env=env, start_new_session=True, bufsize=0,
        )  # fmt: skip

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when `receive` has something."""
        return self._pipes()[1]

    @property
    def busy(self) -> bool:
        """Whether what was begun goes on."""
        return self._begun and not self._readable(0.0)

    @property
    def idle(self) -> bool:
        """Whether it has started, and would answer a call at once."""
        return self._ready and not self.busy

    def begin(self, function: str, argument: object, timeout_s: float) -> None:
        """Ask for `function(argument)`, for its effect: whoever calls next waits for its end."""
        self.send(function, argument, timeout_s)
        self._begun = True

    def settle(self) -> None:
        """Wait until what was begun is over."""
        if self._begun:
            self._begun = False
            self.receive()

    def send(
        self, function: str, argument: object, timeout_s: float, *, fresh: bool = False
    ) -> None:
        """Ask for `function(argument)` ("module:function"); `fresh`: in a new child."""
        self.settle()
        self._timeout_s = timeout_s
        self._codec = codec_of(function, argument)
        limit = limit_bytes(self._codec)
        header = {"timeout_s": timeout_s, "fresh": fresh, "limit_bytes": limit}
        self._call = header, pickle.dumps((function, argument))
        self._left = ATTEMPTS
        self._send()

    def receive(self) -> Reply:
        """Return the reply to the call in progress; a silent daemon counts as late.

        Where the daemon was killed, another one gets the call.
        """
        while True:
            try:
                reply = self._reply(*self._frame(self._timeout_s * 2 + GRACE_S))  # may try twice
            except TimeoutError:
                self.kill()
                return Late(self._timeout_s, "", "the worker process did not answer")
            except (EOFError, ConnectionError):
                excerpt = self._last_words()
                self.kill()
                if self._left <= 0:
                    return Died(-signal.SIGKILL, "", None, excerpt)
                self._send()
            else:
                if reply is not None:
                    return reply
                self._call[0]["fresh"] = True
                self._send()

    def call(
        self, function: str, argument: object, timeout_s: float, *, fresh: bool = False
    ) -> Reply:
        """Return the reply to `function(argument)`."""
        self.send(function, argument, timeout_s, fresh=fresh)
        return self.receive()

    def dismiss(self) -> None:
        """Let the daemon and its child end by themselves."""
        if self._process is not None:
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()

    def close(self) -> None:
        """End the daemon and its child; kill them if that takes longer than two seconds."""
        self.dismiss()
        if self._process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2.0)
        self.kill()

    def kill(self) -> None:
        """End the daemon and all that descends from it. The next `send` starts another."""
        process, self._process, self._ready = self._process, None, False
        self._begun = False
        if process is None:
            return
        if process.returncode is None:  # not collected: the number is still its own
            family.end(process.pid, END_S)
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def _pipes(self) -> tuple[int, int]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin.fileno(), self._process.stdout.fileno()

    def _send(self) -> None:
        """Hand the call to the daemon; it may have been killed while it was idle."""
        while True:
            self._left -= 1
            self._await_ready()
            try:
                frames.send(self._pipes()[0], *self._call)
            except BrokenPipeError:
                self.kill()
                if self._left <= 0:
                    raise RunError("a measuring process ended whenever it was called") from None
            else:
                return

    def _await_ready(self) -> None:
        for left in reversed(range(ATTEMPTS)):
            if self._ready:
                return
            self.start()
            try:
                self._frame(START_S)
                self._ready = True
            except (EOFError, TimeoutError) as error:
                excerpt = self._last_words()
                self.kill()
                if not left:
                    raise RunError(f"a measuring process did not start: {excerpt}") from error

    def _frame(self, patience_s: float) -> tuple[Mapping[str, Any], bytearray]:
        if not self._readable(patience_s):
            raise TimeoutError
        limit = 0 if self._codec is None else limit_bytes(self._codec)
        return frames.receive(self.fileno(), limit)

    def _readable(self, patience_s: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno(), selectors.EVENT_READ)
            return bool(selector.select(patience_s))

    def _last_words(self) -> str:
        assert self._process is not None
        family.end_session(self._process.pid)
        _, words = self._process.communicate()
        return words.decode(errors="replace")[-EXCERPT_BYTES:]

    def _reply(self, header: Mapping[str, Any], blob: bytearray) -> Reply | None:
        """Return what a frame says; None if an earlier candidate may have damaged the child."""
        excerpt = header["excerpt"]
        match header["is"]:
            case "answer":
                return self._answer(header, blob)
            case "late":
                return Late(self._timeout_s, header["note"], excerpt)
            case "broke":
                return Broke(header["why"], header["note"], excerpt)
            case _:
                code = os.waitstatus_to_exitcode(header["status"])
                return Died(code, header["note"], header["fault"], excerpt)

    def _answer(self, header: Mapping[str, Any], blob: bytearray) -> Reply | None:
        assert self._codec is not None
        split = header["split"]
        try:
            value = self._codec.decode(bytes(blob[:split]), memoryview(blob)[split:])
        except WireError as error:
            frames.send(self._pipes()[0], {"retire": True, "fresh": True})
            return None if header["served"] else Broke(f"no answer: {error}", "", header["excerpt"])
        return value if isinstance(value, Raised) else Answer(value, header["excerpt"])
