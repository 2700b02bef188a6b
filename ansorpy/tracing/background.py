"""The background tuning: one at a time in a process, each in a child of low priority."""

import atexit
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import ansorpy
from ansorpy.tracing.answers import KeptAnswer, known

LOG: Final = "tuning.log"  # errors of the last child

Then = Callable[[KeptAnswer | None], None]  # None: the child ended without an answer


class Background:
    """A queue of works, and one daemon thread that tunes them in turn.

    Linux ends the child when the thread ends, that is with the process, however that ends.
    """

    def __init__(self) -> None:
        self._jobs: queue.Queue[tuple[Path, int, Then]] = queue.Queue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        atexit.register(self.stop)

    def add(self, folder: Path, trials: int, then: Then) -> None:
        """Tune the work of a folder after the works before it, and call `then` with the answer."""
        self._jobs.put((folder, trials, then))
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._serve, name="ansorpy-jit-tuning", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """End the child that runs."""
        child = self._child
        if child is not None and os.getpid() == self._pid:  # not in a fork
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def _serve(self) -> None:
        while True:
            folder, trials, then = self._jobs.get()
            try:
                ended = self._tune(folder, trials)
            except OSError:  # the folder was deleted, or there is no memory for a process
                ended = False
            then(known(folder) if ended else None)

    def _tune(self, folder: Path, trials: int) -> bool:
        """Return True if the child chose an answer."""
        root = str(Path(ansorpy.__file__).parent.parent)
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [sys.executable, "-m", "ansorpy.tracing.child", str(folder), str(trials)]
        with (folder / LOG).open("wb") as log:
            self._child = subprocess.Popen(
                [*command, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C of the terminal does not reach it
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
            ended = self._child.wait()
        self._child = None
        return ended == 0


BACKGROUND: Final = Background()
