"""Watching one job of one driver until something ends it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ansorpy.server.settings import Settings
from ansorpy.server.worker.held import Held, LostError
from ansorpy.server.worker.process import DriverProcess
from ansorpy.server.worker.stop import Stop

DONE_S: Final = 5.0  # how long a driver may take to say that it ended its job


@dataclass(frozen=True, slots=True)
class End:
    """Why the watching is over.

    done     the driver ended the job, with success or without, and says so
    taken    the job is not ours any more
    stuck    the driver could not store what it had to
    died     the driver ended, or hung
    stopped  we were asked to stop
    """

    how: Literal["done", "taken", "stuck", "died", "stopped"]
    note: str = ""


class Watch:
    """Extends the lease, listens to the driver, and looks whether the job is still ours."""

    def __init__(
        self,
        held: Held,
        driver: DriverProcess,
        settings: Settings,
        beat: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._held = held
        self._driver = driver
        self._settings = settings
        self._beat = beat
        self._clock = clock
        self._heard_s = self._beat_s = clock()
        self._ended_s: float | None = None  # since when the job has been over

    def until_the_end(self, stop: Stop) -> End:
        """Watch; the lease is extended every `heartbeat_s`, `beat` is called along with it.

        Raises:
            StorageError: the database stayed away.
        """
        while True:
            end = self._listen() or self._look()
            if end is not None:
                return end
            if stop.is_set():
                return End("stopped")

    def _listen(self) -> End | None:
        """Take in what the driver says, for `watch_s` at most."""
        try:
            message = self._driver.receive(self._settings.watch_s)
        except EOFError:
            return End("died", self._driver.ended())
        if message is None:
            silent_s = self._clock() - self._heard_s
            if silent_s > self._settings.stall_s:
                return End("died", f"the driver said nothing for {silent_s:.0f} s")
            return None
        self._heard_s = self._clock()
        match message["is"]:
            case "done":
                return End("done")
            case "lost":
                return End("taken")
            case "stuck":
                return End("stuck", message["reason"])
            case _:
                return None

    def _look(self) -> End | None:
        """Extend the lease where that is due, else look whether it still is ours."""
        now_s = self._clock()
        try:
            if now_s - self._beat_s < self._settings.heartbeat_s:
                return self._judge(now_s)
            self._beat_s = now_s
            self._held.keep()
            self._beat()
        except LostError:
            return self._judge(now_s)
        return None

    def _judge(self, now_s: float) -> End | None:
        match self._held.whose():
            case "ours":
                return None
            case "taken":
                return End("taken")
            case "ended":  # mostly by our driver, which is about to say so
                self._ended_s = now_s if self._ended_s is None else self._ended_s
                return End("taken") if now_s - self._ended_s > DONE_S else None
