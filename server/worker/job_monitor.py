"""Watching one job of one driver until something ends it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.leased_job import LeasedJob, LeaseLostError
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.tuner_process import TunerProcess

DONE_S: Final = 5.0  # how long a driver may take to say that it ended its job


@dataclass(frozen=True, slots=True)
class JobEnd:
    """Why the watching is over.

    done     the driver ended the job, with success or without, and says so
    taken    the job is not ours any more
    stuck    the driver could not store what it had to
    died     the driver ended, or hung
    stopped  we were asked to stop
    """

    how: Literal["done", "taken", "stuck", "died", "stopped"]
    note: str = ""


class JobMonitor:
    """Extends the lease, listens to the driver, and looks whether the job is still ours."""

    def __init__(
        self,
        leased: LeasedJob,
        tuner: TunerProcess,
        settings: ServiceSettings,
        beat: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leased = leased
        self._tuner = tuner
        self._settings = settings
        self._beat = beat
        self._clock = clock
        self._heard_s = self._beat_s = clock()
        self._ended_s: float | None = None  # since when the job has been over

    def run_to_end(self, stop: StopFlag) -> JobEnd:
        """Watch; the lease is extended every `heartbeat_s`, `beat` is called along with it.

        Raises:
            StorageError: the database stayed away.
        """
        while True:
            end = self._listen() or self._check_lease()
            if end is not None:
                return end
            if stop.is_set():
                return JobEnd("stopped")

    def _listen(self) -> JobEnd | None:
        """Take in what the driver says, for `watch_s` at most."""
        try:
            message = self._tuner.receive(self._settings.watch_s)
        except EOFError:
            return JobEnd("died", self._tuner.ended())
        if message is None:
            silent_s = self._clock() - self._heard_s
            if silent_s > self._settings.stall_s:
                return JobEnd("died", f"the driver said nothing for {silent_s:.0f} s")
            return None
        self._heard_s = self._clock()
        match message["is"]:
            case "done":
                return JobEnd("done")
            case "lost":
                return JobEnd("taken")
            case "stuck":
                return JobEnd("stuck", message["reason"])
            case _:
                return None

    def _check_lease(self) -> JobEnd | None:
        """Extend the lease where that is due, else look whether it still is ours."""
        now_s = self._clock()
        try:
            if now_s - self._beat_s < self._settings.heartbeat_s:
                return self._check_ownership(now_s)
            self._beat_s = now_s
            self._leased.extend_lease()
            self._beat()
        except LeaseLostError:
            return self._check_ownership(now_s)
        return None

    def _check_ownership(self, now_s: float) -> JobEnd | None:
        match self._leased.ownership():
            case "ours":
                return None
            case "taken":
                return JobEnd("taken")
            case "ended":  # mostly by our driver, which is about to say so
                self._ended_s = now_s if self._ended_s is None else self._ended_s
                return JobEnd("taken") if now_s - self._ended_s > DONE_S else None
