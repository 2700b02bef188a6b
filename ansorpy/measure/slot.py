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

from ansorpy.errors import RunError
from ansorpy.measure import daemon
from ansorpy.measure.sandbox.ladder import Mode, climb

GRACE_S: Final = 10.0  # how long after its own time-out a daemon may stay silent
START_S: Final = 120.0  # numba and llvmlite from a cold disk
ATTEMPTS: Final = 3  # a daemon runs no candidate: where one dies, it is nobody's fault here
SERVE: Final = "ansorpy.measure.child:serve"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one child may use; memory counts on top of what its daemon has mapped."""

    memory_bytes: int = 4 << 30
    file_bytes: int = 16 << 20
    open_files: int = 4096
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
    folder: str = "/"  # the working directory, what TMPDIR says, all that may be written
    sandbox: Mode = "auto"
    programs: bool = False  # whether a child may start others: the linker


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


Reply = Answer | Raised | Died | Late


class Worker:
    """One daemon process; `send` then `receive`, or `call` for both."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        self._timeout_s = 0.0
        self._ready = False
        self._call: tuple[dict[str, Any], bytes] = ({}, b"")  # in progress
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
            "sandbox": ladder.orders(self.spec.folder, self.spec.programs),
            "limits": {name: getattr(self.spec.limits, name) for name in Limits.__slots__},
        }  # fmt: skip
        # Settings of a service may be secrets; a candidate has no business with them.
        harmless = {k: v for k, v in os.environ.items() if not k.startswith("ANSORPY_")}
        env = {
            **harmless, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TMPDIR": self.spec.folder, **dict(self.spec.env),
        }  # fmt: skip
        # -P: the script's own folder must not shadow other modules. A session of its own, so
        # that Ctrl-C reaches the parent only, and one kill reaches all of it.
        command = [sys.executable, "-P", daemon.__file__, json.dumps(orders)]
        self._process = subprocess.Popen(
            ladder.wrap(command, self.spec.folder),
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
        header = {"timeout_s": timeout_s, "fresh": fresh}
        self._call = header, pickle.dumps((function, argument))
        self._left = ATTEMPTS
        self._send()

    def receive(self) -> Reply:
        """Return the reply to the call in progress; a silent daemon counts as late.

        Where the daemon was killed, another one gets the call.
        """
        while True:
            try:
                return self._reply(self._frame(self._timeout_s * 2 + GRACE_S))  # it may try twice
            except TimeoutError:
                self.kill()
                return Late(self._timeout_s, "", "the worker process did not answer")
            except (EOFError, ConnectionError):
                excerpt = self._last_words()
                self.kill()
                if self._left <= 0:
                    return Died(-signal.SIGKILL, "", None, excerpt)
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
        """End the daemon at once; its child dies with it. The next `send` starts another."""
        process, self._process, self._ready = self._process, None, False
        self._begun = False
        if process is None:
            return
        process.kill()
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
                daemon.send(self._pipes()[0], *self._call)
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

    def _frame(self, patience_s: float) -> tuple[Mapping[str, Any], bytes]:
        if not self._readable(patience_s):
            raise TimeoutError
        return daemon.receive(self.fileno())

    def _readable(self, patience_s: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno(), selectors.EVENT_READ)
            return bool(selector.select(patience_s))

    def _last_words(self) -> str:
        assert self._process is not None
        self._process.kill()
        _, words = self._process.communicate()
        return words.decode(errors="replace")[-daemon.EXCERPT_BYTES :]

    def _reply(self, frame: tuple[Mapping[str, Any], bytes]) -> Reply:
        header, blob = frame
        match header["is"]:
            case "answer":
                value = pickle.loads(blob)
                if isinstance(value, Raised):
                    return value
                return Answer(value, header["excerpt"])
            case "late":
                return Late(self._timeout_s, header["note"], header["excerpt"])
            case _:
                code = os.waitstatus_to_exitcode(header["status"])
                return Died(code, header["note"], header["fault"], header["excerpt"])
