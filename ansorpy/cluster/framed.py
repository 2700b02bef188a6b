"""A process whose standard input and output carry frames."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BufferedReader
from threading import Lock, Thread
from typing import Final

from ansorpy.cluster.messages import read_frame, write_frame
from ansorpy.errors import WireError

END_S: Final = 3.0  # seconds in which a process ends by itself, and again by SIGTERM
# `end_with_parent` means the thread that started a process: this one ends with the interpreter.
_STARTER: Final = ThreadPoolExecutor(1, "starter")


class FramedProcess:
    """A running process, and a thread that reads its frames.

    Args:
        take: called with each frame, in that thread; an error in it ends the reading.
        ended: called in that thread once no frame will follow.
    """

    def __init__(
        self,
        command: Sequence[str],
        take: Callable[[bytes], object],
        ended: Callable[[], object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        own = None if environment is None else dict(environment)
        self._process = _STARTER.submit(
            lambda: subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=own,
                start_new_session=True,
            )
        ).result()
        self._take, self._ended, self._lock = take, ended, Lock()
        self.alive = True
        Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def send(self, frame: bytes, before: Callable[[], object]) -> bool:
        """Call `before` and write a frame, unless the process has ended: False."""
        with self._lock:
            if not self.alive:
                return False
            before()
            assert self._process.stdin is not None
            with suppress(OSError, ValueError):  # `ended` follows
                write_frame(self._process.stdin.fileno(), frame)
        return True

    def _read(self) -> None:
        assert self._process.stdout is not None
        with (
            BufferedReader(self._process.stdout) as stream,  # type: ignore[type-var]
            suppress(WireError, OSError, ValueError, LookupError, TypeError),
        ):
            while (frame := read_frame(stream)) is not None:
                self._take(frame)
        with self._lock:
            self.alive = False
        self._ended()

    def kill(self) -> None:
        """End the process; its own processes end with it."""
        self.alive = False  # at once: the reader notices the end later, and `send` may wait
        self._process.kill()
        self._process.wait()
        self._close_input()

    def close(self) -> None:
        """End the process, and the processes that it runs, in order."""
        self._close_input()
        for last in (False, True):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
                return
            self._process.kill() if last else self._process.terminate()
        self._process.wait()

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
