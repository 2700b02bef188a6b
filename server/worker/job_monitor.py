"""Monitoring of one running job until it ends or its lease is lost."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.leased_job import LeasedJob, LeaseLostError
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.tuner_process import TunerProcess

DONE_S: Final = 5.0  # time for the tuner process to report the end of its job


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The reason for the end of the monitoring.

    done     the tuner process has ended the job and reported it
    taken    the lease was lost
    stuck    the database did not accept a write of the tuner process
    died     the tuner process has ended, or hangs
    stopped  the worker was asked to stop
    """

    how: Literal["done", "taken", "stuck", "died", "stopped"]
    note: str = ""


class JobMonitor:
    """Extends the lease of a job, receives messages of its tuner process, checks the claim."""

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
        self._ended_s: float | None = None  # time at which the job was first seen ended

    def run_to_end(self, stop: StopFlag) -> JobEnd:
        """Monitor the job; extend its lease and call `beat` every `heartbeat_s`.

        Raises:
            StorageError: the database accepted no write.
        """
        while True:
            end = self._listen() or self._check_lease()
            if end is not None:
                return end
            if stop.is_set():
                return JobEnd("stopped")

    def _listen(self) -> JobEnd | None:
        """Wait up to `watch_s` for a message of the tuner process, and handle it."""
        try:
            message = self._tuner.receive(self._settings.watch_s)
        except EOFError:
            return JobEnd("died", self._tuner.ended())
        if message is None:
            silent_s = self._clock() - self._heard_s
            if silent_s > self._settings.stall_s:
                return JobEnd("died", f"the tuner process was silent for {silent_s:.0f} s")
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
        """Extend the lease if that is due, else check that the claim is still valid."""
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
            case "ended":  # mostly by the tuner process, which is about to report it
                self._ended_s = now_s if self._ended_s is None else self._ended_s
                return JobEnd("taken") if now_s - self._ended_s > DONE_S else None
