"""The parent's side of a worker process: every call ends with a `Reply`, even if processes die."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from ansorpy.errors import RunError, WireError
from ansorpy.measure.sandbox import family
from ansorpy.measure.values import encode
from ansorpy.measure.workers import frames
from ansorpy.measure.workers.answers import codec_of, limit_bytes
from ansorpy.measure.workers.codec import Codec
from ansorpy.measure.workers.forked import EXCERPT_BYTES
from ansorpy.measure.workers.launch import launch
from ansorpy.measure.workers.replies import Died, Misbehaved, Raised, Reply, Returned, TimedOut
from ansorpy.measure.workers.spec import WorkerSpec

GRACE_S: Final = 10.0  # seconds of silence after a time-out, then the fork server is killed
START_S: Final = 120.0  # seconds to import numba and llvmlite from a cold disk
END_S: Final = 1.0  # seconds for a fork server to end all of its descendants
ATTEMPTS: Final = 3  # fork servers per call: they run no candidate, so their death is no verdict


class Worker:
    """One fork server; `send` then `receive`, or `call` for both."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        self._timeout_s = self._sent_s = 0.0
        self._ready = False
        self._call: tuple[dict[str, Any], bytes] = ({}, b"")  # in progress
        self._codec: Codec | None = None  # codec of the answer to the call
        self._left = 0  # fork servers that may still be started for the call
        # The receiver of the reply to the call in the background, while there is one.
        self._in_background: Callable[[Reply], object] | None = None

    def start(self) -> None:
        """Start the fork server unless it runs; it preloads while the caller goes on."""
        if self._process is None:
            self._process = launch(self.spec)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when `receive` would not block."""
        return self._pipes()[1]

    @property
    def busy(self) -> bool:
        """True if a call in the background is still in progress."""
        return self._in_background is not None and not self._readable(0.0)

    @property
    def idle(self) -> bool:
        """True if the fork server has started and would answer a call at once."""
        if not self._ready and self._process is not None and self._readable(0.0):
            with suppress(EOFError, TimeoutError):  # the next call starts another fork server
                self._frame(0.0)
                self._ready = True
        return self._ready and not self.busy

    def call_in_background(
        self,
        function: str,
        argument: object,
        timeout_s: float,
        then: Callable[[Reply], object] = lambda reply: None,
        *,
        fresh: bool = False,
    ) -> None:
        """Call `function(argument)`; the next call waits for its end and hands `then` the reply."""
        self.send(function, argument, timeout_s, fresh=fresh)
        self._in_background = then

    def join(self) -> None:
        """Wait for the end of a call in the background, if there is one."""
        then, self._in_background = self._in_background, None
        if then is not None:
            then(self.receive())

    def send(
        self, function: str, argument: object, timeout_s: float, *, fresh: bool = False
    ) -> None:
        """Call `function(argument)` ("module:function"); `fresh`: in a new child."""
        self.join()
        self._timeout_s = timeout_s
        self._codec = codec_of(function, argument)
        limit = limit_bytes(self._codec)
        header = {"timeout_s": timeout_s, "fresh": fresh, "limit_bytes": limit}
        self._call = header, encode((function, argument))
        self._left = ATTEMPTS
        self._send()

    def patience_s(self) -> float:
        """Return the seconds until a silent fork server counts as lost; it may try twice."""
        return max(0.0, self._sent_s + self._timeout_s * 2 + GRACE_S - time.monotonic())

    def receive(self) -> Reply:
        """Return the reply to the call in progress; a silent fork server counts as timed out.

        If the fork server was killed, another one gets the call.
        """
        while True:
            try:
                reply = self._reply(*self._frame(self.patience_s()))
            except TimeoutError:
                self.kill()
                return TimedOut(self._timeout_s, "", "the worker process did not answer")
            except (EOFError, ConnectionError):
                excerpt = self._stderr_excerpt()
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
        """Close the input of the fork server, which then ends itself and its child."""
        if self._process is not None:
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()

    def close(self) -> None:
        """End the fork server and its child; kill them if that takes longer than two seconds."""
        self.dismiss()
        if self._process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2.0)
        self.kill()

    def kill(self) -> None:
        """Kill the fork server and all of its descendants; the next `send` starts another."""
        process, self._process, self._ready = self._process, None, False
        self._in_background = None
        if process is None:
            return
        if process.returncode is None:  # not collected yet, so the process id is not reused
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
        """Hand the call to the fork server; it may have been killed while it was idle."""
        while True:
            self._left -= 1
            self._await_ready()
            try:
                frames.send(self._pipes()[0], *self._call)
                self._sent_s = time.monotonic()
            except BrokenPipeError:
                self.kill()
                if self._left <= 0:
                    raise RunError(
                        f"cannot measure because a worker process died {ATTEMPTS} times in a row"
                    ) from None
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
                excerpt = self._stderr_excerpt()
                self.kill()
                if not left:
                    raise RunError(f"cannot start a worker process: {excerpt}") from error

    def _frame(self, timeout_s: float) -> tuple[Mapping[str, Any], bytearray]:
        if not self._readable(timeout_s):
            raise TimeoutError
        limit = 0 if self._codec is None else limit_bytes(self._codec)
        return frames.receive(self.fileno(), limit)

    def _readable(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(timeout_s * 1e3))

    def _stderr_excerpt(self) -> str:
        assert self._process is not None
        family.end_session(self._process.pid)
        _, text = self._process.communicate()
        return text.decode(errors="replace")[-EXCERPT_BYTES:]

    def _reply(self, header: Mapping[str, Any], blob: bytearray) -> Reply | None:
        """Return the reply in a frame; None if an earlier candidate may have damaged the child."""
        excerpt = header["excerpt"]
        match header["is"]:
            case "answer":
                return self._answer(header, blob)
            case "late":
                return TimedOut(self._timeout_s, header["note"], excerpt)
            case "broke":
                return Misbehaved(header["why"], header["note"], excerpt)
            case _:
                code = os.waitstatus_to_exitcode(header["status"])
                return Died(code, header["note"], header["fault"], excerpt)

    def _answer(self, header: Mapping[str, Any], blob: bytearray) -> Reply | None:
        assert self._codec is not None
        split, excerpt = header["split"], header["excerpt"]
        try:
            value = self._codec.decode(bytes(blob[:split]), memoryview(blob)[split:])
        except WireError as error:
            frames.send(self._pipes()[0], {"retire": True, "fresh": True})
            if header["served"]:
                return None
            return Misbehaved(f"no answer: {error}", "", excerpt)
        return value if isinstance(value, Raised) else Returned(value, excerpt)
